//! The reports that `linerate smb` shows, as JSON.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A user of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReport {
    /// SessionId, by which it is ended.
    pub id: u64,
    /// Who signed in.
    pub user: String,
    /// ClientGuid, the same on all connections of a client.
    pub client: String,
    /// Such as `3.1.1`.
    pub dialect: String,
    /// The algorithm of its signatures.
    pub signing: String,
    /// What it is encrypted with, where that was agreed on.
    pub cipher: Option<String>,
    /// Unsigned requests are refused.
    pub must_sign: bool,
    /// So are those that are not encrypted.
    pub must_seal: bool,
    /// The shares that it is connected to.
    pub shares: Vec<String>,
    /// How much it has open.
    pub opens: usize,
    /// Its connections, the oldest first.
    pub channels: Vec<ChannelReport>,
}

/// A connection of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelReport {
    /// Its number in this process.
    pub connection: u64,
    /// Where the client is.
    pub peer: SocketAddr,
    /// By which address it came.
    pub local: Option<SocketAddr>,
    /// The lane that serves it.
    pub lane: usize,
    /// The NUMA node of that lane.
    pub node: Option<u32>,
    /// The interface that has the address it came by.
    pub interface: Option<String>,
    /// The node of that interface: where it is another than `node`, each byte crosses between them.
    pub interface_node: Option<u32>,
    /// Requests answered, of all sessions of the connection.
    pub requests: u64,
    /// Bytes received in frames.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// A file, directory or stream that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenReport {
    /// FileId.Volatile, by which it is closed.
    pub id: u64,
    /// Its session; 0 for a durable open that waits for its client.
    pub session: u64,
    /// Who opened it.
    pub user: String,
    /// Where from.
    pub address: IpAddr,
    /// The share.
    pub share: String,
    /// Its name from the share's root; `None` once it has none.
    pub path: Option<String>,
    /// The named stream of it.
    pub stream: Option<String>,
    /// It is a directory.
    pub directory: bool,
    /// What it may do: letters of `r`, `w` and `d`.
    pub access: String,
    /// What others may do meanwhile: the same.
    pub sharing: String,
    /// What its client may keep: letters of `R`, `H` and `W`.
    pub caching: String,
    /// By a lease, and not by an oplock of this open alone.
    pub leased: bool,
    /// It outlives its connections for a while.
    pub durable: bool,
    /// Ranges that it has locked.
    pub locks: usize,
}

/// A locked range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockReport {
    /// The open that has it.
    pub open: u64,
    /// Its session.
    pub session: u64,
    /// Whose it is.
    pub user: String,
    /// The share.
    pub share: String,
    /// The file.
    pub path: Option<String>,
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
    /// Nobody else may lock or read it.
    pub exclusive: bool,
}
