//! Our server to a stock client: no extension, a window of 32 packets, an ACK for every second one, and one socket buffer
//! of 64 KB for all of its calls.

use std::time::{Duration, Instant};

use rx::{EndpointConfig, EndpointStats};

use crate::host::Host;
use crate::network::{IP_AND_UDP, Link, Network};
use crate::scenario::{CLIENT, CallPlan, SERVER, client_address, server_address};
use crate::world::World;

/// What a run came to.
#[derive(Debug)]
struct Run {
    server: EndpointStats,
    client: EndpointStats,
    /// Packets that found the socket buffer full.
    dropped: u64,
    elapsed: Duration,
}

/// `calls` calls, four to a connection, fetch 300 kB each.
fn fetch(seed: u64, calls: usize, latency: Duration, server: EndpointConfig) -> Run {
    let start = Instant::now();
    let connections = calls.div_ceil(4);
    let plan = |n| CallPlan {
        at: Duration::ZERO,
        connection: n / 4,
        request_len: 60,
        reply_len: 300_000,
        abort_after: None,
        pattern: n as u64,
    };
    let plans: Vec<_> = (0..calls).map(plan).collect();
    let stock = EndpointConfig { extensions: false, receive_window: 32, ..EndpointConfig::default() };
    let client = Host::client(start, stock, seed, server_address(), connections, &plans);
    let mut nodes = [(CLIENT, client), (SERVER, Host::server(start, server, seed))];
    nodes.sort_by_key(|(node, _)| *node);
    let mut addresses = [(CLIENT, client_address(7_001)), (SERVER, server_address())];
    addresses.sort_by_key(|(node, _)| *node);
    let addresses = addresses.into_iter().map(|(_, address)| address).collect();
    let mut network = Network::new(seed, addresses, &Link::clean(latency));
    // The buffer before a receiver that takes so many bytes a second is a queue before a link of that rate.
    let to_client = network.link_mut(SERVER, CLIENT);
    to_client.bits_per_second = Some(CLIENT_BITS_PER_SECOND);
    to_client.queue_bytes = SOCKET_PACKETS * (1444 + IP_AND_UDP as u64);
    let mut world = World::new(nodes.into_iter().map(|(_, host)| host).collect(), network, start);
    let idle = world.run_until(Duration::from_secs(120), |hosts| hosts.iter().all(Host::is_idle));
    assert!(idle, "seed {seed}: {calls} calls end");
    for host in &world.nodes {
        assert_eq!(host.endpoint.pool().in_use(), 0, "seed {seed}");
    }
    Run {
        server: *world.nodes[SERVER].endpoint.stats(),
        client: *world.nodes[CLIENT].endpoint.stats(),
        dropped: world.network.fates.queue_full,
        elapsed: world.elapsed(),
    }
}

/// 64 KB are granted twice (SO_RCVBUF); a packet of 1,444 bytes is charged 2,304, and what was read is given back once it is a
/// quarter of all.
const SOCKET_PACKETS: u64 = 65_536 * 2 * 3 / 4 / 2_304;
/// What a stock client takes in.
const CLIENT_BITS_PER_SECOND: u64 = 1_500_000_000;
const LAN: Duration = Duration::from_micros(40);

#[test]
fn stock_clients_socket_buffer_is_never_overrun() {
    for (seed, calls) in [(1, 1), (2, 4), (3, 16), (4, 64), (5, 100)] {
        let run = fetch(seed, calls, LAN, EndpointConfig::default());
        let (resends, sent) = (run.server.resends, run.server.data_sent);
        assert!(run.dropped == 0 && resends == 0, "{calls} calls: {run:?}");
        let least = calls as f64 * 300_000.0 * 8.0 / CLIENT_BITS_PER_SECOND as f64;
        let took = run.elapsed.as_secs_f64();
        assert!(took < 2.0 * least + 0.2, "{calls} calls took {took} s of {least} s for {sent} packets");
    }
    // The buffer is what bounds: without the rule it overflows.
    let unbounded = EndpointConfig { stock_in_flight: 100_000, ..EndpointConfig::default() };
    assert!(fetch(3, 16, LAN, unbounded).dropped > 50);
}

#[test]
fn long_path_to_a_stock_client_holds_every_calls_window() {
    let run = fetch(6, 16, Duration::from_millis(10), EndpointConfig::default());
    // 213 packets at 32 a round trip of 20 ms take 140 ms. All begin at once, and overrun the buffer with that.
    assert!(run.elapsed < Duration::from_millis(800), "{run:?}");
    assert!(run.server.resends * 20 < run.server.data_sent && run.server.bursts_crowded < 100, "{run:?}");
}

#[test]
fn stock_client_is_sent_bursts_and_not_asked_for_acks() {
    let gathered = fetch(7, 4, LAN, EndpointConfig::default());
    let eager = fetch(7, 4, LAN, EndpointConfig { stock_burst: 1, ..EndpointConfig::default() });
    let packets_a_burst = |run: &Run| run.server.data_sent as f64 / run.server.transmits as f64;
    assert!(packets_a_burst(&gathered) >= 4.0, "{} {gathered:?}", packets_a_burst(&gathered));
    assert!(packets_a_burst(&gathered) >= 1.5 * packets_a_burst(&eager), "{}", packets_a_burst(&eager));
    let acks_a_packet = run_acks(&gathered);
    assert!(acks_a_packet <= 0.85, "{acks_a_packet}");
}

fn run_acks(run: &Run) -> f64 {
    run.client.acks_sent as f64 / run.server.data_sent as f64
}
