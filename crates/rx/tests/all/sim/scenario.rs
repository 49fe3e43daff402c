//! Scenario of one seed: the endpoints, the path with its faults, and the calls to make.

use std::net::SocketAddr;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rx::congestion::Algorithm;
use rx::{AddressRange, EndpointConfig};

use crate::sim::network::Link;
use crate::sim::world::Fault;

/// Call that a client makes, with its faults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPlan {
    /// Earliest time of the call since the start.
    pub(crate) at: Duration,
    /// Number of the client's connection for the call.
    pub(crate) connection: usize,
    /// Bytes of the request after its header.
    pub(crate) request_len: u32,
    pub(crate) reply_len: u32,
    /// Bytes of the reply after which the client gives the call up.
    pub(crate) abort_after: Option<u32>,
    /// Seed of the bytes in both directions.
    pub(crate) pattern: u64,
}

/// Everything that a run depends on.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) client: EndpointConfig,
    pub(crate) server: EndpointConfig,
    pub(crate) to_server: Link,
    pub(crate) to_client: Link,
    pub(crate) faults: Vec<(Duration, Fault)>,
    pub(crate) connections: usize,
    pub(crate) calls: Vec<CallPlan>,
}

impl Scenario {
    /// Draws a scenario: loss 0 to 20 %, reordering, duplication, MTU changes, partitions, NAT rebinding, small
    /// and large windows, stock and extended peers.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let rng = &mut rng;
        let loss = if rng.random_bool(0.25) { 0.0 } else { rng.random_range(0.0..0.2) };
        let to_server = link(rng, loss);
        let to_client = Link { latency: to_server.latency, ..link(rng, loss) };
        let connections = rng.random_range(1..=3);
        Self {
            seed,
            client: endpoint(rng),
            server: endpoint(rng),
            faults: faults(rng),
            connections,
            calls: (0..rng.random_range(1..=12)).map(|_| call(rng, connections)).collect(),
            to_server,
            to_client,
        }
    }
}

fn link(rng: &mut SmallRng, loss: f64) -> Link {
    let latency = Duration::from_micros(10u64.pow(rng.random_range(1..=4)) * rng.random_range(1..=9));
    let limited = rng.random_bool(0.7);
    Link {
        latency,
        gather: Duration::ZERO,
        bits_per_second: limited.then(|| 10u64.pow(rng.random_range(6..=9)) * rng.random_range(1..=9)),
        queue_bytes: rng.random_range(20_000..400_000),
        loss,
        duplicate: if rng.random_bool(0.5) { 0.0 } else { rng.random_range(0.0..0.1) },
        // From a switch that stutters to a datagram that was stuck in a queue for seconds.
        duplicate_delay: Duration::from_millis(10u64.pow(rng.random_range(0..=3)) * rng.random_range(1..=5)),
        reorder: if rng.random_bool(0.5) { 0.0 } else { rng.random_range(0.0..0.2) },
        reorder_delay: latency.mul_f64(rng.random_range(0.1..2.0)),
        mtu: 1472,
    }
}

fn endpoint(rng: &mut SmallRng) -> EndpointConfig {
    let windows = [4, 16, 32, 128, 255, 256, 1024];
    let mut pick = || windows[rng.random_range(0..windows.len())];
    let (receive_window, send_window) = (pick(), pick());
    EndpointConfig {
        // From a pool that every call must wait for to one that holds all windows at once.
        packets: [300, 2_000, 40_000][rng.random_range(0..3)],
        receive_window,
        send_window,
        packet_size_max: [1444, 1472, 1444, 4096][rng.random_range(0..4)],
        congestion: if rng.random_bool(0.5) { Algorithm::NewReno } else { Algorithm::Cubic },
        check_reach: rng.random_bool(0.5),
        extensions: rng.random_bool(0.5),
        // Backed-off timers on a path that loses every fifth packet outlast the usual limits.
        dead_time: Duration::from_secs(120),
        idle_time: None,
        // Clients behind NATs that forget them, without a security class.
        roaming: vec![AddressRange::new([0, 0, 0, 0].into(), 0)],
        ..EndpointConfig::default()
    }
}

fn faults(rng: &mut SmallRng) -> Vec<(Duration, Fault)> {
    let mut faults = Vec::new();
    let at = |rng: &mut SmallRng| Duration::from_millis(rng.random_range(0..3_000));
    if rng.random_bool(0.3) {
        for _ in 0..rng.random_range(1..=3) {
            let mtu = [1444, 1472, 1300, 1200, 4096][rng.random_range(0..5)];
            faults.push((at(rng), Fault::Mtu(CLIENT, SERVER, mtu)));
        }
    }
    if rng.random_bool(0.2) {
        let duration = Duration::from_millis(rng.random_range(10..4_000));
        faults.push((at(rng), Fault::Partition(CLIENT, SERVER, duration)));
    }
    if rng.random_bool(0.3) {
        for _ in 0..rng.random_range(1..=3) {
            let address = client_address(rng.random_range(20_000..60_000));
            faults.push((at(rng), Fault::Rebind(CLIENT, address)));
        }
    }
    faults
}

fn call(rng: &mut SmallRng, connections: usize) -> CallPlan {
    let sizes = [0, 1, 100, 1_396, 1_412, 1_413, 1_416, 3_000, 20_000, 100_000, 300_000];
    let mut size = || sizes[rng.random_range(0..sizes.len())];
    let (request_len, reply_len) = (size(), size());
    CallPlan {
        at: Duration::from_millis(if rng.random_bool(0.5) { 0 } else { rng.random_range(0..2_000) }),
        connection: rng.random_range(0..connections),
        request_len,
        reply_len,
        abort_after: rng.random_bool(0.1).then(|| rng.random_range(0..=reply_len)),
        pattern: rng.random(),
    }
}

pub(crate) fn client_address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

pub(crate) fn server_address() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 7000))
}

/// Node numbers of the pair: client and server.
pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;
