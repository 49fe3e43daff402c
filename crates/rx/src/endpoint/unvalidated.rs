//! Unvalidated clients: those whose address has not answered yet.
//!
//! ```text
//! DATA that begins a call, connection unknown
//!   | address proved (another connection's ACK, or a cookie)  -> connection, served at once
//!   | strangers have had their share of this turn                 -> dropped; the client sends it again
//!   | room among the unproved, or the oldest there had its second -> connection, its packets held, reach probe
//!   v none -> a PING whose serial is a cookie; nothing is stored
//!               | PING_RESPONSE that names the cookie -> the address is remembered as proved
//!               v the client's next transmission of its request is served at once
//! ```
//! A connection's first serial is the cookie in both cases, so an answer counts even if the connection has had to give
//! way in the meantime. OpenAFS and Linux answer a PING with the serial they got, and send a request again that was not
//! acknowledged; an OpenAFS server asks in the same way. So a flood costs no memory, and newcomers beside it the time of
//! one retransmission.
//!
//! A security class with a challenge proves the address too, by its RESPONSE; then the probe asks nothing more. Under a
//! flood the PING comes first all the same: a challenge needs a connection, and that is what must not be made.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use super::connection_key::ConnectionKey;
use super::{Endpoint, Service};
use crate::abort;
use crate::ack::{self, Ack, AckFields, AckReason, Trailer};
use crate::connection::{AMPLIFICATION_MAX, Identity, NEW_CALL_SEQ_MAX};
use crate::cookie::Holder;
use crate::event::{ConnectionEnd, Event, Side};
use crate::header::{HEADER_LEN, Header, PacketType, SERVICE_UPGRADE, flags};
use crate::security::not_authenticated;

