//! Which connection a report of the network is about.

use std::net::SocketAddr;
use std::time::Instant;

use super::Endpoint;
use super::demux::ConnectionKey;
use crate::header::Header;

impl Endpoint {
    /// The network says that a packet of ours for `peer`, which began with the bytes `quoted`, did not arrive. Believed
    /// only where it quotes the header of a packet sent lately for a call that we make to that very peer. Two such
    /// reports, with nothing heard between, end the calls of the connection as
    /// [`DeadReason::Unreachable`](crate::DeadReason::Unreachable). Replies to clients that are gone end by the limits of
    /// their calls: to a server a client that is behind a NAT, or restarting its network, is worth the wait.
    pub fn handle_unreachable(&mut self, now: Instant, peer: SocketAddr, quoted: &[u8]) {
        let believed = self.believes(now, peer, quoted);
        let stats = &mut self.shared.stats;
        stats.unreachable_believed += u64::from(believed);
        stats.unreachable_ignored += u64::from(!believed);
    }

    fn believes(&mut self, now: Instant, peer: SocketAddr, quoted: &[u8]) -> bool {
        let Ok((header, _)) = Header::parse(quoted) else { return false };
        if !header.from_client() {
            return false;
        }
        let Some(index) = self.find_key(ConnectionKey::client(header.epoch, header.cid)) else {
            return false;
        };
        let connection = &mut self.connections[index as usize];
        connection.core.remote == peer && connection.on_unreachable(now, header.serial, &mut self.shared)
    }
}
