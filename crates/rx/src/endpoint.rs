//! Endpoint of Rx: everything behind one UDP socket, without the socket.
//!
//! [`Endpoint`] has four families of functions, as quinn-proto's types have:
//! - getters;
//! - `handle_datagram` and `handle_timeout`, which take what happened;
//! - mutators (`connect`, `open_call`, and those of [`CallMut`]), which take what the application wants;
//! - `poll_transmit`, `poll_event` and `poll_timeout`, which give what follows from it.
//!
//! The order in a driver's loop: `handle_datagram` for each datagram of a received batch, `handle_timeout` if
//! its time has come, `poll_event` until empty (the application reads and writes), `poll_transmit` until empty
//! (each burst goes to one `sendmsg`, then back by `transmit_done`), and then sleep until `poll_timeout`.
//! Nothing is sent from inside the handling of a packet, so a batch of ACKs causes one transmit pass.

mod call_mut;
mod connection_key;
mod demux;
mod directory;
mod drain;
mod ending;
mod introspect;
mod lane_map;
mod moves;
mod placement;
mod questions;
mod rates;
mod reclaim;
mod settings;
mod strangers;
mod unreachable;
mod unvalidated;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::config::EndpointConfig;
use crate::connection::{Connection, Identity};
use crate::cookie::{Cookies, Holder};
use crate::event::{CallHandle, ConnectionEnd, ConnectionHandle, Event, Side};
use crate::header::{EPOCH_ANY_ADDRESS, HEADER_LEN};
use crate::packet::PacketRef;
use crate::peer::TokenBucket;
use crate::security::{Security, SecurityFactory};
use crate::shared::Shared;
use crate::transmit::{SEGMENTS_MAX, Transmit};
use crate::validated_addresses::ValidatedAddresses;

pub use call_mut::{CallMut, ReadError};
pub use demux::Route;
pub use introspect::{CallView, ConnectionView};

pub use lane_map::LaneMap;
pub use placement::Arrival;
pub use questions::Question;

use connection_key::ConnectionKey;
use demux::KeyedState;
use strangers::Strangers;

/// Protocol state behind one UDP socket, client and server at once.
#[derive(Debug)]
pub struct Endpoint {
    pub(crate) shared: Shared,
    pub(crate) connections: slab::Slab<Connection>,
    by_key: HashMap<ConnectionKey, u32, KeyedState>,
    /// Connection of the last datagram: the next of a batch mostly belongs to the same.
    last_found: Option<(ConnectionKey, u32)>,
    generation: u32,
    /// Server connections that began with an unproved client, with the time; oldest first.
    unproved: VecDeque<(Instant, ConnectionHandle)>,
    cookies: Cookies,
    proved: ValidatedAddresses,
    services: HashMap<u16, Service>,
    factories: Vec<Box<dyn SecurityFactory>>,
    epoch: u32,
    next_cid: u32,
    /// Strangers' share of this turn.
    strangers: Strangers,
    /// Answers that belong to no connection.
    loose: VecDeque<UnboundPacket>,
    /// Packet that did not fit the last burst.
    carried: Option<QueuedPacket>,
    abort_buckets: Box<[TokenBucket]>,
    /// Time when the application was last told of a client whose security class is not offered.
    proof_refused_at: Option<Instant>,
    answer_bucket: TokenBucket,
    /// Limits of the answers to one source, by its hash.
    asker_buckets: Box<[TokenBucket]>,
    /// DEBUG questions that were not taken yet.
    questions: VecDeque<Question>,
    /// Lanes that share the address, with the number of this one.
    lane_map: Arc<LaneMap>,
    lane: usize,
    segments_max: usize,
    next_sweep: Instant,
    next_reclaim: Instant,
}

/// Options of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Service that a client is moved to when its first packet asks for an upgrade.
    pub upgrade_to: Option<u16>,
    /// Abort code of calls beyond those that services may handle: one that clients take as "try again later"
    /// (AFS file services: VBUSY, 110).
    pub busy_code: i32,
    /// Set if a handler goes on after its call has died, which it learns by its next read or write.
    ///
    /// Otherwise it is dropped where it waits, as no client will get its reply; work that must be done in any
    /// case belongs in a task of its own.
    pub outlives_calls: bool,
    /// Abort code of a call whose handler has panicked: one that clients take as an error of this call alone.
    /// (EIO, 5: AFS clients hand it on to their caller, and take a negative code for a server that is gone.)
    pub panic_code: i32,
}

impl Default for Service {
    fn default() -> Self {
        Self { upgrade_to: None, busy_code: crate::abort::RESTARTING, outlives_calls: false, panic_code: EIO }
    }
}

