//! Facts about the server that answers tell.

use identity::{Accounts, Principal};
use smb_sid::Sids;

/// Facts of the server and the caller that pipes answer with.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The server's name, without backslashes.
    pub server_name: &'a str,
    /// Comment on the server.
    pub comment: &'a str,
    /// The shares that the caller may see, `IPC$` among them.
    pub shares: &'a [ShareFact<'a>],
    /// Users and groups.
    pub accounts: &'a Accounts,
    /// Security identifiers of users.
    pub sids: &'a Sids,
    /// The principal that asks.
    pub caller: &'a Principal,
    /// The time of day, seconds since 1970.
    pub now_s: u64,
    /// Time that the server has run, milliseconds.
    pub uptime_ms: u64,
}

impl Facts<'_> {
    /// Returns a share by its name; case does not matter.
    pub(crate) fn share(&self, name: &str) -> Option<&ShareFact<'_>> {
        let name = name.to_lowercase();
        self.shares.iter().find(|share| share.name.to_lowercase() == name)
    }
}

/// Kind of a share (MS-SRVS 2.2.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareKind {
    /// A tree of files.
    Disk,
    /// Named pipes: `IPC$`.
    Pipe,
}

/// A share, as it is listed.
#[derive(Clone, Copy, Debug)]
pub struct ShareFact<'a> {
    /// The share's name.
    pub name: &'a str,
    /// Kind of the share.
    pub kind: ShareKind,
    /// Set if clients hide it in lists.
    pub is_hidden: bool,
    /// Set if listings leave out what the caller may not read.
    pub hides_unreadable: bool,
    /// Comment on the share.
    pub comment: &'a str,
    /// Path on the server, for administrators alone.
    pub path: &'a str,
    /// Number of users at once; `None`: as many as come.
    pub users_max: Option<u32>,
    /// Number of users that use it now.
    pub users: u32,
}

impl ShareFact<'_> {
    /// Returns the share's kind on the wire (MS-SRVS 2.2.2.4).
    pub(crate) fn wire_type(&self) -> u32 {
        let kind = match self.kind {
            ShareKind::Disk => 0,
            ShareKind::Pipe => 3,
        };
        kind | if self.is_hidden { 0x8000_0000 } else { 0 }
    }
}
