//! The client of a connection, as far as handlers care.

use std::cell::{Cell, OnceCell};
use std::net::IpAddr;
use std::rc::Rc;

use budget::{Consumer, UserNumber};
use identity::Principal;

use super::requests::UserRequest;

/// The client that asks. One for each request.
pub(super) struct Client {
    pub(super) ip: IpAddr,
    /// Set if no host between the two ends can listen: TLS, or both are on this machine.
    pub(super) is_private: bool,
    /// Uploads under way on a connection that may have several.
    pub(super) uploads: Option<Rc<Cell<usize>>>,
    /// The user, once authenticated.
    pub(super) principal: OnceCell<Principal>,
    /// The user's request, from then on.
    pub(super) running: OnceCell<UserRequest>,
}

impl Client {
    /// Returns the consumer to whose shares its use of bounded resources is counted.
    pub(super) fn consumer(&self) -> Consumer {
        let user = self
            .principal
            .get()
            .filter(|principal| principal.is_user())
            .map(|principal| UserNumber(principal.id().0));
        Consumer { address: self.ip, user }
    }

    pub(super) fn new(ip: IpAddr, is_tls: bool) -> Self {
        Self {
            ip,
            is_private: is_tls || ip.is_loopback(),
            uploads: None,
            principal: OnceCell::new(),
            running: OnceCell::new(),
        }
    }
}
