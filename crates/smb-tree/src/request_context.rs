//! The session, tree connect and connection of a request.

use std::net::IpAddr;
use std::sync::Arc;

use budget::{Consumer, UserNumber};
use identity::Principal;
use smb_wire::{Dialect, Guid};
use vfs::Caller;

use crate::apple::Apple;
use crate::open::Open;

/// The user, session, tree connect and connection that a request comes by. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The caller whose rights count.
    pub caller: Caller,
    /// SessionId.
    pub session: u64,
    /// TreeId.
    pub tree: u32,
    /// ClientGuid of the connection; zero for dialect 2.0.2.
    pub client: Guid,
    /// Address of the connection, as shares are counted: an IPv4 address, an IPv6 /64.
    pub address: IpAddr,
    /// Dialect that was negotiated.
    pub dialect: Dialect,
    /// The POSIX extensions were negotiated.
    pub posix: bool,
    /// Extensions of macOS that were agreed on in the tree connect.
    pub apple: Arc<Apple>,
}

/// Returns the [`Consumer`] that a client's opens, locks and sessions are counted to: its address, and its user where
/// it has signed in.
pub fn consumer_of(address: IpAddr, principal: &Principal) -> Consumer {
    Consumer { address, user: principal.is_user().then(|| UserNumber(principal.id().0)) }
}

impl RequestContext {
    /// Returns the [`Consumer`] of the request's client. It leaves out what a client can choose, such as its GUID.
    pub(crate) fn consumer(&self) -> Consumer {
        consumer_of(self.address, &self.caller.principal)
    }

    /// Returns the caller as the holder of `open`: what it holds itself is not broken.
    pub(crate) fn by(&self, open: &Open) -> Caller {
        open.grants().caller(&self.caller)
    }
}
