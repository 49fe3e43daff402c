//! Services as the driver calls them, and the state that they keep for connections.

use std::any::Any;
use std::net::IpAddr;
use std::rc::Rc;

use rx::{ConnectionEnd, ConnectionHandle, Service};

/// Service as a driver `D` calls it for calls `C`, with its own types erased.
pub(super) trait Offer<D, C> {
    fn service(&self) -> &Service;

    /// Starts a task that handles a call.
    fn start(self: Rc<Self>, shared: &Rc<D>, cell: Rc<C>, ip: IpAddr);

    /// Tells the service that a connection is gone, for which it kept `data`.
    fn gone(&self, data: Rc<dyn Any>, end: ConnectionEnd);
}

/// State that services keep for connections, by the connection's place in the endpoint's table.
pub(super) struct Attachments<D, C> {
    by_slot: Vec<Option<Attached<D, C>>>,
}

/// State that a service keeps for one connection.
pub(super) struct Attached<D, C> {
    connection: ConnectionHandle,
    data: Rc<dyn Any>,
    offer: Rc<dyn Offer<D, C>>,
}

impl<D, C> Default for Attachments<D, C> {
    fn default() -> Self {
        Self { by_slot: Vec::new() }
    }
}

impl<D: 'static, C: 'static> Attachments<D, C> {
    pub(super) fn get(&self, connection: ConnectionHandle) -> Option<Rc<dyn Any>> {
        let found = self.by_slot.get(connection.slot())?.as_ref()?;
        (found.connection == connection).then(|| Rc::clone(&found.data))
    }

    pub(super) fn insert(
        &mut self,
        connection: ConnectionHandle,
        data: Rc<dyn Any>,
        offer: Rc<dyn Offer<D, C>>,
    ) {
        let slot = connection.slot();
        if slot >= self.by_slot.len() {
            self.by_slot.resize_with(slot + 1, || None);
        }
        self.by_slot[slot] = Some(Attached { connection, data, offer });
    }

    pub(super) fn remove(&mut self, connection: ConnectionHandle) -> Option<Attached<D, C>> {
        let slot = self.by_slot.get_mut(connection.slot())?;
        slot.take_if(|found| found.connection == connection)
    }
}

impl<D: 'static, C: 'static> Attached<D, C> {
    /// Tells the service that the connection is gone, in a task of the service's own.
    pub(super) fn end(self, end: ConnectionEnd) {
        lane::spawn(async move { self.offer.gone(self.data, end) }).detach();
    }
}
