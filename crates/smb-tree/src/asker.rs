//! On whose behalf a command is done.

use std::net::IpAddr;
use std::sync::Arc;

use budget::{Consumer, UserNumber};
use identity::Principal;
use smb_wire::{Dialect, Guid};
use vfs::Caller;

use crate::apple::Apple;
use crate::open::Open;

/// A session's user in one tree connect, by one connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Asker {
    /// Whose rights count.
    pub caller: Caller,
    /// SessionId.
    pub session: u64,
    /// TreeId.
    pub tree: u32,
    /// ClientGuid of the connection; zero for dialect 2.0.2.
    pub client: Guid,
    /// Where the connection comes from, as shares are counted: an IPv4 address, an IPv6 /64.
    pub address: IpAddr,
    /// What was negotiated.
    pub dialect: Dialect,
    /// The POSIX extensions were negotiated.
    pub posix: bool,
    /// What a Mac has agreed on in the tree connect.
    pub apple: Arc<Apple>,
}

/// To whose shares of what is bounded a client counts: its address's, and its user's where it has signed in as one.
pub fn consumer_of(address: IpAddr, principal: &Principal) -> Consumer {
    Consumer { address, user: principal.is_user().then(|| UserNumber(principal.id().0)) }
}

impl Asker {
    /// To whose shares of what is bounded it counts: what a client cannot choose, for it makes up as many GUIDs as it likes.
    pub(crate) fn consumer(&self) -> Consumer {
        consumer_of(self.address, &self.caller.principal)
    }

    /// The caller as who has this open: what is his is spared.
    pub(crate) fn by(&self, open: &Open) -> Caller {
        open.grants().caller(&self.caller)
    }
}