/// Options of opening a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// True to ask for the service's newer version by the first packet.
    ///
    /// [`ConnectionView::service`] tells after the first reply whether it was granted. kafs finds AuriStorFS
    /// servers this way; a server that knows nothing of it answers as asked.
    pub upgrade: bool,
    /// Address of ours to send from, on hosts with several: the one at which the peer has reached us, as
    /// firewalls and NATs on the way know no other. `None` leaves the choice to the system.
    pub local_ip: Option<IpAddr>,
    /// True to end calls, as [`DeadReason::PortClosed`](crate::DeadReason::PortClosed), as soon as the peer's
    /// own address reports the port closed.
    ///
    /// For peers that are sent news which is nothing to them once their socket is closed. Not for servers,
    /// which may be on their way back.
    pub ends_at_closed_port: bool,
}

/// Reason why no call was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The connection does not exist any more.
    #[error("the connection is gone")]
    Gone,
    /// All four channels are in use; [`Event::ChannelFree`] follows.
    #[error("all four channels of the connection are in use")]
    Busy,
    /// The connection has failed with this abort code.
    #[error("the connection was aborted with code {0}")]
    Aborted(i32),
    /// All channels have had as many calls as can be numbered: open another connection.
    #[error("the connection's call numbers are used up")]
    UsedUp,
}

/// Error of an endpoint that has as many connections as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the endpoint has its limit of {limit} connections")]
pub struct ConnectError {
    /// Limit, `connections_max` of the configuration.
    pub limit: usize,
}

#[derive(Debug)]
struct UnboundPacket {
    destination: SocketAddr,
    src_ip: Option<IpAddr>,
    packet: PacketRef,
}

#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    /// Index of the packet's connection.
    origin: Option<u32>,
    /// Key of the packet's burst; `None` for that of the packet before, which is of the same connection.
    burst_key: Option<BurstKey>,
    packet: PacketRef,
    /// Length of the packet, in bytes.
    len: usize,
    probe: bool,
    parts_max: u8,
}

/// Destination, source address and traffic class, which all packets of one burst share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BurstKey {
    destination: SocketAddr,
    src_ip: Option<IpAddr>,
    class: u8,
}

impl BurstKey {
    fn of(burst: &Transmit) -> Self {
        Self { destination: burst.destination, src_ip: burst.src_ip, class: burst.class }
    }
}

impl Endpoint {
    /// Makes an endpoint. Everything random in it (epoch, ids, hash keys) comes from `seed`, so equal seeds
    /// and equal inputs give equal outputs; outside of tests the seed must be secret.
    pub fn new(now: Instant, config: EndpointConfig, seed: [u8; 32]) -> Self {
        let mut rng = StdRng::from_seed(seed);
        let epoch = rng.random::<u32>() & 0x3fff_ffff | EPOCH_ANY_ADDRESS;
        // Leave room to count up.
        let next_cid = rng.random::<u32>() >> 8;
        let bucket = TokenBucket::new(now, config.aborts_per_second);
        Self {
            by_key: HashMap::with_hasher(KeyedState::new(&mut rng)),
            last_found: None,
            generation: 0,
            unproved: VecDeque::new(),
            cookies: Cookies::new(now, &mut rng),
            proved: ValidatedAddresses::default(),
            services: HashMap::new(),
            factories: vec![Box::new(crate::security::NullSecurity)],
            epoch,
            next_cid,
            strangers: Strangers::new(),
            loose: VecDeque::new(),
            carried: None,
            abort_buckets: vec![bucket; ABORT_BUCKETS].into_boxed_slice(),
            proof_refused_at: None,
            answer_bucket: TokenBucket::new(now, ANSWERS_PER_SECOND),
            asker_buckets: vec![TokenBucket::new(now, ANSWERS_PER_ASKER); ABORT_BUCKETS].into_boxed_slice(),
            questions: VecDeque::new(),
            lane_map: Arc::new(LaneMap::one_silo(1)),
            lane: 0,
            segments_max: SEGMENTS_MAX,
            next_sweep: now + SWEEP_INTERVAL,
            next_reclaim: now,
            connections: slab::Slab::new(),
            shared: Shared::new(config, rng),
        }
    }

    /// Offers a service; packets for any other are answered with abort −2.
    pub fn add_service(&mut self, id: u16, service: Service) {
        self.services.insert(id, service);
    }

    /// Adds a security class whose connections are accepted, or replaces it.
    pub fn add_security(&mut self, factory: Box<dyn SecurityFactory>) {
        self.factories.retain(|known| known.index() != factory.index());
        self.factories.push(factory);
    }

