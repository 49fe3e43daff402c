//! Long calls over known paths and what they reach: measured here for the tests and for `benches/links.rs`.

use std::time::{Duration, Instant};

use rx::EndpointConfig;
use rx::congestion::Algorithm;

use crate::sim::host::Host;
use crate::sim::ideal;
use crate::sim::network::{IP_AND_UDP, Link, Network};
use crate::sim::scenario::{CLIENT, CallPlan, client_address, server_address};
use crate::sim::wiretap::Counts;
use crate::sim::world::World;

/// Call that has a wide and long path to itself.
#[derive(Debug)]
pub(crate) struct WidePath {
    /// Rate of the link, in bits per second of IP packets.
    pub(crate) link_bits_per_second: f64,
    /// Bits of reply that reach the application per second, after start-up.
    pub(crate) bits_per_second: f64,
}

/// Call over a path that loses packets at random.
#[derive(Debug)]
pub(crate) struct LossyPath {
    /// DATA packets whose bytes reach the application per second.
    pub(crate) packets_per_second: f64,
    /// Rate that the controller would reach on an ideal transport.
    pub(crate) ideal_packets_per_second: f64,
    /// Packets that were sent during the measurement.
    pub(crate) wire: Counts,
}

/// Path of 100 Mb/s whose queue is smaller than what the path itself holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShallowQueue {
    pub(crate) rtt_ms: u64,
    pub(crate) queue_bytes: u64,
    /// Least share of the link with NewReno. Halving drains a queue shorter than the path and then the path
    /// too: on an ideal transport it fills 99.4 %, 94.0 %, 88.9 % and 89.0 % of these.
    wanted_new_reno: f64,
    wanted_cubic: f64,
}

/// Call that has a path with a shallow queue to itself.
#[derive(Debug)]
pub(crate) struct ShallowPath {
    /// Packets that leave the link, as a share of what it can carry, after start-up.
    pub(crate) share: f64,
    /// Share that the controller would reach on an ideal transport.
    pub(crate) ideal_share: f64,
    /// Packets that were sent during the measurement.
    pub(crate) wire: Counts,
    /// Packets that found the queue full, from the start.
    pub(crate) dropped: u64,
}

/// Queues of 100 KB, and of a quarter of the path.
pub(crate) const SHALLOW_QUEUES: [ShallowQueue; 4] = [
    ShallowQueue { rtt_ms: 10, queue_bytes: 100_000, wanted_new_reno: 0.95, wanted_cubic: 0.95 },
    ShallowQueue { rtt_ms: 20, queue_bytes: 100_000, wanted_new_reno: 0.9, wanted_cubic: 0.95 },
    ShallowQueue { rtt_ms: 10, queue_bytes: 31_250, wanted_new_reno: 0.85, wanted_cubic: 0.9 },
    ShallowQueue { rtt_ms: 20, queue_bytes: 62_500, wanted_new_reno: 0.85, wanted_cubic: 0.9 },
];

impl ShallowQueue {
    /// Returns the least share of the link to reach.
    pub(crate) fn wanted_share(&self, congestion: Algorithm) -> f64 {
        match congestion {
            Algorithm::NewReno | Algorithm::Auto => self.wanted_new_reno,
            Algorithm::Cubic | Algorithm::Bbr => self.wanted_cubic,
        }
    }
}

/// Runs a call over 10 Gb/s, a round trip of 10 ms, and a queue as long as the path.
pub(crate) fn wide_path(congestion: Algorithm) -> WidePath {
    const RATE: u64 = 10_000_000_000;
    let bandwidth_delay_bytes = RATE / 8 / 100;
    let link = Link { bits_per_second: Some(RATE), queue_bytes: bandwidth_delay_bytes, ..Link::clean(ms(5)) };
    let config = EndpointConfig { congestion, ..EndpointConfig::default() };
    let mut world = fetch(&link, config, u32::MAX, 1);
    let (bits_per_second, _) = goodput(&mut world, ms(300), ms(1_000));
    WidePath { link_bits_per_second: RATE as f64, bits_per_second }
}