impl Endpoint {
    /// Makes a server connection for a client's first DATA packet, if there may be one.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        key: ConnectionKey,
        len: usize,
    ) -> Option<u32> {
        if let Some(code) = self.shared.refuses {
            self.shared.stats.calls_refused += 1;
            self.abort_loose(now, remote, local_ip, header, code, len);
            return None;
        }
        let Some(service) = self.services.get(&header.service).copied() else {
            self.shared.stats.unknown_services += 1;
            self.abort_loose(now, remote, local_ip, header, abort::INVALID_OPERATION, len);
            return None;
        };
        let Some(factory) = self.factories.iter().position(|factory| factory.index() == header.security)
        else {
            self.refuse_proof(now, remote, local_ip, header, len);
            return None;
        };
        let proved = self.is_proved(now, remote);
        if !proved && !self.may_answer_stranger(self.hash_of_source(remote.ip())) {
            return None;
        }
        if !self.make_room(now, proved, remote.ip()) {
            if proved {
                self.shared.stats.connections_refused += 1;
            } else {
                self.send_cookie(now, remote, local_ip, header, len);
            }
            return None;
        }
        if proved {
            let peer = self.shared.peers.find_or_add(remote, now, &self.shared.config);
            self.shared.peers[peer].proved_at.get_or_insert(now);
        }
        let security = self.factories[factory].accept(header.epoch, header.connection_id());
        let identity = Identity {
            index: 0,
            generation: 0,
            side: Side::Server,
            epoch: header.epoch,
            cid: header.connection_id(),
            remote,
            local_ip,
            by_address: key.has_address(),
            service: upgraded(service, header).unwrap_or(header.service),
            security_index: header.security,
            wants_upgrade: false,
            ends_at_closed_port: false,
        };
        let handle = self.add_connection(now, key, identity, security);
        if !self.connections[handle.index as usize].core.validation.reached {
            self.unproved.push_back((now, handle));
        }
        Some(handle.index)
    }

    /// Refuses a client with a security class that is not offered: the client gets the class's own abort, and
    /// the application an event now and then.
    fn refuse_proof(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        len: usize,
    ) {
        self.shared.stats.wrong_security += 1;
        let code = not_authenticated(header.security);
        self.abort_loose(now, remote, local_ip, header, code.unwrap_or(abort::INVALID_OPERATION), len);
        let is_told = self.proof_refused_at.is_some_and(|at| now < at + PROOF_REFUSED_EVERY);
        if code.is_some() && !is_told {
            self.proof_refused_at = Some(now);
            self.shared.events.push_back(Event::ProofRefused { remote, index: header.security });
        }
    }

    /// Returns whether packets to this address are known to arrive.
    fn is_proved(&self, now: Instant, remote: SocketAddr) -> bool {
        let lifetime = self.shared.config.reach_time;
        let peer = self.shared.peers.find(remote);
        peer.is_some_and(|peer| self.shared.peers[peer].is_proved(now, lifetime))
            || self.proved.contains(now, remote, lifetime)
    }

    /// Makes room for one more connection. Unproved ones have a limit of their own: one that has had time for
    /// an answer gives way, and where all are younger the newcomer gets none. Clients that are proved
    /// displace those that are not, and then idle connections of the source that has most.
    fn make_room(&mut self, now: Instant, proved: bool, ip: IpAddr) -> bool {
        let config = &self.shared.config;
        let (unproved_max, connections_max) = (config.unproved_max, config.connections_max);
        if !proved && self.has_its_share(ip) {
            return false;
        }
        let full = |endpoint: &Self| endpoint.connections.len() >= connections_max;
        while full(self) || !proved && self.unproved.len() >= unproved_max {
            let Some(&(since, handle)) = self.unproved.front() else { break };
            let waits = self.connections.get(handle.index as usize).is_some_and(|connection| {
                connection.core.handle() == handle && !connection.core.validation.reached
            });
            if waits && !proved && now < since + UNPROVED_TIME_MIN {
                return false;
            }
            self.unproved.pop_front();
            if waits {
                self.shared.stats.connections_evicted += 1;
                self.remove(now, handle.index, ConnectionEnd::Displaced);
            }
        }
        if proved {
            return self.make_room_by_share(now, ip);
        }
        !full(self)
    }

    /// Asks a newcomer, of which nothing is kept, for a sign of life by a cookie.
    fn send_cookie(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        len: usize,
    ) {
        let config = &self.shared.config;
        let fields = AckFields {
            first: 1,
            previous: 0,
            serial: header.serial,
            reason: AckReason::Ping,
            trailer: Trailer { window: config.receive_window.min(255), ..self.shared.own_trailer() },
            extended: config.extensions,
        };
        let mut payload = [0; ack::ACK_PAYLOAD_MAX];
        let payload_len = ack::encode(&mut payload, &fields, |_| 0, || None);
        let cookie = self.cookies.serial(now, &holder(header, remote));
        let ping = Header {
            kind: PacketType::Ack,
            flags: flags::SLOW_START_OK | flags::REQUEST_ACK,
            seq: 0,
            serial: cookie + 1,
            user_status: 0,
            checksum: 0,
            ..*header
        };
        let affordable = HEADER_LEN + payload_len <= AMPLIFICATION_MAX as usize * len;
        if affordable && self.send_loose(remote, local_ip, &ping, &payload[..payload_len]) {
            self.shared.stats.cookies_sent += 1;
        } else {
            self.shared.stats.answers_limited += 1;
        }
    }

    /// Takes an ACK for a connection that does not exist, which may bring a cookie back.
    pub(super) fn take_cookie(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        header: &Header,
        payload: &[u8],
    ) -> bool {
        let asks = header.kind == PacketType::Ack && header.from_client();
        let Some(ack) = Ack::parse(payload).ok().filter(|_| asks) else { return false };
        if !self.cookies.is_early_serial(now, &holder(header, remote), ack.serial) {
            return false;
        }
        if self.proved.insert(now, remote, self.shared.config.reach_time) {
            self.shared.stats.cookies_returned += 1;
        } else {
            self.shared.stats.cookies_refused += 1;
        }
        true
    }

    /// Spreads one connection's proof to all connections of its address.
    pub(super) fn spread_proof(&mut self, now: Instant, peer: usize) {
        if self.shared.peers[peer].connections() < 2 {
            return;
        }
        for &(_, handle) in &self.unproved {
            let Some(connection) = self.connections.get_mut(handle.index as usize) else { continue };
            let core = &connection.core;
            if core.handle() == handle && core.peer == peer && !core.validation.reached {
                connection.try_deliver(now, &mut self.shared);
                self.shared.mark_ready(&mut connection.core);
            }
        }
    }
}

pub(super) fn holder(header: &Header, address: SocketAddr) -> Holder {
    Holder { address, epoch: header.epoch, cid: header.connection_id() }
}

fn upgraded(service: Service, header: &Header) -> Option<u16> {
    service.upgrade_to.filter(|_| header.user_status == SERVICE_UPGRADE && header.seq == 1)
}

/// Returns whether a client may open a connection with this packet.
pub(super) fn begins_call(header: &Header) -> bool {
    let data = header.kind == PacketType::Data && header.from_client();
    data && header.call != 0 && (1..=NEW_CALL_SEQ_MAX).contains(&header.seq)
}

/// Time that an unproved connection has for its client's answer before it gives way to another.
const UNPROVED_TIME_MIN: Duration = Duration::from_secs(1);
/// Time between two events about clients whose security class is not offered.
const PROOF_REFUSED_EVERY: Duration = Duration::from_secs(1);
