//! Router of a lane's accepted connections: each is served here or given to the silo it belongs to.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;

use lane::Ended;
use lane::backend::Incoming;
use lane::mesh::{Mail, Port};
use lane::net::TcpStream;
use service::Role;

use super::counters::SiloCounters;
use super::handoff::{HandedOver, Outgoing};
use super::load::Loads;
use super::placement::{Belongs, Placement};
use crate::lane_services::LaneServices;
use crate::listeners::Destination;

/// Router of connections that a lane accepts: to its own services, or to a lane of another silo.
pub(crate) struct AcceptRouter {
    node: Option<u32>,
    placement: RefCell<Arc<Placement>>,
    outgoing: RefCell<Outgoing>,
    loads: Loads,
    counters: Arc<SiloCounters>,
}

/// Router for the connections of one service.
struct ServiceRouter {
    router: Rc<AcceptRouter>,
    service: usize,
}

impl service::ConnectionRouter for ServiceRouter {
    fn place(&self, stream: TcpStream, role: Role) -> Option<TcpStream> {
        self.router.place(stream, Destination { service: self.service, role })
    }
}

impl AcceptRouter {
    /// Returns the router for the connections of one service.
    pub(crate) fn of(self: &Rc<Self>, service: usize) -> Rc<dyn service::ConnectionRouter> {
        Rc::new(ServiceRouter { router: Rc::clone(self), service })
    }

    pub(crate) fn new(
        node: Option<u32>,
        placement: Arc<Placement>,
        outgoing: Outgoing,
        loads: Loads,
        counters: Arc<SiloCounters>,
    ) -> Rc<Self> {
        let (placement, outgoing) = (RefCell::new(placement), RefCell::new(outgoing));
        Rc::new(Self { node, placement, outgoing, loads, counters })
    }

    /// Sets the placement of connections from now on.
    pub(crate) fn set_placement(&self, placement: Arc<Placement>) {
        self.placement.replace(placement);
    }

    /// Returns the connection if it is to be served here, and hands it over otherwise. One that cannot go
    /// where it belongs is served here too: a far connection is better than none.
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
            Belongs::To(silo) => return self.hand_over(&placement, silo, stream, to),
            Belongs::Here => match self.full_silo(&placement) {
                Some(silo) => return self.ask_for_help(&placement, silo, stream, to),
                None => &self.counters.local,
            },
            Belongs::Elsewhere => &self.counters.kept,
            Belongs::Drained => &self.counters.drained,
            Belongs::Unknown => &self.counters.unknown,
        };
        counter.increment();
        Some(stream)
    }

    /// Hands a connection over to its own silo, or while that is full to one that helps.
    fn hand_over(
        &self,
        placement: &Placement,
        silo: usize,
        stream: TcpStream,
        to: Destination,
    ) -> Option<TcpStream> {
        let stream = match placement.is_full(silo, &self.loads) {
            true => self.send_to_helper(placement, silo, stream, to)?,
            false => stream,
        };
        let kept = self.send(silo, placement.lanes_of(silo), stream, to);
        let counter = if kept.is_some() { &self.counters.kept } else { &self.counters.handed_off };
        counter.increment();
        kept
    }

    /// Hands over a connection that belongs here, to a silo that helps; returns it without one.
    fn ask_for_help(
        &self,
        placement: &Placement,
        silo: usize,
        stream: TcpStream,
        to: Destination,
    ) -> Option<TcpStream> {
        let kept = self.send_to_helper(placement, silo, stream, to);
        if kept.is_some() {
            self.counters.local.increment();
        }
        kept
    }

    /// Returns the lane's own silo, if all its lanes are full and others may help.
    fn full_silo(&self, placement: &Placement) -> Option<usize> {
        placement.silo_on(self.node).filter(|&silo| placement.is_full(silo, &self.loads))
    }

    /// Hands a connection of this silo to a lane without a NIC that has time; returns it when there is none.
    fn send_to_helper(
        &self,
        placement: &Placement,
        silo: usize,
        mut stream: TcpStream,
        to: Destination,
    ) -> Option<TcpStream> {
        for &silo in placement.helpers_of(silo) {
            let lanes = placement.lanes_of(silo).iter().copied();
            let free: Vec<usize> = lanes.filter(|&lane| !self.loads.is_full(lane)).collect();
            match self.send(silo, &free, stream, to) {
                None => {
                    self.counters.helped.increment();
                    return None;
                }
                Some(back) => stream = back,
            }
        }
        Some(stream)
    }

    /// Hands a connection to one of `lanes`, or returns the connection when none takes it.
    fn send(&self, silo: usize, lanes: &[usize], stream: TcpStream, to: Destination) -> Option<TcpStream> {
        let peer = stream.peer_addr();
        let connection = match stream.release() {
            Ok(connection) => connection,
            Err(stream) => return Some(stream),
        };
        match self.outgoing.borrow_mut().send(silo, lanes, HandedOver { connection, peer, to }) {
            Ok(()) => None,
            Err(HandedOver { connection, .. }) => TcpStream::adopt(connection, peer).ok(),
        }
    }

    /// Serves the connections that lanes of other silos hand over to this one.
    pub(crate) async fn take_in(
        self: Rc<Self>,
        services: Rc<LaneServices>,
        incoming: Rc<RefCell<Port<HandedOver>>>,
    ) -> Ended {
        while let Some(mail) = poll_fn(|cx| incoming.borrow_mut().poll_recv(cx)).await {
            let Mail::Cast(_, HandedOver { connection, peer, to }) = mail else { continue };
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

#[cfg(test)]
mod tests;
