//! Options of a load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use smb_auth::Credentials;
use smb_client::{Channels, Sealing, Signing, Tree};
use smb_wire::Dialect;

/// Work of every session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Reads one file from start to end, over and over.
    Read,
    /// Reads one file here and there.
    Random,
    /// Writes files of its own, over and over.
    Write,
    /// Opens one file and closes it.
    OpenClose,
    /// Mixes requests: of ten, seven ask for information of a file of its own, two read it and one writes it.
    Mixed,
    /// Nothing, but for one ECHO at the end.
    Idle,
}

/// Options of the load.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server.
    pub server: SocketAddr,
    /// Addresses of its further interfaces: the channels of a session go to these in turn, the first to the
    /// first.
    pub interfaces: Vec<SocketAddr>,
    /// Set if all sessions are those of one client.
    pub one_client: bool,
    /// Name of the share, as `\\server\share`.
    pub unc: String,
    /// Name in the share: a file to read or open, or a directory to write in.
    pub name: String,
    /// Credentials of the user.
    pub credentials: Credentials,
    /// Work of every session.
    pub work: Work,
    /// Sessions in all, shared out over the lanes.
    pub sessions: usize,
    /// Connections of each session.
    pub channels: usize,
    /// Requests under way on each connection.
    pub depth: usize,
    /// Bytes of a request.
    pub size: u32,
    /// Bytes that are written before it begins at the start again.
    pub file_size: u64,
    /// Time for which to ask.
    pub duration: Duration,
    /// Set to compare all bytes with what they were at first, or with what was written.
    pub verify: bool,
    /// Conditions under which messages are signed.
    pub signing: Signing,
    /// Conditions under which messages are encrypted.
    pub sealing: Sealing,
    /// The newest dialect that is offered.
    pub dialect_max: Dialect,
    /// Interval at which each session has one of its channels killed, which is bound again.
    pub kill_every: Option<Duration>,
    /// Process whose CPU time is reported, which is the server's.
    pub pid: Option<u32>,
}

impl Options {
    /// Makes the set of a session's channels on a lane. Where channels are killed, a wait for one ends after a time.
    pub(super) fn channels_of(&self, first: Tree) -> Channels {
        Channels::new(first, self.kill_every.map(|_| CHANNEL_PATIENCE))
    }

    /// Returns where this channel of a session goes to.
    pub(super) fn address_of(&self, channel: usize) -> SocketAddr {
        match self.interfaces.len() {
            0 => self.server,
            count => self.interfaces[channel % count],
        }
    }
}

/// State that all actors of a lane share.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) work: Work,
    pub(super) name: String,
    pub(super) length: u64,
    pub(super) size: u32,
    pub(super) file_size: u64,
    pub(super) verify: bool,
    /// SHA-256 of each piece as it was at first.
    pub(super) sums: Option<Arc<Vec<Vec<u8>>>>,
    /// Number that tells the names of one load from those of another.
    pub(super) run: u64,
}

/// Time for which a session that has lost all of its channels on a lane waits for another, and a request for its
/// answer.
const CHANNEL_PATIENCE: Duration = Duration::from_secs(20);
