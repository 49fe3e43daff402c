//! Assignment of datagrams to connections, and handling of datagrams without one.

use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use rand::Rng;

use super::connection_key::ConnectionKey;
use super::moves::Stray;
use super::unvalidated::begins_call;
use super::{Endpoint, UnboundPacket};
use crate::header::{EPOCH_ANY_ADDRESS, HEADER_LEN, Header, PacketType, flags};
use crate::source::source_of;

/// Fields of a datagram by which a driver chooses its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Epoch of the connection.
    pub epoch: u32,
    /// Connection id without channel bits.
    pub cid: u32,
    /// Set if the side that opened the connection sent the datagram.
    pub from_client: bool,
}

impl Route {
    /// Reads the route of a datagram; `None` if it is shorter than a header.
    pub fn of(datagram: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_LEN] = datagram.first_chunk()?;
        Some(Self {
            epoch: u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            cid: u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) & !3,
            from_client: bytes[21] & flags::CLIENT_INITIATED != 0,
        })
    }

    /// Returns the lane among `lanes` that the connection's ids lead to, the same for its four channels. The
    /// kernel's selector of listener groups uses the same rule.
    pub fn lane(&self, lanes: u32) -> u32 {
        ((self.cid >> 2) ^ self.epoch) % lanes.max(1)
    }
}

/// Match of a packet with the connections of this endpoint, by ids and address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionMatch {
    Here(u32),
    /// The ids are this connection's, the address is not.
    Elsewhere(u32),
    Nowhere,
}

/// Fast hash with secret keys, so that chosen connection ids do not collide by design.
#[derive(Clone, Debug)]
pub(super) struct KeyedState {
    keys: [u64; 2],
}

impl KeyedState {
    pub(super) fn new(rng: &mut impl Rng) -> Self {
        Self { keys: [rng.random(), rng.random()] }
    }
}

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { state: self.keys[0], key: self.keys[1] | 1 }
    }
}

#[derive(Clone, Debug)]
pub(super) struct KeyedHasher {
    state: u64,
    key: u64,
}

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.state ^ value) * u128::from(self.key ^ FOLD);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        let product = u128::from(self.state) * u128::from(self.key);
        (product as u64) ^ ((product >> 64) as u64)
    }
}

