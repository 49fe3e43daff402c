//! Choice of a datagram's lane, where several share an address.
//!
//! The kernel's selector picks a lane for each client by its address, of the silo whose NIC the packet came by. The first
//! lane that takes a client's connection up owns it; if the client moves, every other one finds that in the directory
//! and hands the packet over. Connections opened here have ids that lead their packets back, by their residue.

use std::net::SocketAddr;
use std::sync::Arc;

use super::connection_key::ConnectionKey;
use super::demux::ConnectionMatch;
use super::unvalidated::begins_call;
use super::{Endpoint, LaneMap};
use crate::header::{Header, PacketType};

/// Way by which a datagram came to a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The kernel's selector chose the lane.
    Steered,
    /// The datagram was handed over by another lane.
    Handed,
}

impl Endpoint {
    /// Makes this endpoint `lane` of those on the map.
    pub fn join(&mut self, lane_map: Arc<LaneMap>, lane: usize) {
        self.lane_map = lane_map;
        self.lane = lane;
    }

    /// Returns the other lane that must get this datagram instead of
    /// [`handle_datagram`](Self::handle_datagram); `None` if it is for this one. That call has to follow at
    /// once: a new connection is this lane's from here on.
    pub fn owner_elsewhere(
        &mut self,
        remote: SocketAddr,
        datagram: &[u8],
        arrival: Arrival,
    ) -> Option<usize> {
        if self.lane_map.lanes() == 1 {
            return None;
        }
        let (header, _) = Header::parse(datagram).ok()?;
        // Questions concern no connection. The answer to a VERSION question of ours comes without CLIENT_INITIATED,
        // from a client whose connection was accepted here.
        let concerns_accepted = match (header.kind, header.from_client()) {
            (PacketType::Version | PacketType::Debug, true) => return None,
            (PacketType::Version, false) => true,
            (_, from_client) => from_client,
        };
        if !concerns_accepted {
            let owner = self.lane_map.by_residue(&header);
            return (arrival != Arrival::Handed && owner != self.lane).then_some(owner);
        }
        if self.find(&header, remote) != ConnectionMatch::Nowhere {
            return None;
        }
        let key = ConnectionKey::server(header.epoch, header.cid, remote);
        let directory = self.lane_map.directory()?;
        if begins_call(&header) {
            return directory.claim(key, self.lane).err();
        }
        directory.owner(&key).filter(|&owner| owner != self.lane)
    }

    /// Gives up the claim for a datagram that might have begun a connection and did not.
    pub(super) fn give_up_claim(&self, header: &Header, remote: SocketAddr) {
        if let Some(directory) = self.lane_map.directory()
            && begins_call(header)
        {
            directory.release(&ConnectionKey::server(header.epoch, header.cid, remote), self.lane);
        }
    }
}

#[cfg(test)]
mod tests;
