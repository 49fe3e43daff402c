//! State that a service keeps of a connection: its client's host, once it is known.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use rx_lane::ServerConnection;

use super::Host;

/// A connection and the host that was found behind it ([`LaneHosts::of`](super::LaneHosts::of)): what a service keeps of each connection.
#[derive(Debug)]
pub struct Contact {
    connection: ServerConnection,
    host: RefCell<Option<(SocketAddr, Arc<Host>)>>,
}

impl Contact {
    /// Creates the contact of a connection that has its first call.
    pub fn new(connection: &ServerConnection) -> Self {
        Self { connection: connection.clone(), host: RefCell::default() }
    }

    /// Returns the connection.
    pub fn connection(&self) -> &ServerConnection {
        &self.connection
    }

    /// Returns the client that was found there last, whatever has become of it.
    pub fn host(&self) -> Option<Arc<Host>> {
        self.host.borrow().as_ref().map(|(_, host)| Arc::clone(host))
    }

    /// Returns the host that was found there, if the client still calls from `address` and is still a host.
    pub(super) fn known(&self, address: SocketAddr) -> Option<Arc<Host>> {
        let host = self.host.borrow();
        let (at, host) = host.as_ref()?;
        (*at == address && host.is_settled()).then(|| Arc::clone(host))
    }

    pub(super) fn set(&self, address: SocketAddr, host: &Arc<Host>) {
        *self.host.borrow_mut() = Some((address, Arc::clone(host)));
    }
}
