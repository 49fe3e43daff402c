//! Tests of one long call over a known path: how much of the link is filled, and what is resent.

use std::time::{Duration, Instant};

use rx::EndpointConfig;
use rx::congestion::Algorithm;

use crate::sim::bulk::{
    SHALLOW_QUEUES, fetch, fetch_all, goodput, lossy_path, ms, plan, shallow_path, wide_path,
};
use crate::sim::host::{Client, Host};
use crate::sim::network::{Link, Network};
use crate::sim::scenario::{CLIENT, CallPlan, SERVER, client_address, server_address};
use crate::sim::wiretap::Counts;
use crate::sim::world::{Fault, World};

#[test]
fn one_call_fills_90_percent_of_10_gigabits_at_10_ms() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        let path = wide_path(congestion);
        println!("{congestion:?}: {:.3} Gb/s of reply bytes", path.bits_per_second / 1e9);
        assert!(path.bits_per_second >= 0.9 * path.link_bits_per_second, "{congestion:?}: {path:?}");
    }
}

#[test]
fn clean_network_sees_nothing_twice() {
    for (latency, rate, reply_len) in
        [(ms(5), None, 3_000_000), (Duration::from_micros(20), Some(1_000_000_000), 20_000_000)]
    {
        let link = Link { bits_per_second: rate, ..Link::clean(latency) };
        for extensions in [true, false] {
            let config = EndpointConfig { extensions, ..EndpointConfig::default() };
            let mut world = fetch(&link, config, reply_len, 2);
            assert!(world.run_until(Duration::from_secs(60), |hosts| hosts.iter().all(Host::is_idle)));
            let Counts { resent, data_sent, .. } = world.wiretap.counts;
            assert!(data_sent > u64::from(reply_len) / 1416);
            assert_eq!(resent, 0, "extensions {extensions}, {rate:?} b/s");
            for node in [CLIENT, SERVER] {
                let stats = world.nodes[node].endpoint.stats();
                assert_eq!((stats.resends, stats.resends_spurious, stats.timeouts), (0, 0, 0));
            }
        }
    }
}

#[test]
fn one_percent_random_loss_costs_what_the_controller_says() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        let path = lossy_path(congestion);
        println!("{congestion:?}: {path:?}");
        let ratio = path.packets_per_second / path.ideal_packets_per_second;
        assert!((ratio - 1.0).abs() < 0.10, "{path:?}");
        assert!(path.wire.spurious * 100 < path.wire.resent, "{path:?}");
    }
}

#[test]
fn overflowing_queue_costs_one_resend_for_each_drop() {
    const RATE: u64 = 100_000_000;
    let link = Link { bits_per_second: Some(RATE), queue_bytes: 250_000, ..Link::clean(ms(10)) };
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        let config = EndpointConfig { congestion, ..EndpointConfig::default() };
        let mut world = fetch(&link, config, u32::MAX, 4);
        let (bits_per_second, _) = goodput(&mut world, ms(2_000), ms(22_000));
        let (wire, dropped) = (world.wiretap.counts, world.network.fates.queue_full);
        println!("{congestion:?}: {:.1} Mb/s; {wire:?}, {dropped} dropped", bits_per_second / 1e6);
        assert!(bits_per_second >= 0.9 * RATE as f64, "{congestion:?}: {bits_per_second:.3e} b/s");
        assert!(dropped > 0 && wire.spurious * 100 <= wire.resent, "{wire:?}, {dropped} dropped");
    }
}

#[test]
fn shallow_queue_is_filled_as_far_as_the_controller_can() {
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        for queue in SHALLOW_QUEUES {
            let path = shallow_path(congestion, queue);
            println!("{congestion:?}, {queue:?}: {path:?}");
            assert!(path.share >= queue.wanted_share(congestion), "{congestion:?}, {queue:?}: {path:?}");
            assert!(path.share >= 0.96 * path.ideal_share, "{congestion:?}, {queue:?}: {path:?}");
            assert!(path.dropped > 0 && path.wire.spurious * 100 <= path.wire.resent, "{path:?}");
        }
    }
}

/// Tests a reply after a pause. A channel keeps its window from call to call; a reply that finds it open must
/// not leave all at once.
#[test]
fn reply_after_a_pause_is_paced_into_a_shallow_queue() {
    let queue_bytes = 50_000;
    let link = Link { bits_per_second: Some(100_000_000), queue_bytes, ..Link::clean(ms(10)) };
    // The first reply opens the window to more than the queue holds, and ends before it overflows.
    let calls = [plan(ms(0), 250_000, 1), plan(ms(2_000), 150_000, 2), plan(ms(4_000), 150_000, 3)];
    let mut world = fetch_all(&link, EndpointConfig::default(), &calls, 11);
    assert!(world.run_until(Duration::from_secs(10), |hosts| hosts.iter().all(Host::is_idle)));
    let window = 250_000 / 1416;
    assert!(window * 1472 > queue_bytes, "the window is larger than the queue");
    assert_eq!(world.network.fates.queue_full, 0);
    assert!(world.elapsed() < ms(4_200), "{:?}", world.elapsed());
}

