//! The door of a lane: every accepted connection passes it and is served here or given to the silo it belongs to.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use lane::Ended;
use lane::backend::Incoming;
use lane::mailbox::Receiver;
use lane::net::TcpStream;
use service::Role;

use super::counters::SiloCounters;
use super::handoff::{HandedOver, Outgoing};
use super::placement::{Belongs, Placement};
use crate::lane_services::LaneServices;
use crate::listeners::Destination;

/// Where a lane's connections go.
pub(crate) struct Door {
    node: Option<u32>,
    placement: RefCell<Arc<Placement>>,
    outgoing: RefCell<Outgoing>,
    counters: Arc<SiloCounters>,
}

/// The door as one service sees it.
struct ServiceDoor {
    door: Rc<Door>,
    service: usize,
}

impl service::Door for ServiceDoor {
    fn place(&self, stream: TcpStream, role: Role) -> Option<TcpStream> {
        self.door.place(stream, Destination { service: self.service, role })
    }
}

impl Door {
    /// The door for the connections of one service.
    pub(crate) fn of(self: &Rc<Self>, service: usize) -> Rc<dyn service::Door> {
        Rc::new(ServiceDoor { door: Rc::clone(self), service })
    }

    pub(crate) fn new(
        node: Option<u32>,
        placement: Arc<Placement>,
        outgoing: Outgoing,
        counters: Arc<SiloCounters>,
    ) -> Rc<Self> {
        let (placement, outgoing) = (RefCell::new(placement), RefCell::new(outgoing));
        Rc::new(Self { node, placement, outgoing, counters })
    }

    /// Places connections by this from now on.
    pub(crate) fn set_placement(&self, placement: Arc<Placement>) {
        self.placement.replace(placement);
    }

    /// Gives the connection back if it is to be served here. One that belongs elsewhere but cannot go there is
    /// served here too: a far connection is better than none.
    fn place(&self, stream: TcpStream, to: Destination) -> Option<TcpStream> {
        let placement = self.placement.borrow();
        if !placement.is_open() {
            self.counters.local.increment();
            return Some(stream);
        }
        let trace = |what| stream.incoming(what);
        let belongs = placement.of(
            self.node,
            || trace(Incoming::Interface),
            || trace(Incoming::NapiId),
            || trace(Incoming::Cpu),
        );
        let counter = match belongs {
            Belongs::To(silo) => return self.hand_over(silo, stream, to),
            Belongs::Here => &self.counters.local,
            Belongs::Elsewhere => &self.counters.kept,
            Belongs::Drained => &self.counters.drained,
            Belongs::Unknown => &self.counters.unknown,
        };
        counter.increment();
        Some(stream)
    }

    fn hand_over(&self, silo: usize, stream: TcpStream, to: Destination) -> Option<TcpStream> {
        let peer = stream.peer_addr();
        let connection = match stream.release() {
            Ok(connection) => connection,
            Err(stream) => {
                self.counters.kept.increment();
                return Some(stream);
            }
        };
        match self.outgoing.borrow_mut().send(silo, HandedOver { connection, peer, to }) {
            Ok(()) => {
                self.counters.handed_off.increment();
                None
            }
            Err(HandedOver { connection, .. }) => {
                self.counters.kept.increment();
                TcpStream::adopt(connection, peer).ok()
            }
        }
    }

    /// Serves what one lane of another silo gives to this one, for as long as that lane lives.
    pub(crate) async fn take_in(
        self: Rc<Self>,
        services: Rc<LaneServices>,
        incoming: Rc<RefCell<Receiver<HandedOver>>>,
    ) -> Ended {
        while let Some(given) = poll_fn(|cx| incoming.borrow_mut().poll_recv(cx)).await {
            let HandedOver { connection, peer, to } = given;
            if let Ok(stream) = TcpStream::adopt(connection, peer) {
                self.counters.taken_over.increment();
                if let Some(service) = services.get(to.service) {
                    service.take(stream, to.role);
                }
            }
        }
        Ended::Done
    }
}
