//! Tests of our server with a stock client: no extension, a window of 32 packets, an ACK for every second
//! packet. One socket buffer of 64 KB takes all of the client's calls.

use std::time::{Duration, Instant};

use rx::{AddressRange, EndpointConfig, EndpointStats, Jumbograms};

use crate::sim::host::Host;
use crate::sim::network::{Link, Network};
use crate::sim::scenario::{CLIENT, CallPlan, SERVER, client_address, server_address};
use crate::sim::socket_buffer::SocketBuffer;
use crate::sim::world::World;

/// Result of a run of fetches.
#[derive(Debug)]
struct Run {
    server: EndpointStats,
    client: EndpointStats,
    /// Packets that found the socket buffer full.
    dropped: u64,
    elapsed: Duration,
}

/// Runs `calls` calls, four to a connection, which fetch 300 kB each.
fn fetch(seed: u64, calls: usize, latency: Duration, server: EndpointConfig) -> Run {
    let jumbograms = Jumbograms::Off;
    let stock =
        EndpointConfig { extensions: false, receive_window: 32, jumbograms, ..EndpointConfig::default() };
    fetch_over(seed, calls, &Link::clean(latency), stock, server)
}

/// Runs fetches over a link of choice, by a client of choice.
fn fetch_over(seed: u64, calls: usize, link: &Link, stock: EndpointConfig, server: EndpointConfig) -> Run {
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
    let client = Host::client(start, stock, seed, server_address(), connections, &plans);
    let mut nodes = [(CLIENT, client), (SERVER, Host::server(start, server, seed))];
    nodes.sort_by_key(|(node, _)| *node);
    let mut addresses = [(CLIENT, client_address(7_001)), (SERVER, server_address())];
    addresses.sort_by_key(|(node, _)| *node);
    let addresses = addresses.into_iter().map(|(_, address)| address).collect();
    let mut network = Network::new(seed, addresses, link);
    network.link_mut(SERVER, CLIENT).bits_per_second = Some(CLIENT_BITS_PER_SECOND);
    network.receive_by(SERVER, CLIENT, SocketBuffer::new(SOCKET_BYTES));
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

/// Size that OpenAFS asks for (`rx_UdpBufSize`).
const SOCKET_BYTES: u64 = 65_536;
/// Rate at which a stock client takes bytes in, in bits per second.
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

/// Runs `calls` calls of a stock client with jumbograms, over a link of a given MTU (bytes of UDP payload)
/// and loss.
fn fetch_jumbograms(seed: u64, calls: usize, link: (u16, f64), server: EndpointConfig) -> Run {
    let stock = EndpointConfig {
        extensions: false,
        receive_window: 32,
        jumbograms: Jumbograms::Fragments,
        checked_paths: everywhere(),
        ..EndpointConfig::default()
    };
    let (mtu, loss) = link;
    fetch_over(seed, calls, &Link { mtu, loss, ..Link::clean(LAN) }, stock, server)
}

fn sending(jumbograms: Jumbograms, checked_paths: Vec<AddressRange>) -> EndpointConfig {
    EndpointConfig { jumbograms, checked_paths, ..EndpointConfig::default() }
}

fn everywhere() -> Vec<AddressRange> {
    vec![AddressRange::new([0, 0, 0, 0].into(), 0)]
}

#[test]
fn jumbograms_go_where_a_probe_has_shown_that_the_path_carries_them_whole() {
    let fetch = |mtu, policy, checked| fetch_jumbograms(8, 4, (mtu, 0.0), sending(policy, checked)).server;
    let wide = fetch(8_972, Jumbograms::Whole, Vec::new());
    assert!(wide.mtu_probes >= 1 && wide.jumbograms_sent * 8 > wide.data_sent, "{wide:?}");
    let plain = fetch(1_472, Jumbograms::Whole, everywhere());
    assert!(plain.jumbograms_sent == 0 && plain.mtu_probes_lost > 0, "{plain:?}");
    let cut = fetch(1_472, Jumbograms::Fragments, everywhere());
    assert!(cut.jumbograms_sent * 8 > cut.data_sent, "{cut:?}");
    let unchecked = fetch(1_472, Jumbograms::Fragments, Vec::new());
    assert_eq!(unchecked.jumbograms_sent, 0, "nothing would notice a wrong fragment");
    assert_eq!(fetch(8_972, Jumbograms::Off, everywhere()).jumbograms_sent, 0);
}

/// Bursts of jumbograms are longer than `stock_burst`. A connection that was let in for less than it waits to
/// send had its turn again at once, and again, for ever.
#[test]
fn jumbograms_of_many_calls_take_turns_for_the_socket() {
    for (seed, calls) in [(31, 1), (32, 2), (33, 4), (34, 16), (35, 64)] {
        let run = fetch_jumbograms(seed, calls, (8_972, 0.0), EndpointConfig::default());
        let least = calls as f64 * 300_000.0 * 8.0 / CLIENT_BITS_PER_SECOND as f64;
        let took = run.elapsed.as_secs_f64();
        assert!(took < 2.0 * least + 0.2, "{calls} calls took {took} s of {least} s: {run:?}");
        assert!(run.dropped == 0 && run.server.resends == 0, "{calls} calls: {run:?}");
        assert!(run.server.jumbograms_sent * 8 > run.server.data_sent, "{calls} calls: {run:?}");
    }
}

/// Tests repairs of lost jumbograms, with every byte checked by the hosts.
#[test]
fn jumbograms_that_are_lost_are_repaired_packet_by_packet() {
    for (mtu, policy) in [(8_972, Jumbograms::Whole), (1_472, Jumbograms::Fragments)] {
        let runs = (20..30).map(|seed| {
            let server = fetch_jumbograms(seed, 4, (mtu, 0.03), sending(policy, everywhere())).server;
            assert!(server.resends > 0 && server.resends * 3 < server.data_sent, "{seed}: {server:?}");
            server.jumbograms_sent
        });
        // Where the probe was lost the calls may be over before the next one.
        assert!(runs.filter(|&jumbograms| jumbograms > 0).count() >= 5, "{policy:?}");
    }
}