/// Runs a call over 1 % of random loss, a round trip of 10 ms, and no other limit.
pub(crate) fn lossy_path(congestion: Algorithm) -> LossyPath {
    const LOSS: f64 = 0.01;
    let rtt = ms(10);
    let link = Link { loss: LOSS, ..Link::clean(rtt / 2) };
    let config = EndpointConfig { congestion, ..EndpointConfig::default() };
    let mut world = fetch(&link, config, u32::MAX, 3);
    let (bits_per_second, wire) = goodput(&mut world, ms(2_000), ms(122_000));
    LossyPath {
        packets_per_second: bits_per_second / 8.0 / DATA_PER_PACKET,
        ideal_packets_per_second: ideal::packets_per_second(congestion.build(), rtt, LOSS, 100_000),
        wire,
    }
}

/// Runs a call over 100 Mb/s with a queue that a window in flight overflows.
pub(crate) fn shallow_path(congestion: Algorithm, queue: ShallowQueue) -> ShallowPath {
    const RATE: u64 = 100_000_000;
    let ShallowQueue { rtt_ms, queue_bytes, .. } = queue;
    let rtt = ms(rtt_ms);
    let link = Link { bits_per_second: Some(RATE), queue_bytes, ..Link::clean(rtt / 2) };
    let config = EndpointConfig { congestion, ..EndpointConfig::default() };
    let mut world = fetch(&link, config, u32::MAX, 4);
    let (bits_per_second, wire) = goodput(&mut world, ms(2_000), ms(32_000));
    let link_packets_per_second = RATE as f64 / 8.0 / WIRE_PER_PACKET;
    let path = link_packets_per_second * rtt.as_secs_f64();
    ShallowPath {
        share: bits_per_second / 8.0 / DATA_PER_PACKET / link_packets_per_second,
        ideal_share: ideal::share_of_link(
            congestion.build(),
            rtt,
            path,
            queue_bytes as f64 / WIRE_PER_PACKET,
        ),
        wire,
        dropped: world.network.fates.queue_full,
    }
}

/// Runs a client that fetches `reply_len` bytes in one call.
pub(crate) fn fetch(link: &Link, config: EndpointConfig, reply_len: u32, seed: u64) -> World<Host> {
    fetch_all(link, config, &[plan(Duration::ZERO, reply_len, seed)], seed)
}

/// Plans a call at `at` that asks for `reply_len` bytes on the client's first connection.
pub(crate) fn plan(at: Duration, reply_len: u32, pattern: u64) -> CallPlan {
    CallPlan { at, connection: 0, request_len: 0, reply_len, abort_after: None, pattern }
}

/// Runs a client that makes `calls` on one connection.
pub(crate) fn fetch_all(link: &Link, config: EndpointConfig, calls: &[CallPlan], seed: u64) -> World<Host> {
    fetch_on(1, link, config, calls, seed)
}

/// Runs a client that makes `calls` on several connections to one server.
pub(crate) fn fetch_on(
    connections: usize,
    link: &Link,
    config: EndpointConfig,
    calls: &[CallPlan],
    seed: u64,
) -> World<Host> {
    let start = Instant::now();
    let hosts = vec![
        Host::client(start, config.clone(), seed, server_address(), connections, calls),
        Host::server(start, config, seed),
    ];
    let network = Network::new(seed, vec![client_address(10_000), server_address()], link);
    World::new(hosts, network, start)
}

/// Returns the bits of reply that the client's application gets per second between `from` and `to` since the
/// start, and what was sent in that time.
pub(crate) fn goodput(world: &mut World<Host>, from: Duration, to: Duration) -> (f64, Counts) {
    let done = world.run_until(from, |hosts| hosts.iter().all(Host::is_idle));
    assert!(!done, "the call ended before the measurement began");
    let (read_before, wire_before) = (world.nodes[CLIENT].as_client().bytes_read, world.wiretap.counts);
    world.run_until(to, |hosts| hosts.iter().all(Host::is_idle));
    let read = world.nodes[CLIENT].as_client().bytes_read - read_before;
    let seconds = (world.elapsed() - from).as_secs_f64();
    (read as f64 * 8.0 / seconds, world.wiretap.counts - wire_before)
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Reply bytes in a full packet of 1444.
const DATA_PER_PACKET: f64 = 1416.0;
/// Length of a full packet on the link.
const WIRE_PER_PACKET: f64 = 1444.0 + IP_AND_UDP as f64;
