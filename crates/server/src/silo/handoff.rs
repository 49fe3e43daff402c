//! Handoff of connections to lanes of other silos: by the process's mesh.

use std::net::SocketAddr;

use lane::backend::Released;
use lane::mesh::{Exchange, Limits, Member, Mesh, Port, Sender};

use crate::listeners::Destination;

/// Connection on its way to another lane. Nothing was received from it yet.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) connection: Released,
    pub(crate) peer: SocketAddr,
    pub(crate) to: Destination,
}

/// Senders of one lane to the other silos.
pub(crate) struct Outgoing {
    sender: Sender<HandedOver>,
    /// Lane of each silo that had its turn last.
    turns: Vec<usize>,
}

impl Outgoing {
    /// Hands a connection to one of `lanes`, those of `silo` that may have it, in turns.
    ///
    /// # Errors
    /// The connection, when none of them takes it.
    pub(crate) fn send(
        &mut self,
        silo: usize,
        lanes: &[usize],
        mut handed: HandedOver,
    ) -> Result<(), HandedOver> {
        if self.turns.len() <= silo {
            self.turns.resize(silo + 1, 0);
        }
        let turn = &mut self.turns[silo];
        for _ in 0..lanes.len() {
            *turn = (*turn + 1) % lanes.len();
            match self.sender.cast(Member::from(lanes[*turn]), handed) {
                Ok(()) => return Ok(()),
                Err(refused) => handed = refused.into_message(),
            }
        }
        Err(handed)
    }
}

/// Opens the senders of one lane to the other silos, and the port for connections from them.
pub(crate) fn links_to_silos(mesh: &Mesh, lane: usize) -> (Outgoing, Port<HandedOver>) {
    let exchange: Exchange<HandedOver> =
        mesh.exchange("connections", HANDED_OVER_MAX).expect("nobody else has this name");
    let port = exchange.open(Member::from(lane)).expect("each lane opens it once");
    (Outgoing { sender: port.sender(), turns: Vec::new() }, port)
}

//@ limit: connections on their way to a lane of another node
//@ section: Lanes
//@ unit: connection
//@ all: lane: 64 from each to each other
//@ empty: served where it was accepted; others feel nothing
//@ counter: silo_accepts{placement="kept"}
//@ attack: none, lanes take them faster than one NIC can bring them, and a machine of one node has none
//@ reach: server
/// Most connections on their way from one lane to another: a burst of accepts within one turn.
const HANDED_OVER_MAX: Limits = Limits { messages: 64, calls: 0 };
