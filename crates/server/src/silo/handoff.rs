//! Mailboxes by which lanes give connections to lanes of other silos. Each lane has partners in every other silo,
//! so that mailboxes grow with the number of lanes and not with its square.

use std::net::SocketAddr;

use lane::backend::Released;
use lane::layout::Layout;
use lane::mailbox::{Full, Receiver, Sender, mailbox};

use crate::listeners::Destination;

/// A connection on its way to another lane. Nothing was received from it yet.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) connection: Released,
    pub(crate) peer: SocketAddr,
    pub(crate) to: Destination,
}

/// One lane's ways to the other silos.
#[derive(Default)]
pub(crate) struct Outgoing {
    /// Partners by silo; none in the lane's own.
    partners: Vec<Partners>,
}

#[derive(Default)]
struct Partners {
    senders: Vec<Sender<HandedOver>>,
    next: usize,
}

/// What a lane starts with.
#[derive(Default)]
pub(crate) struct Ways {
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Vec<Receiver<HandedOver>>,
}

/// The mailboxes of every lane. Every lane of every silo is somebody's partner.
pub(crate) fn connect_silos(layout: &Layout) -> Vec<Ways> {
    let mut ways: Vec<Ways> = layout.lanes().map(|_| Ways::default()).collect();
    for way in &mut ways {
        way.outgoing.partners.resize_with(layout.silos.len(), Partners::default);
    }
    for (from, silo) in layout.silos.iter().enumerate() {
        for (to, other) in layout.silos.iter().enumerate().filter(|(to, _)| *to != from) {
            for pair in 0..silo.lanes.len().max(other.lanes.len()) {
                let giver = silo.lanes[pair % silo.lanes.len()].id;
                let taker = other.lanes[pair % other.lanes.len()].id;
                let (sender, receiver) = mailbox(HANDED_OVER_MAX);
                ways[giver].outgoing.partners[to].senders.push(sender);
                ways[taker].incoming.push(receiver);
            }
        }
    }
    ways
}

impl Outgoing {
    /// Gives a connection to a lane of `silo`, the partners taking turns.
    ///
    /// # Errors
    /// The connection, when every partner's mailbox is full.
    pub(crate) fn send(&mut self, silo: usize, mut handed: HandedOver) -> Result<(), HandedOver> {
        let Partners { senders, next } = &mut self.partners[silo];
        for _ in 0..senders.len() {
            *next = (*next + 1) % senders.len();
            match senders[*next].send(handed) {
                Ok(()) => return Ok(()),
                Err(Full(back)) => handed = back,
            }
        }
        Err(handed)
    }
}

/// Connections that may be on their way from one lane to another: a burst of accepts within one turn.
const HANDED_OVER_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use lane::layout::{LaneSpec, SiloLayout};

    use super::*;

    #[test]
    fn every_lane_can_give_to_every_other_silo_and_every_lane_gets() {
        for sizes in [vec![1, 1], vec![1, 4], vec![3, 2, 5], vec![4]] {
            let ways = connect_silos(&layout(&sizes));
            for (lane, way) in ways.iter().enumerate() {
                let reached =
                    way.outgoing.partners.iter().filter(|partners| !partners.senders.is_empty()).count();
                assert_eq!(reached, sizes.len() - 1, "lane {lane} of {sizes:?}");
                assert_eq!(way.incoming.is_empty(), sizes.len() == 1, "lane {lane} of {sizes:?}");
            }
        }
    }

    fn layout(sizes: &[usize]) -> Layout {
        let mut next = 0;
        let silo = |(silo, &size): (usize, &usize)| {
            let lanes = (next..next + size).map(|id| LaneSpec { id, silo, cpu: id as u32, node: None });
            next += size;
            let (cpus, nics) = (Default::default(), Vec::new());
            SiloLayout { node: Some(silo as u32), cpus, lanes: lanes.collect(), helper_threads: 1, nics }
        };
        Layout { silos: sizes.iter().enumerate().map(silo).collect(), shared_nics: Vec::new() }
    }
}