const FOLD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Endpoint {
    /// Takes one datagram of a received batch. `local_ip` is the address it came to, where the host has
    /// several; answers leave from there.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        datagram: &[u8],
    ) {
        self.shared.stats.datagrams_received += 1;
        self.shared.stats.bytes_received += datagram.len() as u64;
        let Ok((header, payload)) = Header::parse(datagram) else {
            self.shared.stats.bad_headers += 1;
            return;
        };
        match header.kind {
            PacketType::Version => return self.on_version(now, remote, local_ip, &header),
            PacketType::Debug => return self.on_debug(now, remote, local_ip, &header, payload),
            _ => {}
        }
        let mut follows = None;
        let index = match self.find(&header, remote) {
            ConnectionMatch::Here(index) => index,
            ConnectionMatch::Elsewhere(index) => {
                match self.on_stray(now, remote, local_ip, &header, index, datagram.len()) {
                    Stray::Refused => return,
                    Stray::NewConnection(new_connection) => new_connection,
                    Stray::Taken { follows: known } => {
                        follows = Some(known);
                        index
                    }
                }
            }
            ConnectionMatch::Nowhere if begins_call(&header) => {
                let key = ConnectionKey::server(header.epoch, header.cid, remote);
                match self.accept(now, remote, local_ip, &header, key, datagram.len()) {
                    Some(index) => index,
                    None => return self.give_up_claim(&header, remote),
                }
            }
            ConnectionMatch::Nowhere => {
                let is_answer = self.take_cookie(now, remote, &header, payload);
                self.shared.stats.unknown_calls += u64::from(!is_answer);
                return;
            }
        };
        let connection = &mut self.connections[index as usize];
        if connection.core.security_index != header.security {
            self.shared.stats.wrong_security += 1;
            return;
        }
        if let Some(follows) = follows {
            let opened = connection.core.opened;
            connection.on_packet(now, &header, payload, &mut self.shared);
            self.shared.mark_ready(&mut connection.core);
            if connection.core.opened != opened {
                connection.core.accepted_from = Some(remote);
            }
            if follows || connection.core.opened != opened {
                self.ask_new_address(now, remote, local_ip, index, datagram.len());
            }
            return;
        }
        if connection.core.by_address && begins_call(&header) {
            self.note_elsewhere(&header, remote);
        }
        let connection = &mut self.connections[index as usize];
        let core = &mut connection.core;
        core.heard_at = now;
        core.validation.pay_in(datagram.len());
        let (peer, reached) = (core.peer, core.validation.reached);
        if reached {
            self.strangers.note_client();
        }
        let peer_known = &mut self.shared.peers[peer];
        peer_known.on_received(now, datagram.len());
        self.shared.stats.stock_received += u64::from(peer_known.is_stock());
        connection.on_packet(now, &header, payload, &mut self.shared);
        self.shared.mark_ready(&mut connection.core);
        if !reached && connection.core.validation.reached {
            self.spread_proof(now, peer);
        }
        self.reclaim_if_short(now);
    }

    pub(super) fn find(&mut self, header: &Header, remote: SocketAddr) -> ConnectionMatch {
        if !header.from_client() {
            // A server with several addresses answers from any of them, by the same port.
            return match self.find_key(ConnectionKey::client(header.epoch, header.cid)) {
                Some(index) if self.connections[index as usize].core.remote.port() == remote.port() => {
                    ConnectionMatch::Here(index)
                }
                Some(index) => ConnectionMatch::Elsewhere(index),
                None => ConnectionMatch::Nowhere,
            };
        }
        let found = self.find_key(ConnectionKey::server(header.epoch, header.cid, remote));
        if let Some(index) = found
            && self.connections[index as usize].core.remote == remote
        {
            return ConnectionMatch::Here(index);
        }
        if header.epoch & EPOCH_ANY_ADDRESS != 0
            && let Some(&index) = self.by_key.get(&ConnectionKey::at(header.epoch, header.cid, remote))
        {
            return ConnectionMatch::Here(index);
        }
        found.map_or(ConnectionMatch::Nowhere, ConnectionMatch::Elsewhere)
    }

    pub(super) fn find_key(&mut self, key: ConnectionKey) -> Option<u32> {
        if let Some((last, index)) = self.last_found
            && last == key
        {
            return Some(index);
        }
        let index = self.by_key.get(&key).copied()?;
        self.last_found = Some((key, index));
        Some(index)
    }

    /// Aborts a call of which nothing is kept, never with more bytes than came.
    pub(super) fn abort_loose(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        code: i32,
        len: usize,
    ) {
        let source = self.hash_of_source(remote.ip());
        let bucket = source as usize % self.abort_buckets.len();
        if len < HEADER_LEN + 4 || !self.abort_buckets[bucket].take(now) {
            self.shared.stats.aborts_limited += 1;
            return;
        }
        if !self.may_answer_stranger(source) {
            return;
        }
        let answer = Header {
            kind: PacketType::Abort,
            flags: 0,
            seq: 0,
            serial: 0,
            user_status: 0,
            checksum: 0,
            ..*header
        };
        if self.send_loose(remote, local_ip, &answer, &code.to_be_bytes()) {
            self.shared.stats.aborts_sent += 1;
        }
    }

    /// Returns whether a stranger is answered in this turn, by the hash of its source.
    pub(super) fn may_answer_stranger(&mut self, source: u64) -> bool {
        let allowed = self.strangers.may_answer(source);
        self.shared.stats.strangers_limited += u64::from(!allowed);
        allowed
    }

    /// Returns the hash by which sources are told apart in tables without a place for each.
    pub(super) fn hash_of_source(&self, ip: IpAddr) -> u64 {
        self.by_key.hasher().hash_one(source_of(ip))
    }

    /// Returns whether a VERSION or DEBUG question is answered, within the limits of all answers and of those
    /// to a source.
    pub(super) fn may_answer(&mut self, now: Instant, remote: SocketAddr) -> bool {
        let source = self.hash_of_source(remote.ip());
        if !self.may_answer_stranger(source) {
            return false;
        }
        let bucket = source as usize % self.asker_buckets.len();
        let local = remote.ip().to_canonical().is_loopback();
        let allowed = (local || self.asker_buckets[bucket].take(now)) && self.answer_bucket.take(now);
        self.shared.stats.answers_limited += u64::from(!allowed);
        allowed
    }

    /// Queues a packet that belongs to no connection.
    pub(super) fn send_loose(
        &mut self,
        destination: SocketAddr,
        src_ip: Option<IpAddr>,
        header: &Header,
        payload: &[u8],
    ) -> bool {
        if self.loose.len() >= LOOSE_MAX || payload.len() > self.shared.pool.payload_max() {
            return false;
        }
        let Some(packet) = self.shared.alloc_control() else { return false };
        let pool = &mut self.shared.pool;
        pool.set_payload_len(&packet, payload.len());
        pool.payload_room(&packet)[..payload.len()].copy_from_slice(payload);
        header.encode(pool.buffer_mut(&packet).first_chunk_mut().expect("a buffer holds a header"));
        let packet = self.shared.pin_once(packet);
        self.loose.push_back(UnboundPacket { destination, src_ip, packet });
        true
    }

    /// Handles VERSION: a question to answer, the answer to our own probe, or a peer's NAT keep-alive. Stock
    /// clients ask with one byte and want the whole text, so answers are limited in number rather than in
    /// length.
    fn on_version(&mut self, now: Instant, remote: SocketAddr, local_ip: Option<IpAddr>, header: &Header) {
        if !header.from_client() {
            return self.on_version_answer(now, remote, local_ip, header);
        }
        if !self.may_answer(now, remote) {
            return;
        }
        let text = crate::version::encode_version(&self.shared.config.version);
        let answer = Header { flags: header.flags & !flags::CLIENT_INITIATED, ..*header };
        if self.send_loose(remote, local_ip, &answer, &text) {
            self.shared.stats.versions_sent += 1;
        }
    }
}

/// Most answers without a connection that wait to be sent.
const LOOSE_MAX: usize = 256;
