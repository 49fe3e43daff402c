//! One long call over a known path: how much of the link it fills, and what it resends.

use std::time::{Duration, Instant};

use rx::EndpointConfig;
use rx::congestion::Algorithm;

use crate::host::Host;
use crate::ideal;
use crate::network::{Link, Network};
use crate::scenario::{CLIENT, CallPlan, SERVER, client_address, server_address};
use crate::wiretap::Counts;
use crate::world::World;

/// A client that fetches `reply_len` bytes in one call.
fn fetch(link: &Link, config: EndpointConfig, reply_len: u32, seed: u64) -> World<Host> {
    let start = Instant::now();
    let plan = CallPlan { at: Duration::ZERO, connection: 0, request_len: 0, reply_len, pattern: seed };
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

/// Reply bytes in a full packet of 1444.
const DATA_PER_PACKET: f64 = 1416.0;
