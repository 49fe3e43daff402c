//! End of connections: closed, aborted, or removed with all they hold.

use std::time::Instant;

use super::Endpoint;
use super::connection_key::ConnectionKey;
use crate::connection::Control;
use crate::event::{ConnectionEnd, ConnectionHandle, DeadReason, Event, Side};
use crate::header::CHANNELS;

impl Endpoint {
    /// Removes a connection at once; its calls die as [`DeadReason::Replaced`].
    pub fn close(&mut self, now: Instant, handle: ConnectionHandle) {
        let Some(connection) = self.connections.get_mut(handle.index as usize) else { return };
        if connection.core.handle() != handle {
            return;
        }
        for channel in 0..CHANNELS {
            connection.kill_call(channel, DeadReason::Replaced, &mut self.shared);
        }
        self.remove(now, handle.index, ConnectionEnd::Closed);
    }

    /// Removes a connection with all it holds.
    pub(super) fn remove(&mut self, now: Instant, index: u32, end: ConnectionEnd) {
        let Some(mut connection) = self.connections.try_remove(index as usize) else { return };
        connection.clear(&mut self.shared);
        let core = &connection.core;
        if core.delivered && core.error.is_none() {
            self.shared.events.push_back(Event::ConnectionEnded { connection: core.handle(), end });
        }
        let key = ConnectionKey::of(core);
        self.by_key.remove(&key);
        if core.side == Side::Server
            && let Some(directory) = self.lane_map.directory()
        {
            directory.release(&key, self.lane);
        }
        self.last_found = None;
        self.shared.ready.forget(index, core.queued);
        self.shared.peers[core.peer].room.forget(index);
        self.shared.peers.remove_connection(core.peer, now);
        let peer = &mut self.shared.peers[core.peer];
        if peer.probe.is_some_and(|probe| probe.connection == index) {
            peer.probe_lost(now);
            self.shared.stats.mtu_probes_lost += 1;
        }
        let peers_max = self.connections.len() + PEERS_SPARE;
        // A reader or a transmit may still have buffers that are charged to the peer's host.
        let holds = self.shared.pool.held_by(peer.account) > 0;
        self.shared.peers.drop_if_idle(core.peer, peers_max, holds);
        self.shared.stats.connections_reaped += 1;
        // A flood leaves wake-ups of evicted connections behind; they must not outgrow the living.
        if self.shared.timer_count() > TIMERS_PER_CONNECTION * self.connections.len() + TIMERS_SLACK {
            let connections = &self.connections;
            self.shared.retain_timers(|index, generation| {
                let found = connections.get(index as usize);
                found.is_some_and(|connection| connection.core.generation == generation)
            });
        }
    }

    /// Aborts a client or server connection with a code: all its calls end, and the peer is told.
    pub fn abort_connection(&mut self, handle: ConnectionHandle, code: i32) {
        let Some(connection) = self.connections.get_mut(handle.index as usize) else { return };
        if connection.core.handle() == handle && connection.core.error.is_none() {
            connection.fail(code, &mut self.shared);
            connection.queue_control(Control::Abort { channel: 0, call: 0, code }, &mut self.shared);
        }
    }
}

/// Timers for each connection that are kept before stale ones are cleared out.
const TIMERS_PER_CONNECTION: usize = 4;
const TIMERS_SLACK: usize = 1024;
//@ limit: peers
//@ section: Rx
//@ unit: address and port
//@ address: one for each port with a connection
//@ all: lane: the connections, and {} more
//@ empty: forgotten with their last connection; measured again when it comes back
//@ counter: rx_connections_made, rx_connections_reaped
//@ attack: rx-connections
/// Peers that are remembered beyond those with connections.
const PEERS_SPARE: usize = 8 * 1024;
