//! A client's call in the hands of a service.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use rx::security::Principal;

use crate::call::Call;
use crate::server_connection::ServerConnection;
use crate::state::{CallCell, DriverShared, wake};

/// Call of a client: a [`Call`] with its connection and the service's state for it.
pub struct ServerCall<C = ()> {
    call: Call,
    connection: ServerConnection,
    data: Rc<C>,
}

/// Guard that keeps the handler of a call that has died from being dropped, for a section that must be
/// finished, as the commit of a write. It ends with the lane all the same.
///
/// ```no_run
/// # async fn example(call: rx_lane::ServerCall, disk: impl AsyncFn()) {
/// let commit = call.shield();
/// disk().await;
/// disk().await;
/// drop(commit);
/// // If the client has given up meanwhile, this handler ends at its next `await`.
/// # }
/// ```
#[must_use = "a section is shielded as long as its shield lives"]
pub struct Shield {
    cell: Rc<CallCell>,
}

impl<C> ServerCall<C> {
    pub(super) fn new(
        shared: Rc<DriverShared>,
        cell: Rc<CallCell>,
        connection: ServerConnection,
        data: Rc<C>,
    ) -> Self {
        Self { call: Call::new(shared, cell, None), connection, data }
    }

    /// Returns the service's state of the call's connection.
    pub fn data(&self) -> &Rc<C> {
        &self.data
    }

    /// Returns the connection of the call.
    pub fn connection(&self) -> &ServerConnection {
        &self.connection
    }

    /// Returns the service of the call, after any upgrade; `None` when the connection is gone.
    pub fn service(&self) -> Option<u16> {
        self.connection.service()
    }

    /// Returns the client's address; `None` when the connection is gone.
    pub fn remote(&self) -> Option<SocketAddr> {
        self.connection.remote()
    }

    /// Returns the address of ours that the client uses, where the host has several: for a connection back to
    /// the client.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.connection.local_ip()
    }

    /// Returns the principal that the client proved to be; `None` for an anonymous one.
    pub fn principal(&self) -> Option<Principal> {
        self.connection.principal()
    }

    /// Keeps the handler running, even if the call dies, as long as the shield lives.
    pub fn shield(&self) -> Shield {
        let cell = Rc::clone(self.call.cell());
        cell.shields.set(cell.shields.get() + 1);
        Shield { cell }
    }

    /// Ends the call with an abort code.
    pub fn abort(self, code: i32) {
        self.call.abort(code);
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        self.cell.shields.set(self.cell.shields.get() - 1);
        if self.cell.shields.get() == 0 && self.cell.has_died() {
            wake(Some(&self.cell.handler));
        }
    }
}

impl<C> Deref for ServerCall<C> {
    type Target = Call;

    fn deref(&self) -> &Call {
        &self.call
    }
}

impl<C> DerefMut for ServerCall<C> {
    fn deref_mut(&mut self) -> &mut Call {
        &mut self.call
    }
}

impl<C> std::fmt::Debug for ServerCall<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.call.fmt(f)
    }
}

impl std::fmt::Debug for Shield {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Shield").field(&self.cell.handle).finish()
    }
}
