//! Tests of many calls of one lane at once.

use std::time::{Duration, Instant};

use rx::EndpointConfig;

use crate::sim::bulk::ms;
use crate::sim::host::Host;
use crate::sim::network::{Link, Network};
use crate::sim::scenario::{CLIENT, CallPlan, SERVER, client_address, server_address};
use crate::sim::world::World;

/// Returns the longest time between two arrivals of a call's bytes, and the 99th percentile of all. Meanwhile
/// `count` connections fetch 250 MB together at 10 Gb/s from a server that looks for arrivals every `gather`.
fn gaps(count: usize, gather: Duration) -> (Duration, Duration) {
    const RATE: u64 = 10_000_000_000;
    let start = Instant::now();
    let link = Link { bits_per_second: Some(RATE), gather, ..Link::clean(Duration::from_micros(25)) };
    let config = EndpointConfig::default();
    let call = |connection| CallPlan {
        at: Duration::ZERO,
        connection,
        request_len: 100,
        reply_len: 250_000_000 / count as u32,
        abort_after: None,
        pattern: connection as u64,
    };
    let calls: Vec<_> = (0..count).map(call).collect();
    let mut nodes = vec![(CLIENT, Host::client(start, config.clone(), 22, server_address(), count, &calls))];
    nodes.push((SERVER, Host::server(start, config, 21)));
    nodes.sort_by_key(|(node, _)| *node);
    let mut addresses = [(CLIENT, client_address(7_001)), (SERVER, server_address())];
    addresses.sort_by_key(|(node, _)| *node);
    let nodes = nodes.into_iter().map(|(_, host)| host).collect();
    let network = Network::new(21, addresses.into_iter().map(|(_, address)| address).collect(), &link);
    let mut world = World::new(nodes, network, start);
    assert!(world.run_until(Duration::from_secs(30), |hosts| hosts.iter().all(Host::is_idle)));
    let mut gaps = world.nodes[CLIENT].as_client().gaps.clone();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let (worst, p99) = (gaps[0], gaps[gaps.len() / 100]);
    println!("{count} calls, looks every {gather:?}: {:?}, p99 {p99:?}, worst {worst:?}", world.elapsed());
    (worst, p99)
}

/// Tests that each of the calls has a share of the lane's working set, and none waits for an ACK that was not
/// requested.
#[test]
fn bulk_calls_that_share_a_working_set_do_not_stall() {
    let worst = [(8, 50), (8, 200), (8, 1000), (24, 200), (8, 0)]
        .map(|(count, gather)| gaps(count, Duration::from_micros(gather)).0);
    assert!(worst.iter().all(|&worst| worst <= ms(20)), "{worst:?}");
}
