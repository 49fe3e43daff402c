//! Looking into an endpoint: getters, views of connections and calls, and the answers to `rxdebug`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::Endpoint;
use crate::call::Call;
use crate::connection::Connection;
use crate::debug::{
    self, CallMode, CallState, ConnectionKind, DebugCall, DebugConn, DebugPeer, DebugSource, DebugStats,
    RttTotals, RxStats, call_flags,
};
use crate::event::{CallHandle, ConnectionHandle, Side};
use crate::header::{Header, PacketType, flags};
use crate::packet::PacketPool;
use crate::peer::Peer;
use crate::security::Principal;
use crate::stats::EndpointStats;

/// A connection, read-only.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionView<'e> {
    connection: &'e Connection,
}

/// A call, read-only.
#[derive(Clone, Copy, Debug)]
pub struct CallView<'e> {
    call: &'e Call,
    window: u32,
}

impl<'e> ConnectionView<'e> {
    /// Its handle.
    pub fn handle(&self) -> ConnectionHandle {
        self.connection.core.handle()
    }

    /// Which side we are.
    pub fn side(&self) -> Side {
        self.connection.core.side
    }

    /// Address of the peer now.
    pub fn remote(&self) -> SocketAddr {
        self.connection.core.remote
    }

    /// Epoch and id (without channel bits).
    pub fn id(&self) -> (u32, u32) {
        (self.connection.core.epoch, self.connection.core.cid)
    }

    /// Service, after any upgrade.
    pub fn service(&self) -> u16 {
        self.connection.core.service
    }

    /// Security index.
    pub fn security_index(&self) -> u8 {
        self.connection.core.security_index
    }

    /// Who the client proved to be; `None` for an anonymous one.
    pub fn principal(&self) -> Option<&'e Principal> {
        self.connection.core.security.principal()
    }

    /// Abort code the connection failed with.
    pub fn error(&self) -> Option<i32> {
        self.connection.core.error
    }

    /// Whether the client's address has answered us.
    pub fn is_reached(&self) -> bool {
        self.connection.core.proof.reached
    }

    /// Last serial sent.
    pub fn serial(&self) -> u32 {
        self.connection.core.serial
    }

    /// Number of the current or last call of each channel.
    pub fn call_numbers(&self) -> [u32; 4] {
        std::array::from_fn(|channel| self.connection.channels[channel].number)
    }

    /// The calls under way.
    pub fn calls(&self) -> impl Iterator<Item = CallView<'e>> + use<'e> {
        self.connection.channels.iter().filter_map(|channel| {
            let window = channel.controller.as_ref().map_or(0, |controller| controller.window());
            Some(CallView { call: channel.call.as_deref()?, window })
        })
    }
}

impl CallView<'_> {
    /// Its handle.
    pub fn handle(&self) -> CallHandle {
        self.call.handle
    }

    /// Congestion window, packets.
    pub fn congestion_window(&self) -> u32 {
        self.window
    }

    /// Packets sent, not acknowledged and not known lost.
    pub fn in_flight(&self) -> u32 {
        self.call.tx.in_flight()
    }

    /// Packets held for sending, sent or not.
    pub fn send_held(&self) -> u32 {
        self.call.tx.held()
    }

    /// Packets received and not read.
    pub fn receive_held(&self) -> u32 {
        self.call.rx.held()
    }

    /// Packets we take from the reader's position on.
    pub fn receive_window(&self) -> u32 {
        self.call.rx.window()
    }

    /// One past the highest packet the peer's window takes.
    pub fn send_edge(&self) -> u32 {
        self.call.edge
    }

    /// Packets held in all, the one being written included.
    pub fn packets_held(&self) -> u32 {
        self.call.packets_held()
    }

    /// Whether the call is a client's of which nothing has been sent: it lasts until the application goes on.
    pub fn is_local(&self) -> bool {
        self.call.is_unknown_to_peer()
    }

    /// When the call was opened or accepted.
    pub fn started_at(&self) -> Instant {
        self.call.started_at
    }
}

impl Endpoint {
    /// Counters.
    pub fn stats(&self) -> &EndpointStats {
        &self.shared.stats
    }

    /// The packet pool.
    pub fn pool(&self) -> &PacketPool {
        &self.shared.pool
    }

    /// The configuration.
    pub fn config(&self) -> &crate::EndpointConfig {
        &self.shared.config
    }

    /// Epoch of the connections opened here.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Connections, both sides.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Wake-ups set, stale ones included: bounded by the number of connections.
    pub fn timers_set(&self) -> usize {
        self.shared.timer_count()
    }

    /// All connections.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionView<'_>> {
        self.connections.iter().map(|(_, connection)| ConnectionView { connection })
    }

    /// One connection.
    pub fn connection(&self, handle: ConnectionHandle) -> Option<ConnectionView<'_>> {
        let connection = self.connections.get(handle.index as usize)?;
        (connection.core.handle() == handle).then_some(ConnectionView { connection })
    }

    /// All peers.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.shared.peers.iter()
    }

    /// The peer at an address.
    pub fn peer_at(&self, address: SocketAddr) -> Option<&Peer> {
        self.shared.peers.find(address).map(|index| &self.shared.peers[index])
    }

    pub(super) fn on_debug(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        payload: &[u8],
    ) {
        if !header.from_client() || !self.answer_bucket.take(now) {
            return;
        }
        let Ok(answer) = debug::answer(payload, self) else {
            self.shared.stats.misplaced += 1;
            return;
        };
        let header =
            Header { flags: header.flags & !flags::CLIENT_INITIATED, kind: PacketType::Debug, ..*header };
        self.send_loose(remote, local_ip, &header, &answer);
    }
}