#[test]
fn steady_reordering_is_learnt() {
    let link = Link { reorder: 0.05, reorder_delay: ms(4), ..Link::clean(ms(10)) };
    let config = EndpointConfig { receive_window: 255, ..EndpointConfig::default() };
    let mut world = fetch(&link, config, 20_000_000, 5);
    assert!(world.run_until(Duration::from_secs(120), |hosts| hosts.iter().all(Host::is_idle)));
    let (elapsed, Counts { data_sent, spurious, .. }) = (world.elapsed(), world.wiretap.counts);
    println!("20 MB in {elapsed:?}, {spurious} of {data_sent} packets sent in vain");
    assert!(spurious * 200 < data_sent, "{spurious} of {data_sent}");
    assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
}

#[test]
fn larger_path_mtu_is_found_and_used_mid_call() {
    let link = Link { mtu: 4_000, ..Link::clean(ms(2)) };
    let config = EndpointConfig { packet_size_max: 8_000, receive_window: 255, ..EndpointConfig::default() };
    let mut world = fetch(&link, config, 200_000_000, 9);
    assert!(world.run_until(Duration::from_secs(10), |hosts| hosts.iter().all(Host::is_idle)));
    let Counts { data_sent, resent, .. } = world.wiretap.counts;
    println!("{data_sent} packets, {} probes too large", world.network.fates.too_large);
    assert!(world.network.fates.too_large > 0, "nothing larger was tried");
    assert!(data_sent < 200_000_000 / 3_000, "{data_sent} packets");
    assert_eq!(resent, 0);
}

#[test]
fn eight_clients_of_one_server_all_finish() {
    let start = Instant::now();
    let link = Link { loss: 0.02, reorder: 0.02, reorder_delay: ms(2), ..Link::clean(ms(3)) };
    let config = EndpointConfig { packets: 4_000, ..EndpointConfig::default() };
    let calls: Vec<_> = (0..20)
        .map(|n| CallPlan {
            at: ms(10 * n),
            connection: n as usize % 2,
            request_len: 5_000,
            reply_len: 200_000,
            abort_after: None,
            pattern: n,
        })
        .collect();
    let mut hosts = vec![Host::server(start, config.clone(), 6)];
    let mut addresses = vec![server_address()];
    for n in 0..8 {
        hosts.push(Host::client(start, config.clone(), 7 + n, server_address(), 2, &calls));
        addresses.push(client_address(10_000 + n as u16));
    }
    let mut world = World::new(hosts, Network::new(6, addresses, &link), start);
    let done = world.run_until(Duration::from_secs(60), |hosts| {
        hosts.iter().all(|host| host.is_idle() && host.endpoint.pool().in_use() == 0)
    });
    for host in &world.nodes {
        assert!(host.failures().is_empty(), "{:#?}", host.failures());
    }
    assert!(done, "calls or packets are left over after {:?}", world.elapsed());
    assert_eq!(world.nodes[0].as_server().finished, 8 * calls.len());
}

#[test]
fn peer_that_vanishes_mid_call_leaves_nothing_behind() {
    for (gone, other) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        let link = Link { bits_per_second: Some(100_000_000), ..Link::clean(ms(5)) };
        let mut world = fetch(&link, EndpointConfig::default(), 100_000_000, 8);
        world.schedule(ms(500), Fault::Partition(gone, other, Duration::from_secs(3600)));
        world.run_until(Duration::from_secs(60), |_| false);
        let Client { failures, bytes_read, .. } = world.nodes[CLIENT].as_client();
        assert!(*bytes_read > 0);
        assert!(matches!(&failures[..], [only] if only.contains("dead: Silent")), "{failures:?}");
        assert_eq!(world.nodes[SERVER].as_server().abandoned, 1);
        for host in &world.nodes {
            assert_eq!(host.endpoint.pool().in_use(), 0);
        }
    }
}

/// Returns the durations of a client's first call over a path of 20 ms that loses every fifth packet,
/// shortest first.
fn first_call_latencies(request_len: u32) -> Vec<Duration> {
    let link = Link { loss: 0.2, ..Link::clean(ms(10)) };
    let config = EndpointConfig { packets: 500, ..EndpointConfig::default() };
    let mut all: Vec<_> = (0..FIRST_CALLS)
        .map(|seed| {
            let call = CallPlan { request_len, ..plan(Duration::ZERO, 100, seed) };
            let mut world = fetch_all(&link, config.clone(), &[call], seed);
            let done = world.run_until(Duration::from_secs(60), |hosts| hosts[CLIENT].is_idle());
            assert!(done && world.nodes[CLIENT].failures().is_empty(), "seed {seed}");
            world.elapsed()
        })
        .collect();
    all.sort();
    all
}

/// Tests first calls that lose probes. A small request pays for one probe, so there the client's own timeouts
/// set the pace.
#[test]
fn first_call_of_an_unproved_client_survives_lost_probes() {
    for (request_len, nine_of_ten_max) in [(0, ms(3_100)), (1_000, ms(2_000)), (20_000, ms(2_000))] {
        let all = first_call_latencies(request_len);
        let at = |share: f64| all[(share * (all.len() - 1) as f64) as usize];
        let [median, nine_of_ten, most, worst] = [0.5, 0.9, 0.99, 1.0].map(at);
        println!("{request_len} bytes: {median:?} median, {nine_of_ten:?} 90 %, {most:?} 99 %, {worst:?}");
        assert!(nine_of_ten <= nine_of_ten_max, "{request_len} bytes: {nine_of_ten:?}");
        assert!(most <= ms(7_000), "{request_len} bytes: {most:?}");
    }
}

const FIRST_CALLS: u64 = 1_000;
