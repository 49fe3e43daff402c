//! The reports that `linerate smb` shows, as JSON.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A user of one client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReport {
    /// SessionId, by which it is ended.
    pub id: u64,
    /// Name of the user.
    pub user: String,
    /// ClientGuid, the same on all connections of a client.
    pub client: String,
    /// Dialect of the session, such as `3.1.1`.
    pub dialect: String,
    /// The algorithm of its signatures.
    pub signing: String,
    /// Cipher of the session, where one was agreed on.
    pub cipher: Option<String>,
    /// Unsigned requests are refused.
    pub must_sign: bool,
    /// Unencrypted messages are refused too.
    pub must_seal: bool,
    /// The shares that it is connected to.
    pub shares: Vec<String>,
    /// Amount that it has open.
    pub opens: usize,
    /// The session's connections, the oldest first.
    pub channels: Vec<ChannelReport>,
}

/// A connection of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelReport {
    /// The connection's number in this process.
    pub connection: u64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Address of the server that it came by.
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
    /// Session of the open; 0 for a durable open that waits for its client.
    pub session: u64,
    /// User that opened the file.
    pub user: String,
    /// Address of the client.
    pub address: IpAddr,
    /// The share.
    pub share: String,
    /// Path from the share's root; `None` once it has none.
    pub path: Option<String>,
    /// The named stream of it.
    pub stream: Option<String>,
    /// Set for a directory.
    pub directory: bool,
    /// Access of the open: letters of `r`, `w` and `d`.
    pub access: String,
    /// Access of others meanwhile: the same.
    pub sharing: String,
    /// Caching of its client: letters of `R`, `H` and `W`.
    pub caching: String,
    /// Set if it caches by a lease, and not by an oplock of this open alone.
    pub leased: bool,
    /// The open outlives its connections for a while.
    pub durable: bool,
    /// Ranges that it has locked.
    pub locks: usize,
}

/// A locked range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockReport {
    /// The open that has it.
    pub open: u64,
    /// Session of the lock.
    pub session: u64,
    /// User that holds the lock.
    pub user: String,
    /// The share.
    pub share: String,
    /// The file.
    pub path: Option<String>,
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// No other open may lock or read the range.
    pub exclusive: bool,
}
