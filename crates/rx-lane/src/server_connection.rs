//! Connections that clients opened, as services see them, with the services' state for them.

use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};

use rx::security::Principal;
use rx::{ConnectionHandle, ConnectionView, Dscp, Limits, Priority};

use crate::state::DriverShared;

//@ limit: values that services keep of connections
//@ section: Rx
//@ unit: value
//@ connection: one, from its first delivered call to its end
//@ all: lane: as connections
//@ empty: as connections, and the service is told; others feel nothing
//@ counter: rx_connections_displaced, rx_connections
//@ attack: rx-connections
/// Connection that a client opened; clones are handles to the same one. It keeps nothing alive, so a service
/// may store it with what it keeps of the connection; once that is gone, everything asked of it is `None`.
#[derive(Clone)]
pub struct ServerConnection {
    shared: Weak<DriverShared>,
    handle: ConnectionHandle,
}

impl ServerConnection {
    pub(super) fn new(shared: &Rc<DriverShared>, handle: ConnectionHandle) -> Self {
        Self { shared: Rc::downgrade(shared), handle }
    }

    pub(super) fn handle(&self) -> ConnectionHandle {
        self.handle
    }

    /// Returns the client's present address, which may change.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.look(|view| view.remote())
    }

    /// Returns the address of ours that the client uses, where the host has several: for a connection back to
    /// the client.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.look(|view| view.local_ip()).flatten()
    }

    /// Returns the epoch, and the id without channel bits; `None` when the connection is gone.
    pub fn id(&self) -> Option<(u32, u32)> {
        self.look(|view| view.id())
    }

    /// Returns the service, after any upgrade; `None` when the connection is gone.
    pub fn service(&self) -> Option<u16> {
        self.look(|view| view.service())
    }

    /// Returns the index of the security class; `None` when the connection is gone.
    pub fn security_index(&self) -> Option<u8> {
        self.look(|view| view.security_index())
    }

    /// Returns the client's proven principal, with the protection of its packets and the expiry; `None` also
    /// for an anonymous one.
    pub fn principal(&self) -> Option<Principal> {
        self.look(|view| view.principal().cloned()).flatten()
    }

    /// Returns whether further calls are possible.
    pub fn is_alive(&self) -> bool {
        self.look(|view| view.error().is_none()).unwrap_or(false)
    }

    /// Returns the time limits of the connection's calls.
    pub fn limits(&self) -> Option<Limits> {
        self.look(|view| view.limits())
    }

    /// Sets the time limits of the connection's calls, those under way too. Returns false when the connection
    /// is gone.
    pub fn set_limits(&self, limits: Limits) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let found = shared.state.borrow_mut().endpoint.set_limits(self.handle, limits);
        shared.kick();
        found
    }

    /// Sets whether the connection's packets leave before or after those of others. Returns false when the
    /// connection is gone.
    pub fn set_priority(&self, priority: Priority) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        shared.state.borrow_mut().endpoint.set_priority(self.handle, priority)
    }

    /// Sets the code point (DSCP) of each packet that the connection sends from now on. Returns false when
    /// the connection is gone.
    pub fn set_dscp(&self, dscp: Dscp) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        shared.state.borrow_mut().endpoint.set_dscp(self.handle, dscp)
    }

    /// Bounds the rate of the connection's DATA, in bytes a second with Rx headers; `None` removes the bound.
    /// Returns false when the connection is gone.
    pub fn set_rate(&self, bytes_per_second: Option<u64>) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let now = lane::time::clock();
        let found = shared.state.borrow_mut().endpoint.set_rate(now, self.handle, bytes_per_second);
        shared.kick();
        found
    }

    /// Aborts the connection and all its calls with a code for the client, which has to open another.
    pub fn abort(&self, code: i32) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.state.borrow_mut().endpoint.abort_connection(self.handle, code);
        shared.kick();
    }

    fn look<T>(&self, look: impl FnOnce(ConnectionView<'_>) -> T) -> Option<T> {
        let shared = self.shared.upgrade()?;
        let state = shared.state.borrow();
        state.endpoint.connection(self.handle).map(look)
    }
}

impl PartialEq for ServerConnection {
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle && self.shared.ptr_eq(&other.shared)
    }
}

impl Eq for ServerConnection {}

impl std::fmt::Debug for ServerConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ServerConnection").field(&self.handle).finish()
    }
}