    /// Sets the time of day since 1970, by which tickets expire. A driver repeats this now and then, as the
    /// time may be changed.
    pub fn set_time_of_day(&mut self, now: Instant, unix: Duration) {
        self.shared.time_of_day = Some((now, unix));
    }

    /// Sets the most packets of one burst: 1 for sockets without UDP_SEGMENT.
    pub fn set_segments_max(&mut self, segments: usize) {
        self.segments_max = segments.clamp(1, SEGMENTS_MAX);
    }

    /// Opens a connection; nothing is sent before its first call.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        service: u16,
        security_index: u8,
        security: Box<dyn Security>,
        options: ConnectOptions,
    ) -> Result<ConnectionHandle, ConnectError> {
        if self.connections.len() >= self.shared.config.connections_max {
            self.shared.stats.connections_refused += 1;
            return Err(ConnectError { limit: self.shared.config.connections_max });
        }
        let cid = self.free_cid();
        let identity = Identity {
            index: 0,
            generation: 0,
            side: Side::Client,
            epoch: self.epoch,
            cid,
            remote,
            local_ip: options.local_ip,
            by_address: false,
            service,
            security_index,
            wants_upgrade: options.upgrade,
            ends_at_closed_port: options.ends_at_closed_port,
        };
        let key = ConnectionKey::client(self.epoch, cid);
        Ok(self.add_connection(now, key, identity, security))
    }

    fn free_cid(&mut self) -> u32 {
        let config = &self.shared.config;
        loop {
            let cid = self.next_cid << 2;
            self.next_cid = self.next_cid.wrapping_add(1) & (u32::MAX >> 2);
            let route = Route { epoch: self.epoch, cid, from_client: true };
            // Answers must find their way back to this lane.
            let ours = route.lane(config.lanes) == config.lane % config.lanes.max(1);
            if ours && cid != 0 && !self.by_key.contains_key(&ConnectionKey::client(self.epoch, cid)) {
                return cid;
            }
        }
    }

    fn add_connection(
        &mut self,
        now: Instant,
        key: ConnectionKey,
        identity: Identity,
        security: Box<dyn Security>,
    ) -> ConnectionHandle {
        let peer = self.shared.peers.find_or_add(identity.remote, now, &self.shared.config);
        // An unguessable start makes the serial that an ACK names a proof that its sender saw our packets.
        let serial = match identity.side {
            Side::Client => self.shared.rng.random_range(1..SERIAL_START_MAX),
            Side::Server => {
                let (address, epoch, cid) = (identity.remote, identity.epoch, identity.cid);
                self.cookies.serial(now, &Holder { address, epoch, cid })
            }
        };
        let entry = self.connections.vacant_entry();
        self.generation = self.generation.wrapping_add(1);
        let identity = Identity { index: entry.key() as u32, generation: self.generation, ..identity };
        let connection = Connection::new(identity, security, peer, serial, now, &mut self.shared);
        let handle = connection.core.handle();
        let connection = entry.insert(connection);
        let deadline = connection.deadline(now, &self.shared);
        self.shared.arm(&mut connection.core, deadline);
        self.by_key.insert(key, handle.index);
        self.shared.stats.connections_made += 1;
        handle
    }

    /// Opens a call on a free channel of a client connection.
    pub fn open_call(&mut self, now: Instant, handle: ConnectionHandle) -> Result<CallHandle, OpenError> {
        let Some(connection) = self.connections.get_mut(handle.index as usize) else {
            return Err(OpenError::Gone);
        };
        if connection.core.handle() != handle || connection.core.side != Side::Client {
            return Err(OpenError::Gone);
        }
        if let Some(code) = connection.core.error {
            return Err(OpenError::Aborted(code));
        }
        if connection.is_used_up() {
            return Err(OpenError::UsedUp);
        }
        let call = connection.open_call(now, &mut self.shared);
        connection.channel_wanted |= call.is_none();
        call.ok_or(OpenError::Busy)
    }

    /// Continues connections whose security class has been woken. A driver calls this in each pass, after
    /// [`register_checks`](Self::register_checks) with its task's waker.
    pub fn handle_checks(&mut self, now: Instant) {
        for handle in self.shared.checks.take_answered() {
            let Some(connection) = self.connections.get_mut(handle.index as usize) else { continue };
            if connection.core.handle() == handle {
                connection.poll_check(now, &mut self.shared);
            }
        }
    }

    /// Registers `waker` to be woken when a security class that took its time has a verdict.
    pub fn register_checks(&self, waker: &Waker) {
        self.shared.checks.register(waker);
    }

    /// Returns the number of RESPONSEs that security classes are checking.
    pub fn checks_running(&self) -> usize {
        self.shared.checks.count()
    }

    /// Returns the call behind a handle, to read from and write to; `None` once it has ended.
    pub fn call(&mut self, now: Instant, handle: CallHandle) -> Option<CallMut<'_>> {
        let connection = self.connections.get_mut(handle.connection.index as usize)?;
        let channel = handle.channel();
        let known = connection.core.handle() == handle.connection
            && connection.channels[channel].call.as_ref().is_some_and(|call| call.handle == handle);
        known.then(|| CallMut::new(now, connection, &mut self.shared, channel))
    }

    /// Returns the next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.shared.events.is_empty() {
            self.wake_writers();
        }
        self.shared.events.pop_front()
    }

    /// Wakes writers that found the pool empty once a fair part of it is free.
    fn wake_writers(&mut self) {
        let enough = self.shared.reserved_from_writers + self.shared.pool.allocated() / 16;
        while self.shared.pool.free_count() > enough
            && let Some(handle) = self.shared.waiting_for_packets.pop_front()
        {
            let Some(connection) = self.connections.get_mut(handle.connection.index as usize) else {
                continue;
            };
            if connection.core.handle() == handle.connection {
                connection.settle(handle.channel(), &mut self.shared);
            }
            if !self.shared.events.is_empty() {
                break;
            }
        }
    }

    /// Returns the next burst to send. Call until `None`; give each back by
    /// [`transmit_done`](Self::transmit_done) once the kernel has taken its bytes.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let mut burst: Option<Transmit> = None;
        // The connection of its last packet.
        let mut of = None;
        while burst.as_ref().is_none_or(|burst| !burst.is_full(self.segments_max)) {
            let Some(next) = self.next_packet(now, of) else { break };
            of = next.origin;
            let run = match (&mut burst, &next.burst_key) {
                (Some(run), _) => run,
                (None, Some(burst_key)) => burst.insert(Transmit::new(
                    burst_key.destination,
                    burst_key.src_ip,
                    burst_key.class,
                    next.probe,
                )),
                (None, None) => unreachable!("no packet is before the first"),
            };
            let same = run.dont_fragment == next.probe
                && next.burst_key.is_none_or(|burst_key| burst_key == BurstKey::of(run));
            let may_grow = next.parts_max > 1;
            if may_grow && same {
                let joined = run.join(next.packet, next.parts_max, &mut self.shared.pool);
                if joined == Some(2) {
                    self.count_jumbogram(of);
                }
                if joined.is_some() {
                    continue;
                }
            }
            if !same || !run.push(next.packet, next.len, may_grow) {
                // By the next burst the connection may have moved, or its place may be another's.
                let burst_key = Some(next.burst_key.unwrap_or_else(|| BurstKey::of(run)));
                self.carried = Some(QueuedPacket { burst_key, origin: None, ..next });
                break;
            }
            // One that IP cuts up goes by itself.
            if next.len > HEADER_LEN + self.shared.pool.payload_max() {
                run.close();
            }
        }
        let Some(burst) = burst else {
            self.strangers.end_turn();
            return None;
        };
        self.shared.stats.transmits += 1;
        self.shared.stats.datagrams_sent += burst.segments() as u64;
        self.shared.stats.bytes_sent += burst.len as u64;
        Some(burst)
    }

    /// Returns the next packet of any connection, after one of the connection `before`.
    #[inline]
    fn next_packet(&mut self, now: Instant, before: Option<u32>) -> Option<QueuedPacket> {
        if let Some(carried) = self.carried.take() {
            return Some(carried);
        }
        if let Some(UnboundPacket { destination, src_ip, packet }) = self.loose.pop_front() {
            let burst_key = Some(BurstKey { destination, src_ip, class: 0 });
            let len = self.shared.pool.bytes_of(packet).len();
            return Some(QueuedPacket { origin: None, burst_key, packet, len, probe: false, parts_max: 1 });
        }
        while let Some(index) = self.shared.ready.front() {
            let Some(connection) = self.connections.get_mut(index as usize) else {
                self.shared.ready.pop();
                continue;
            };
            if let Some(prepared) = connection.next_packet(now, &mut self.shared) {
                self.shared.ready.sent();
                let core = &connection.core;
                let counters = &mut self.shared.peers[core.peer].counters;
                counters.packets_sent += 1;
                let len = self.shared.pool.bytes_of(prepared.packet).len();
                counters.bytes_sent += len as u64;
                return Some(QueuedPacket {
                    origin: Some(index),
                    burst_key: (before != Some(index)).then(|| BurstKey {
                        destination: core.remote,
                        src_ip: core.local_ip,
                        class: core.dscp.traffic_class(),
                    }),
                    packet: prepared.packet,
                    len,
                    probe: prepared.probe,
                    parts_max: prepared.parts_max,
                });
            }
            connection.core.queued = false;
            self.shared.ready.pop();
            let deadline = connection.deadline(now, &self.shared);
            let deadline = self.shared.put_off(&mut connection.core, now, deadline);
            self.shared.arm(&mut connection.core, deadline);
        }
        None
    }

    /// Counts a datagram of a connection that has become a jumbogram.
    fn count_jumbogram(&mut self, of: Option<u32>) {
        let connection = of.and_then(|index| self.connections.get(index as usize));
        let is_whole = connection.is_some_and(|found| self.shared.peers[found.core.peer].jumbo.is_whole());
        self.shared.stats.jumbograms_sent += 1;
        self.shared.stats.jumbograms_cut += u64::from(!is_whole);
    }

    /// Takes back a transmit: its packets may be changed and reused from now on.
    pub fn transmit_done(&mut self, transmit: Transmit) {
        for packet in transmit.into_packets() {
            self.shared.pool.unpin(packet);
        }
    }

    /// Notes that the system refused a path-MTU probe as too large (EMSGSIZE): the interface cannot carry
    /// that size, which is not tried again. The transmit is still to be given back.
    pub fn probe_refused(&mut self, now: Instant, transmit: &Transmit) {
        let Some(peer) = self.shared.peers.find(transmit.destination) else { return };
        let peer = &mut self.shared.peers[peer];
        if transmit.dont_fragment && peer.probe_refused(now) {
            self.shared.stats.mtu_probes_lost += 1;
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), if nothing else happens. Right only
    /// after [`poll_transmit`](Self::poll_transmit) has returned `None`.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.shared.next_timer(), self.shared.share.opens_at()].into_iter().flatten().min()
    }

    /// Runs the timers that are due. What they cause is in the next `poll_event` and `poll_transmit`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.shared.timers_run(now);
        for index in self.shared.share.take_waiting(now) {
            if let Some(connection) = self.connections.get_mut(index as usize) {
                self.shared.mark_ready(&mut connection.core);
            }
        }
        while let Some((at, index, generation)) = self.shared.pop_timer(now) {
            let Some(connection) = self.connections.get_mut(index as usize) else { continue };
            let core = &mut connection.core;
            if core.generation != generation || core.armed != Some(at) {
                continue;
            }
            core.armed = None;
            if !connection.has_calls() && connection.reap_at(&self.shared).is_some_and(|at| at <= now) {
                self.remove(now, index, ConnectionEnd::Idle);
                continue;
            }
            connection.on_timer(now, &mut self.shared);
            // Its last call has just died, and no caller is to hear of it: a turn of its own would only end
            // it.
            if connection.is_silent() && connection.reap_at(&self.shared).is_some_and(|at| at <= now) {
                self.remove(now, index, ConnectionEnd::Idle);
                continue;
            }
            self.shared.mark_ready(&mut connection.core);
        }
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_INTERVAL;
            let connections = &self.connections;
            self.shared.waiting_for_packets.retain(|call| {
                let found = connections.get(call.connection.index as usize);
                found.is_some_and(|connection| connection.core.handle() == call.connection)
            });
            if let Some(oldest) = now.checked_sub(PEER_IDLE_MAX) {
                let pool = &self.shared.pool;
                self.shared.peers.retain_since(oldest, |account| pool.held_by(account) > 0);
            }
        }
    }
}

/// Error number of an input or output error (EIO).
const EIO: i32 = 5;
/// Number of sources with limits of their own for answers, and for aborts without a connection.
const ABORT_BUCKETS: usize = 256;
//@ limit: VERSION and DEBUG answers
//@ section: Rx
//@ unit: answer
//@ address: {ANSWERS_PER_ASKER} a second
//@ all: lane: {} a second
//@ empty: not answered, and the tool asks again; others have their own 250
//@ counter: rx_answers_limited
//@ attack: rx-questions
/// Most VERSION and DEBUG answers in a second, together.
const ANSWERS_PER_SECOND: u32 = 1000;
/// Most VERSION and DEBUG answers to one source, which leaves some to others.
const ANSWERS_PER_ASKER: u32 = 250;
/// Bound of first serials, so that 32-bit peers never see them as negative.
const SERIAL_START_MAX: u32 = 1 << 30;
const SWEEP_INTERVAL: std::time::Duration = std::time::Duration::from_secs(10);
/// Time after which a peer without connections is forgotten (OpenAFS).
const PEER_IDLE_MAX: std::time::Duration = std::time::Duration::from_secs(60);
