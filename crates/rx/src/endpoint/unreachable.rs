//! Assignment of a report of the network to a connection.

use std::net::SocketAddr;
use std::time::Instant;

use super::Endpoint;
use super::connection_key::ConnectionKey;
use crate::header::Header;

impl Endpoint {
    /// Handles a report of the network that a packet of ours for `peer` did not arrive.
    ///
    /// The packet began with the bytes `quoted`; `port_closed` where the peer's own address reports the port closed.
    /// It counts only where it quotes the header of a packet sent lately for a call that we make to that very peer.
    /// Two such reports, with nothing heard between, end the calls of the connection as
    /// [`DeadReason::Unreachable`](crate::DeadReason::Unreachable). One of a closed port ends them as
    /// [`DeadReason::PortClosed`](crate::DeadReason::PortClosed) on a connection that [asks for
    /// that](crate::ConnectOptions::ends_at_closed_port). So it does on those of clients, once calls are
    /// [refused](Self::refuse_calls). Before that, replies to clients that are gone end by the limits of their calls.
    /// To a server a client that is behind a NAT, or restarting its network, is worth the wait.
    pub fn handle_unreachable(&mut self, now: Instant, peer: SocketAddr, quoted: &[u8], port_closed: bool) {
        let believed = self.believes(now, peer, quoted, port_closed);
        let stats = &mut self.shared.stats;
        stats.unreachable_believed += u64::from(believed);
        stats.unreachable_ignored += u64::from(!believed);
    }

    /// Returns the other lane whose connection has sent a packet that began with `quoted` to `peer`; `None`
    /// for this lane, or an unknown connection.
    pub fn sender_elsewhere(&mut self, peer: SocketAddr, quoted: &[u8]) -> Option<usize> {
        if self.lane_map.lanes() == 1 {
            return None;
        }
        let (header, _) = Header::parse(quoted).ok()?;
        if header.from_client() {
            let owner = self.lane_map.by_residue(&header);
            return (owner != self.lane).then_some(owner);
        }
        if self.find_sender(&header, peer).is_some() {
            return None;
        }
        let key = ConnectionKey::server(header.epoch, header.cid, peer);
        self.lane_map.directory()?.owner(&key).filter(|&owner| owner != self.lane)
    }

    fn believes(&mut self, now: Instant, peer: SocketAddr, quoted: &[u8], port_closed: bool) -> bool {
        let Ok((header, _)) = Header::parse(quoted) else { return false };
        let Some(index) = self.find_sender(&header, peer) else { return false };
        let connection = &mut self.connections[index as usize];
        let believed = connection.core.remote == peer
            && connection.on_unreachable(now, &header, port_closed, &mut self.shared);
        if believed && port_closed && self.shared.refuses.is_some() {
            self.end_calls_of_closed_ports();
        }
        believed
    }

    /// Returns the connection of this lane that sent a packet with this header.
    fn find_sender(&mut self, header: &Header, peer: SocketAddr) -> Option<u32> {
        let (epoch, cid) = (header.epoch, header.cid);
        if header.from_client() {
            return self.find_key(ConnectionKey::client(epoch, cid));
        }
        self.find_key(ConnectionKey::server(epoch, cid, peer))
            .or_else(|| self.find_key(ConnectionKey::at(epoch, cid, peer)))
    }
}