impl DebugSource for Endpoint {
    fn stats(&self) -> DebugStats {
        let pool = &self.shared.pool;
        DebugStats {
            free_packets: pool.free_count() as u32,
            packets: pool.allocated() as u32,
            calls_executed: clip(self.shared.stats.calls_accepted),
            waiting_for_packets: !self.shared.waiting_for_packets.is_empty(),
            used_fds: 1,
            ..DebugStats::default()
        }
    }

    fn connection(&self, index: u32, interesting: bool) -> Option<DebugConn> {
        let mut all = self.connections.iter().filter(|(_, found)| !interesting || found.has_calls());
        all.nth(index as usize).map(|(_, connection)| debug_connection(connection, &self.shared.peers))
    }

    fn rx_stats(&self) -> RxStats {
        let stats = &self.shared.stats;
        let servers = self.connections.iter().filter(|(_, found)| found.core.side == Side::Server).count();
        let calls = self.connections().map(|connection| connection.calls().count()).sum::<usize>();
        RxStats {
            data_packets_read: clip(stats.data_received),
            ack_packets_read: clip(stats.acks_received),
            dup_packets_read: clip(stats.duplicates),
            spurious_packets_read: clip(stats.unknown_calls + stats.old_calls),
            bogus_packet_on_read: clip(stats.bad_headers),
            no_packet_buffers_on_read: clip(stats.no_buffers),
            send_alloc_failures: clip(stats.transmit_starved),
            ack_packets_sent: clip(stats.acks_sent),
            ping_packets_sent: clip(stats.pings_sent),
            abort_packets_sent: clip(stats.aborts_sent),
            busy_packets_sent: clip(stats.busies_sent),
            data_packets_sent: clip(stats.data_sent - stats.resends),
            data_packets_resent: clip(stats.resends),
            rtt: RttTotals::default(),
            server_conns: servers as u32,
            client_conns: (self.connections.len() - servers) as u32,
            peers: self.shared.peers.iter().count() as u32,
            calls: calls as u32,
            busies: clip(stats.busies_sent),
            ..RxStats::default()
        }
    }

    fn peer(&self, index: u32) -> Option<DebugPeer> {
        let peer = self.shared.peers.iter().nth(index as usize)?;
        let size = peer.packet_size() as u16;
        Some(DebugPeer {
            host: ipv4(peer.address()),
            port: peer.address().port(),
            if_mtu: size,
            nat_mtu: size,
            max_mtu: size,
            mtu: size,
            references: peer.connections() as u16,
            rtt: peer.rtt().srtt(),
            rtt_dev: peer.rtt().rttvar(),
            timeout: peer.rtt().rto(),
            packets_sent: clip(peer.counters().packets_sent),
            resends: clip(peer.counters().resends),
            max_dgram_packets: 1,
            if_dgram_packets: 1,
            dgram_packets: 1,
            bytes_sent: peer.counters().bytes_sent,
            bytes_received: peer.counters().bytes_received,
            ..DebugPeer::default()
        })
    }
}

fn debug_connection(connection: &Connection, peers: &crate::peer::Peers) -> DebugConn {
    let core = &connection.core;
    DebugConn {
        host: ipv4(core.remote),
        port: core.remote.port(),
        epoch: core.epoch,
        cid: core.cid,
        serial: core.serial,
        error: core.error.unwrap_or(0),
        flags: 0,
        kind: if core.side == Side::Client { ConnectionKind::Client } else { ConnectionKind::Server },
        security_index: core.security_index,
        calls: std::array::from_fn(|channel| {
            let channel = &connection.channels[channel];
            debug_call(channel.number, channel.call.as_deref())
        }),
        security: None,
        nat_mtu: peers[core.peer].packet_size() as u32,
    }
}

fn debug_call(number: u32, call: Option<&Call>) -> DebugCall {
    let Some(call) = call else {
        let state = if number == 0 { CallState::NotInit } else { CallState::Dally };
        return DebugCall { number, state, ..DebugCall::default() };
    };
    let replying = call.side == Side::Server && call.tx.held() > 0;
    let sending = replying || call.side == Side::Client && !call.finished_writing;
    DebugCall {
        number,
        state: match (call.is_delivered(), call.side == Side::Server && call.finished_writing) {
            (false, _) => CallState::Precall,
            (true, true) => CallState::Hold,
            (true, false) => CallState::Active,
        },
        mode: if sending { CallMode::Sending } else { CallMode::Receiving },
        flags: if call.rx.is_complete() { call_flags::RECEIVE_DONE } else { 0 },
        has_input: call.rx.held() > 0,
        has_output: call.tx.held() > 0,
    }
}

fn ipv4(address: SocketAddr) -> Ipv4Addr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// Rx counts in 32 bits and wraps.
fn clip(count: u64) -> u32 {
    count as u32
}
