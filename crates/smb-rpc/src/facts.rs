//! What the server tells about itself when a call is answered.

use identity::{Accounts, Principal};
use smb_sid::Sids;

/// Who the server is, what it has, and who asks.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The server's name, without backslashes.
    pub server_name: &'a str,
    /// What is said of the server beside its name.
    pub comment: &'a str,
    /// The shares that the caller may see, `IPC$` among them.
    pub shares: &'a [ShareFact<'a>],
    /// Users and groups.
    pub accounts: &'a Accounts,
    /// How they are called.
    pub sids: &'a Sids,
    /// Who asks.
    pub caller: &'a Principal,
    /// The time of day, seconds since 1970.
    pub now_s: u64,
    /// For how long the server has run, milliseconds.
    pub uptime_ms: u64,
}

impl Facts<'_> {
    /// A share by its name; case does not matter.
    pub(crate) fn share(&self, name: &str) -> Option<&ShareFact<'_>> {
        let name = name.to_lowercase();
        self.shares.iter().find(|share| share.name.to_lowercase() == name)
    }
}

/// What kind of share it is (MS-SRVS 2.2.2.4).
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
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub kind: ShareKind,
    /// Whether clients hide it in lists.
    pub is_hidden: bool,
    /// Whether listings leave out what who lists may not read.
    pub hides_unreadable: bool,
    /// What is said of it beside its name.
    pub comment: &'a str,
    /// Where it is on the server, for administrators alone.
    pub path: &'a str,
    /// How many may use it at once; `None`: as many as come.
    pub users_max: Option<u32>,
    /// How many use it now.
    pub users: u32,
}

impl ShareFact<'_> {
    /// Its kind as it travels (MS-SRVS 2.2.2.4).
    pub(crate) fn wire_type(&self) -> u32 {
        let kind = match self.kind {
            ShareKind::Disk => 0,
            ShareKind::Pipe => 3,
        };
        kind | if self.is_hidden { 0x8000_0000 } else { 0 }
    }
}
