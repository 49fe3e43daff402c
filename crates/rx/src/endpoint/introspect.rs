//! Inspection of an endpoint: getters, views of connections and calls.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::Endpoint;
use crate::call::Call;
use crate::connection::Connection;
use crate::event::{CallHandle, ConnectionHandle, Side};
use crate::packet::PacketPool;
use crate::peer::Peer;
use crate::security::{Principal, SecurityStats};
use crate::stats::EndpointStats;

/// Connection of an endpoint, read-only.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionView<'e> {
    connection: &'e Connection,
}

/// Call of an endpoint, read-only.
#[derive(Clone, Copy, Debug)]
pub struct CallView<'e> {
    call: &'e Call,
    window: u32,
}

impl<'e> ConnectionView<'e> {
    /// Returns the connection's handle.
    pub fn handle(&self) -> ConnectionHandle {
        self.connection.core.handle()
    }

    /// Returns our side of the connection.
    pub fn side(&self) -> Side {
        self.connection.core.side
    }

    /// Returns the present address of the peer.
    pub fn remote(&self) -> SocketAddr {
        self.connection.core.remote
    }

    /// Returns the address of ours that the peer uses, where the host has several.
    pub fn local_ip(&self) -> Option<IpAddr> {
        self.connection.core.local_ip
    }

    /// Returns the epoch, and the id without channel bits.
    pub fn id(&self) -> (u32, u32) {
        (self.connection.core.epoch, self.connection.core.cid)
    }

    /// Returns the service, after any upgrade.
    pub fn service(&self) -> u16 {
        self.connection.core.service
    }

    /// Returns the index of the security class.
    pub fn security_index(&self) -> u8 {
        self.connection.core.security_index
    }

    /// Returns the principal that the client proved to be; `None` for an anonymous one.
    pub fn principal(&self) -> Option<&'e Principal> {
        self.connection.core.security.principal()
    }

    /// Returns the statistics of the security class about the connection.
    pub fn security_statistics(&self) -> Option<SecurityStats> {
        self.connection.core.security.statistics()
    }

    /// Returns whether a call is under way.
    pub fn has_calls(&self) -> bool {
        self.connection.has_calls()
    }

    /// Returns the abort code that the connection failed with.
    pub fn error(&self) -> Option<i32> {
        self.connection.core.error
    }

    /// Returns the time limits of the connection's calls.
    pub fn limits(&self) -> crate::Limits {
        self.connection.core.limits
    }

    /// Returns whether the connection's packets leave before or after those of others.
    pub fn priority(&self) -> crate::Priority {
        self.connection.core.priority
    }

    /// Returns the serial of the last packet sent.
    pub fn serial(&self) -> u32 {
        self.connection.core.serial
    }

    /// Returns the number of the current or last call of each channel.
    pub fn call_numbers(&self) -> [u32; 4] {
        std::array::from_fn(|channel| self.connection.channels[channel].number)
    }

    /// Returns the calls under way.
    pub fn calls(&self) -> impl Iterator<Item = CallView<'e>> + use<'e> {
        self.connection.channels.iter().filter_map(|channel| {
            let window = channel.controller.as_ref().map_or(0, |controller| controller.window());
            Some(CallView { call: channel.call.as_deref()?, window })
        })
    }
}

impl CallView<'_> {
    /// Returns the call's handle.
    pub fn handle(&self) -> CallHandle {
        self.call.handle
    }

    /// Returns our side of the connection.
    pub fn side(&self) -> Side {
        self.call.side
    }

    /// Returns whether the application has the call: a server's may still wait for its client's proof.
    pub fn is_delivered(&self) -> bool {
        self.call.is_delivered()
    }

    /// Returns whether the application has written all it will.
    pub fn is_written(&self) -> bool {
        self.call.finished_writing
    }

    /// Returns whether all of the peer's stream has come.
    pub fn is_received(&self) -> bool {
        self.call.rx.is_complete()
    }

    /// Returns the congestion window, in packets.
    pub fn congestion_window(&self) -> u32 {
        self.window
    }

    /// Returns the number of packets sent, not acknowledged and not known lost.
    pub fn in_flight(&self) -> u32 {
        self.call.tx.in_flight()
    }

    /// Returns the number of packets held for sending, sent or not.
    pub fn send_held(&self) -> u32 {
        self.call.tx.held()
    }

    /// Returns the number of packets received and not read.
    pub fn receive_held(&self) -> u32 {
        self.call.rx.held()
    }

    /// Returns the number of packets that we take from the reader's position on.
    pub fn receive_window(&self) -> u32 {
        self.call.rx.window()
    }

    /// Returns the first packet number beyond the peer's window.
    pub fn send_edge(&self) -> u32 {
        self.call.edge
    }

    /// Returns the number of packets held in all, the one being written included.
    pub fn packets_held(&self) -> u32 {
        self.call.packets_held()
    }

    /// Returns whether the call is a client's of which nothing has been sent: it lasts until the application
    /// goes on.
    pub fn is_local(&self) -> bool {
        self.call.is_unknown_to_peer()
    }

    /// Returns when the call was opened or accepted.
    pub fn started_at(&self) -> Instant {
        self.call.started_at
    }
}

impl Endpoint {
    /// Returns the counters of the endpoint.
    pub fn stats(&self) -> &EndpointStats {
        &self.shared.stats
    }

    /// Returns the pool of packet buffers.
    pub fn pool(&self) -> &PacketPool {
        &self.shared.pool
    }

    /// Returns the configuration of the endpoint.
    pub fn config(&self) -> &crate::EndpointConfig {
        &self.shared.config
    }

    /// Returns the epoch of the connections opened here.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the number of connections, both sides together.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Returns the number of calls that wait for a packet buffer.
    pub fn waiting_for_packets(&self) -> usize {
        self.shared.waiting_for_packets.len()
    }

    /// Returns the number of wake-ups set, stale ones included: bounded by the number of connections.
    pub fn timers_set(&self) -> usize {
        self.shared.timer_count()
    }

    /// Returns all connections.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView<'_>> {
        self.connections.iter().map(|(_, connection)| ConnectionView { connection })
    }

    /// Returns all connections from a place on, in the order of [`ConnectionHandle::slot`].
    pub fn connections_from(&self, slot: usize) -> impl Iterator<Item = ConnectionView<'_>> {
        let places = slot..self.connections.capacity();
        places.filter_map(|at| self.connections.get(at)).map(|connection| ConnectionView { connection })
    }

    /// Returns the connection of a handle; `None` once it is gone.
    pub fn connection(&self, handle: ConnectionHandle) -> Option<ConnectionView<'_>> {
        let connection = self.connections.get(handle.index as usize)?;
        (connection.core.handle() == handle).then_some(ConnectionView { connection })
    }

    /// Returns all peers.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.shared.peers.iter()
    }

    /// Returns the peer at an address.
    pub fn peer_at(&self, address: SocketAddr) -> Option<&Peer> {
        self.shared.peers.find(address).map(|index| &self.shared.peers[index])
    }
}
