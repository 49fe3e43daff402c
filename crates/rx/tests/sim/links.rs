//! One long call over a known path: how much of the link it fills, and what it resends.

use std::time::{Duration, Instant};

use rx::EndpointConfig;
use rx::congestion::Algorithm;

use crate::host::{Client, Host};
use crate::ideal;
use crate::network::{Link, Network};
use crate::scenario::{CLIENT, CallPlan, SERVER, client_address, server_address};
use crate::wiretap::Counts;
use crate::world::{Fault, World};

/// A client that fetches `reply_len` bytes in one call.
fn fetch(link: &Link, config: EndpointConfig, reply_len: u32, seed: u64) -> World<Host> {
    let start = Instant::now();
    let plan = CallPlan {
        at: Duration::ZERO,
        connection: 0,
        request_len: 0,
        reply_len,
        abort_after: None,
        pattern: seed,
    };
    let hosts = vec![
        Host::client(start, config.clone(), seed, server_address(), 1, &[plan]),
        Host::server(start, config, seed),
    ];
    let network = Network::new(seed, vec![client_address(10_000), server_address()], link);
    World::new(hosts, network, start)
}

/// Bits of reply that the client's application gets per second between `from` and `to` since the start, and
/// what was sent in that time.
fn goodput(world: &mut World<Host>, from: Duration, to: Duration) -> (f64, Counts) {
    let done = world.run_until(from, |hosts| hosts.iter().all(Host::is_idle));
    assert!(!done, "the call ended before the measurement began");
    let (read_before, wire_before) = (world.nodes[CLIENT].as_client().bytes_read, world.wiretap.counts);
    world.run_until(to, |hosts| hosts.iter().all(Host::is_idle));
    let read = world.nodes[CLIENT].as_client().bytes_read - read_before;
    let seconds = (world.elapsed() - from).as_secs_f64();
    (read as f64 * 8.0 / seconds, world.wiretap.counts - wire_before)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn one_call_fills_90_percent_of_10_gigabits_at_10_ms() {
    const RATE: u64 = 10_000_000_000;
    let bandwidth_delay_bytes = RATE / 8 / 100;
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        let link =
            Link { bits_per_second: Some(RATE), queue_bytes: bandwidth_delay_bytes, ..Link::clean(ms(5)) };
        let config = EndpointConfig { congestion, ..EndpointConfig::default() };
        let mut world = fetch(&link, config, u32::MAX, 1);
        let (bits_per_second, _) = goodput(&mut world, ms(300), ms(1_000));
        println!("{congestion:?}: {:.3} Gb/s of reply bytes", bits_per_second / 1e9);
        assert!(bits_per_second >= 0.9 * RATE as f64, "{congestion:?}: {bits_per_second:.3e} b/s");
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
    const LOSS: f64 = 0.01;
    let rtt = ms(10);
    for congestion in [Algorithm::NewReno, Algorithm::Cubic] {
        let link = Link { loss: LOSS, ..Link::clean(rtt / 2) };
        let config = EndpointConfig { congestion, ..EndpointConfig::default() };
        let mut world = fetch(&link, config, u32::MAX, 3);
        let (bits_per_second, wire) = goodput(&mut world, Duration::from_secs(2), Duration::from_secs(122));
        let packets_per_second = bits_per_second / 8.0 / DATA_PER_PACKET;
        let ideal = ideal::packets_per_second(congestion.build(), rtt, LOSS, 100_000);
        let mathis = ideal::mathis_packets_per_second(rtt, LOSS);
        let stats = world.nodes[SERVER].endpoint.stats();
        println!(
            "{congestion:?}: {packets_per_second:.0} packets/s, ideal {ideal:.0}, Mathis {mathis:.0}; {wire:?}; \
             {} timeouts, {} tail probes",
            stats.timeouts, stats.tail_probes,
        );
        assert!((packets_per_second / ideal - 1.0).abs() < 0.10, "{packets_per_second:.0}, ideal {ideal:.0}");
        assert!(wire.spurious * 100 < wire.resent, "{wire:?}");
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

/// Reply bytes in a full packet of 1444.
const DATA_PER_PACKET: f64 = 1416.0;
