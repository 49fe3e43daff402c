//! Which connection a datagram belongs to, and what happens to those that belong to none.

use std::hash::{BuildHasher, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use lane::socket::reuseport::owner_lane;
use rand::Rng;

use super::{Endpoint, Loose};
use crate::abort;
use crate::connection::{Core, Identity, NEW_CALL_SEQ_MAX};
use crate::event::Side;
use crate::header::{EPOCH_ANY_ADDRESS, HEADER_LEN, Header, PacketType, SERVICE_UPGRADE, flags};

/// What a driver needs to know of a datagram to choose its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Epoch of the connection.
    pub epoch: u32,
    /// Connection id without channel bits.
    pub cid: u32,
    /// Sent by the side that opened the connection.
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

    /// The lane among `lanes` that the connection's ids lead to: the rule of [`owner_lane`], by which the kernel's
    /// selector of listener groups goes.
    pub fn lane(&self, lanes: u32) -> u32 {
        owner_lane(self.epoch, self.cid, lanes.max(1) as usize) as u32
    }
}

/// Epoch, id and side in one word, and the address where it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionKey {
    id: u64,
    address: Option<SocketAddr>,
}

impl ConnectionKey {
    pub(super) fn client(epoch: u32, cid: u32) -> Self {
        Self { id: word(epoch, cid, Side::Client), address: None }
    }

    pub(super) fn server(epoch: u32, cid: u32, remote: SocketAddr) -> Self {
        let any = epoch & EPOCH_ANY_ADDRESS != 0;
        Self { id: word(epoch, cid, Side::Server), address: (!any).then_some(remote) }
    }

    pub(super) fn of(core: &Core) -> Self {
        match core.side {
            Side::Client => Self::client(core.epoch, core.cid),
            Side::Server => Self::server(core.epoch, core.cid, core.remote),
        }
    }
}

fn word(epoch: u32, cid: u32, side: Side) -> u64 {
    u64::from(epoch) << 32 | u64::from(cid & !3) | u64::from(side == Side::Server)
}

impl std::hash::Hash for ConnectionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.id);
        if let Some(address) = &self.address {
            address.hash(state);
        }
    }
}

