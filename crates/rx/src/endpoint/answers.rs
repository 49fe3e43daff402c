//! Answers to `rxdebug`: what this lane knows, and its part in answers that concern all lanes of an address.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use super::Endpoint;
use crate::call::Call;
use crate::connection::Connection;
use crate::debug::desk::{Asker, Step};
use crate::debug::share::{PAGE, Query, Share, Totals};
use crate::debug::{
    CallMode, CallState, ConnectionKind, DebugCall, DebugConn, DebugPeer, DebugRequest, call_flags,
};
use crate::event::Side;
use crate::header::{Header, PacketType, flags};
use crate::peer::{Peer, Peers};

/// What the endpoints of an address ask each other to answer a DEBUG question.
#[derive(Debug)]
pub struct LaneMail(Mail);

#[derive(Debug)]
enum Mail {
    Query { from: usize, ticket: u64, query: Query },
    Share { ticket: u64, share: Share },
}

impl Endpoint {
    pub(super) fn on_debug(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        payload: &[u8],
    ) {
        let Ok(request) = DebugRequest::parse(payload) else {
            self.shared.stats.misplaced += 1;
            return;
        };
        if !header.from_client() {
            self.shared.stats.misplaced += 1;
            return;
        }
        if !self.may_answer(now, remote) {
            return;
        }
        let ip = remote.ip().to_canonical();
        let sees_ids = ip.is_loopback()
            || local_ip == Some(remote.ip())
            || self.shared.config.debug_ids.iter().any(|range| range.contains(ip));
        let step = self.desk.ask(Asker { remote, local_ip, header: *header, sees_ids }, request);
        self.follow(now, Some(step));
    }

    /// Takes mail from another lane.
    pub fn handle_lane_mail(&mut self, now: Instant, mail: LaneMail) {
        match mail.0 {
            Mail::Query { from, ticket, query } => {
                let share = self.share(now, query);
                self.lane_mail.push_back((from, LaneMail(Mail::Share { ticket, share })));
            }
            Mail::Share { ticket, share } => {
                let step = self.desk.take(ticket, share);
                self.follow(now, step);
            }
        }
    }

    /// The next mail to another lane, and to which.
    pub fn poll_lane_mail(&mut self) -> Option<(usize, LaneMail)> {
        self.lane_mail.pop_front()
    }

    /// Mail did not reach its lane: that has too much already, or has ended (`gone`) and has no share.
    pub fn lane_mail_undelivered(&mut self, now: Instant, mail: LaneMail, gone: bool) {
        if let Mail::Query { ticket, query, .. } = mail.0 {
            let share = if gone { query.nothing() } else { Share::Refused };
            if matches!(share, Share::Refused) {
                self.shared.stats.answers_limited += 1;
            }
            let step = self.desk.take(ticket, share);
            self.follow(now, step);
        }
    }

    fn follow(&mut self, now: Instant, mut next: Option<Step>) {
        while let Some(step) = next.take() {
            match step {
                Step::Answer { asker, payload } => self.send_answer(&asker, &payload),
                Step::Gather { ticket, lanes, query } => {
                    let from = self.lane;
                    // Own share first: a lane with enough to do asks nobody else.
                    let own = if self.gather_bucket.take(now) {
                        lanes.contains(&from).then(|| self.share(now, query))
                    } else {
                        self.shared.stats.answers_limited += 1;
                        Some(Share::Refused)
                    };
                    if !matches!(own, Some(Share::Refused)) {
                        let others = lanes.filter(|&lane| lane != from);
                        let asked = others.map(|lane| (lane, LaneMail(Mail::Query { from, ticket, query })));
                        self.lane_mail.extend(asked);
                    }
                    next = own.and_then(|share| self.desk.take(ticket, share));
                }
            }
        }
    }

    fn send_answer(&mut self, asker: &Asker, payload: &[u8]) {
        let flags = asker.header.flags & !flags::CLIENT_INITIATED;
        let header = Header { flags, kind: PacketType::Debug, ..asker.header };
        if self.send_loose(asker.remote, asker.local_ip, &header, payload) {
            self.shared.stats.debugs_sent += 1;
        }
    }

    /// What this lane knows. Each share may cost a walk through a table, so their number is limited.
    fn share(&mut self, now: Instant, query: Query) -> Share {
        if !self.share_bucket.take(now) {
            self.shared.stats.answers_limited += 1;
            return Share::Refused;
        }
        match query {
            Query::Totals => Share::Totals(Box::new(self.totals())),
            Query::Connections { from, interesting } => self.connections_from(from as usize, interesting),
            Query::Peers { after } => peers_after(&self.shared.peers, after),
        }
    }

    fn totals(&self) -> Totals {
        let pool = &self.shared.pool;
        let servers = self.connections.iter().filter(|(_, found)| found.core.side == Side::Server).count();
        Totals {
            stats: self.shared.stats,
            packets: pool.allocated() as u64,
            packets_free: pool.free_count() as u64,
            waiting_for_packets: self.shared.waiting_for_packets.len() as u64,
            sockets: 1,
            server_connections: servers as u64,
            client_connections: (self.connections.len() - servers) as u64,
            peers: self.shared.peers.iter().count() as u64,
            calls: self.connections().map(|connection| connection.calls().count() as u64).sum(),
        }
    }

    fn connections_from(&self, from: usize, interesting: bool) -> Share {
        let mut entries = Vec::new();
        for at in from..self.connections.capacity() {
            let Some(connection) = self.connections.get(at) else { continue };
            if interesting && !connection.has_calls() {
                continue;
            }
            if entries.len() == PAGE {
                return Share::Connections { entries, next: Some(at as u32) };
            }
            entries.push(debug_connection(connection, &self.shared.peers));
        }
        Share::Connections { entries, next: None }
    }
}

/// The peers with the lowest addresses after `after`, in order.
fn peers_after(peers: &Peers, after: Option<SocketAddr>) -> Share {
    let later = |peer: &&Peer| after.is_none_or(|after| peer.address() > after);
    let mut found: Vec<&Peer> = peers.iter().filter(later).collect();
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

pub(crate) fn debug_connection(connection: &Connection, peers: &Peers) -> DebugConn {
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
        security: core.security.statistics(),
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

#[cfg(test)]
mod tests;
