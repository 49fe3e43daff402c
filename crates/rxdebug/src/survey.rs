//! State of one lane, as DEBUG answers show it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use rx::{CallView, ConnectionView, Endpoint, Peer, Side};

use super::share::{PAGE, Query, Share, Totals};
use super::{CallMode, CallState, ConnectionKind, DebugCall, DebugConn, DebugPeer, call_flags};

/// Returns a lane's share in an answer. May cost a walk through a table.
pub(super) fn survey(endpoint: &Endpoint, query: Query) -> Share {
    match query {
        Query::Totals => Share::Totals(Box::new(totals(endpoint))),
        Query::Connections { from, interesting } => connections_from(endpoint, from as usize, interesting),
        Query::Peers { after } => peers_after(endpoint, after),
    }
}

fn totals(endpoint: &Endpoint) -> Totals {
    let pool = endpoint.pool();
    let servers = endpoint.connections().filter(|found| found.side() == Side::Server).count();
    Totals {
        stats: *endpoint.stats(),
        packets: pool.allocated() as u64,
        packets_free: pool.free_count() as u64,
        waiting_for_packets: endpoint.waiting_for_packets() as u64,
        sockets: 1,
        server_connections: servers as u64,
        client_connections: (endpoint.connection_count() - servers) as u64,
        peers: endpoint.peers().count() as u64,
        calls: endpoint.connections().map(|connection| connection.calls().count() as u64).sum(),
    }
}

fn connections_from(endpoint: &Endpoint, from: usize, interesting: bool) -> Share {
    let mut entries = Vec::new();
    for connection in endpoint.connections_from(from) {
        if interesting && !connection.has_calls() {
            continue;
        }
        if entries.len() == PAGE {
            return Share::Connections { entries, next: Some(connection.handle().slot() as u32) };
        }
        entries.push(debug_connection(endpoint, &connection));
    }
    Share::Connections { entries, next: None }
}

/// Returns the peers with the lowest addresses after `after`, in order.
fn peers_after(endpoint: &Endpoint, after: Option<SocketAddr>) -> Share {
    let later = |peer: &&Peer| after.is_none_or(|after| peer.address() > after);
    let mut found: Vec<&Peer> = endpoint.peers().filter(later).collect();
    let more = found.len() > PAGE;
    if more {
        found.select_nth_unstable_by_key(PAGE, |peer| peer.address());
        found.truncate(PAGE);
    }
    found.sort_unstable_by_key(|peer| peer.address());
    Share::Peers { entries: found.into_iter().map(|peer| (peer.address(), debug_peer(peer))).collect(), more }
}

fn debug_peer(peer: &Peer) -> DebugPeer {
    let size = peer.packet_size() as u16;
    DebugPeer {
        host: ipv4(peer.address()),
        port: peer.address().port(),
        if_mtu: size,
        nat_mtu: size,
        max_mtu: size,
        mtu: size,
        references: u16::try_from(peer.connections()).unwrap_or(u16::MAX),
        rtt: peer.rtt().srtt(),
        rtt_dev: peer.rtt().rttvar(),
        timeout: peer.rtt().rto(),
        packets_sent: peer.counters().packets_sent as u32,
        resends: peer.counters().resends as u32,
        max_dgram_packets: 1,
        if_dgram_packets: 1,
        dgram_packets: 1,
        bytes_sent: peer.counters().bytes_sent,
        bytes_received: peer.counters().bytes_received,
        ..DebugPeer::default()
    }
}

fn debug_connection(endpoint: &Endpoint, connection: &ConnectionView<'_>) -> DebugConn {
    let remote = connection.remote();
    let (epoch, cid) = connection.id();
    let numbers = connection.call_numbers();
    DebugConn {
        host: ipv4(remote),
        port: remote.port(),
        epoch,
        cid,
        serial: connection.serial(),
        error: connection.error().unwrap_or(0),
        flags: 0,
        kind: match connection.side() {
            Side::Client => ConnectionKind::Client,
            Side::Server => ConnectionKind::Server,
        },
        security_index: connection.security_index(),
        calls: std::array::from_fn(|channel| {
            let call = connection.calls().find(|call| call.handle().channel() == channel);
            debug_call(numbers[channel], call)
        }),
        security: connection.security_statistics(),
        nat_mtu: endpoint.peer_at(remote).map_or(0, |peer| peer.packet_size() as u32),
    }
}

fn debug_call(number: u32, call: Option<CallView<'_>>) -> DebugCall {
    let Some(call) = call else {
        let state = if number == 0 { CallState::NotInit } else { CallState::Dally };
        return DebugCall { number, state, ..DebugCall::default() };
    };
    let serves = call.side() == Side::Server;
    let sending = serves && call.send_held() > 0 || !serves && !call.is_written();
    DebugCall {
        number,
        state: match (call.is_delivered(), serves && call.is_written()) {
            (false, _) => CallState::Precall,
            (true, true) => CallState::Hold,
            (true, false) => CallState::Active,
        },
        mode: if sending { CallMode::Sending } else { CallMode::Receiving },
        flags: if call.is_received() { call_flags::RECEIVE_DONE } else { 0 },
        has_input: call.receive_held() > 0,
        has_output: call.send_held() > 0,
    }
}

fn ipv4(address: SocketAddr) -> Ipv4Addr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}