/// A fast hash whose keys are secret, so that chosen connection ids do not collide by design.
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
        let index = match self.find(&header, remote) {
            Some(index) => index,
            None => match self.accept(now, remote, local_ip, &header, datagram.len()) {
                Some(index) => index,
                None => return self.give_up_claim(&header, remote),
            },
        };
        let connection = &mut self.connections[index as usize];
        if connection.core.security_index != header.security {
            self.shared.stats.wrong_security += 1;
            return;
        }
        if connection.core.remote != remote
            && !connection.on_other_address(now, remote, local_ip, header.serial, &mut self.shared)
        {
            self.shared.stats.unknown_calls += 1;
            return;
        }
        connection.core.proof.budget += datagram.len() as u64;
        self.shared.peers[connection.core.peer].counters.bytes_received += datagram.len() as u64;
        connection.on_packet(now, &header, payload, &mut self.shared);
        self.shared.mark_ready(&mut connection.core);
    }

    pub(super) fn find(&mut self, header: &Header, remote: SocketAddr) -> Option<u32> {
        let key = if header.from_client() {
            ConnectionKey::server(header.epoch, header.cid, remote)
        } else {
            ConnectionKey::client(header.epoch, header.cid)
        };
        self.find_key(key)
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

    /// Makes a server connection for a client's first DATA packet, if there may be one.
    fn accept(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        len: usize,
    ) -> Option<u32> {
        if !begins_call(header) {
            self.shared.stats.unknown_calls += 1;
            return None;
        }
        let Some(service) = self.services.get(&header.service).copied() else {
            self.shared.stats.unknown_services += 1;
            self.abort_loose(now, remote, local_ip, header, abort::INVALID_OPERATION, len);
            return None;
        };
        let Some(factory) = self.factories.iter_mut().find(|factory| factory.index() == header.security)
        else {
            self.shared.stats.wrong_security += 1;
            self.abort_loose(now, remote, local_ip, header, abort::INVALID_OPERATION, len);
            return None;
        };
        let security = factory.accept(header.epoch, header.cid & !3);
        if !self.make_room(now) {
            self.shared.stats.connections_refused += 1;
            return None;
        }
        let upgraded =
            service.upgrade_to.filter(|_| header.user_status == SERVICE_UPGRADE && header.seq == 1);
        let identity = Identity {
            index: 0,
            generation: 0,
            side: Side::Server,
            epoch: header.epoch,
            cid: header.connection_id(),
            remote,
            local_ip,
            service: upgraded.unwrap_or(header.service),
            security_index: header.security,
            wants_upgrade: false,
        };
        let key = ConnectionKey::server(header.epoch, header.cid, remote);
        let handle = self.add_connection(now, key, identity, security);
        if !self.connections[handle.index as usize].core.proof.reached {
            self.unproved.push_back(handle);
        }
        Some(handle.index)
    }

    /// Makes room for one more connection: unproved ones have a limit of their own, and the oldest of them
    /// gives way, so that a flood from spoofed addresses displaces itself and nobody else.
    fn make_room(&mut self, now: Instant) -> bool {
        let config = &self.shared.config;
        let (unproved_max, connections_max) = (config.unproved_max, config.connections_max);
        while self.unproved.len() >= unproved_max || self.connections.len() >= connections_max {
            let Some(handle) = self.unproved.pop_front() else { break };
            let Some(connection) = self.connections.get(handle.index as usize) else { continue };
            if connection.core.handle() == handle && !connection.core.proof.reached {
                self.shared.stats.connections_evicted += 1;
                self.remove(now, handle.index);
            }
        }
        self.connections.len() < connections_max
    }

    /// Aborts a call of which nothing is kept, never with more bytes than came.
    fn abort_loose(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        local_ip: Option<IpAddr>,
        header: &Header,
        code: i32,
        len: usize,
    ) {
        let bucket = self.by_key.hasher().hash_one(remote.ip()) as usize % self.abort_buckets.len();
        if len < HEADER_LEN + 4 || !self.abort_buckets[bucket].take(now) {
            self.shared.stats.aborts_limited += 1;
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
        self.loose.push_back(Loose { destination, src_ip, packet });
        true
    }

    /// VERSION: a question to answer, the answer to our own probe, or somebody's NAT keep-alive. Stock clients ask
    /// with one byte and want the whole text, so answers are limited in number rather than in length.
    fn on_version(&mut self, now: Instant, remote: SocketAddr, local_ip: Option<IpAddr>, header: &Header) {
        if !header.from_client() {
            let key = ConnectionKey::server(header.epoch, header.cid, remote);
            if let Some(&index) = self.by_key.get(&key) {
                let connection = &mut self.connections[index as usize];
                if connection.core.remote == remote {
                    connection.on_version_answer(now, header.call, &mut self.shared);
                }
            }
            return;
        }
        if !self.answer_bucket.take(now) {
            self.shared.stats.answers_limited += 1;
            return;
        }
        let text = crate::debug::encode_version(&self.shared.config.version);
        let answer = Header { flags: header.flags & !flags::CLIENT_INITIATED, ..*header };
        if self.send_loose(remote, local_ip, &answer, &text) {
            self.shared.stats.versions_sent += 1;
        }
    }
}

/// Whether a client may open a connection with this packet.
pub(super) fn begins_call(header: &Header) -> bool {
    let data = header.kind == PacketType::Data && header.from_client();
    data && header.call != 0 && (1..=NEW_CALL_SEQ_MAX).contains(&header.seq)
}

/// Answers without a connection that may wait at once.
const LOOSE_MAX: usize = 256;
