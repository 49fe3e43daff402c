//! Tests of paths that lose packets without being full, paths that change, and flows of different controllers
//! beside each other.
//!
//! Means over several seeds, with bounds well clear of them: `--nocapture` prints each.

use std::time::Duration;

use rx::EndpointConfig;
use rx::congestion::Algorithm;

use crate::sim::bulk::{fetch, fetch_all, fetch_on, ms, plan};
use crate::sim::host::Host;
use crate::sim::network::Link;
use crate::sim::rivals::{Bottleneck, compete, mean_shares, random_loss, shared_link, shares};
use crate::sim::scenario::{CLIENT, CallPlan, SERVER};
use crate::sim::world::{Fault, World};

#[test]
fn one_percent_random_loss_leaves_most_of_a_gigabit() {
    for congestion in [Algorithm::Auto, Algorithm::Bbr] {
        for rtt in [ms(10), ms(40)] {
            let path = random_loss(rtt);
            for seed in [1, 2] {
                let got = shares(&mut compete(&[congestion], &path, seed), &path)[0];
                println!("{congestion:?}, {rtt:?}, seed {seed}: {:.0} Mb/s", got / 1e6);
                assert!(got >= 100e6, "{congestion:?}, {rtt:?}, seed {seed}: {got:.3e} b/s");
            }
        }
    }
}

/// Tests that knowledge of losses of one connection holds for the path, so that another does not begin at
/// nothing.
#[test]
fn second_connection_to_a_peer_knows_that_losses_mislead() {
    let link = random_loss(ms(10)).link();
    let mean = |first: bool| {
        let took = (1..=8).map(|seed| {
            let mut calls = vec![CallPlan { connection: 1, ..plan(ms(5_000), 4_000_000, seed) }];
            calls.extend(first.then(|| plan(ms(0), 30_000_000, seed)));
            let mut world = fetch_on(2, &link, EndpointConfig::default(), &calls, seed);
            assert!(world.run_until(ms(60_000), |hosts| hosts.iter().all(Host::is_idle)));
            (world.elapsed() - ms(5_000)).as_secs_f64()
        });
        took.sum::<f64>() / 8.0
    };
    let (alone, second) = (mean(false), mean(true));
    println!("4 MB over a path of 1 % loss: first connection {alone:.3} s, second {second:.3} s");
    assert!(second < 0.8 * alone, "{second:.3} s, and {alone:.3} s where nothing is known");
}

#[test]
fn bbr_fills_a_clean_link_whatever_its_queue() {
    for queue in [0.25, 1.0, 4.0] {
        let path = shared_link(queue);
        let got = shares(&mut compete(&[Algorithm::Bbr], &path, 1), &path)[0] / path.capacity();
        println!("queue of {queue}: {got:.3} of the link");
        assert!(got >= 0.93, "queue of {queue}: {got}");
    }
}

#[test]
fn two_bbr_flows_share_a_link() {
    for queue in [0.25, 1.0, 4.0] {
        let [one, other] = told_shares([Algorithm::Bbr, Algorithm::Bbr], &shared_link(queue));
        assert!((0.75..1.34).contains(&(one / other)), "queue of {queue}: {one:.3} and {other:.3}");
        assert!(one + other > 0.93);
    }
}

/// Tests the shares of Auto. It is NewReno where its queue shows, and where that is very long BBR, which then
/// shares evenly.
#[test]
fn auto_shares_evenly_with_new_reno_and_takes_nothing_from_cubic() {
    for queue in [0.25, 1.0, 4.0] {
        let path = shared_link(queue);
        let [ours, theirs] = told_shares([Algorithm::Auto, Algorithm::NewReno], &path);
        assert!((0.8..1.25).contains(&(ours / theirs)), "queue of {queue}: {ours:.3} and {theirs:.3}");
        let [ours, theirs] = told_shares([Algorithm::Auto, Algorithm::Cubic], &path);
        let [as_now, _] = told_shares([Algorithm::NewReno, Algorithm::Cubic], &path);
        assert!(ours / theirs < 1.25, "queue of {queue}: {ours:.3} and CUBIC {theirs:.3}");
        assert!(ours > 0.8 * as_now, "queue of {queue}: {ours:.3}, NewReno in its place {as_now:.3}");
    }
}

/// Tests that BBR alone is no neighbour for Reno flows on short queues, which is why `Auto` does not use BBR
/// there.
#[test]
fn bbr_shares_evenly_with_loss_based_flows_on_a_long_queue_only() {
    for rival in [Algorithm::NewReno, Algorithm::Cubic] {
        let [ours, theirs] = told_shares([Algorithm::Bbr, rival], &shared_link(4.0));
        assert!((0.75..1.34).contains(&(ours / theirs)), "{rival:?}: {ours:.3} and {theirs:.3}");
    }
    let [ours, theirs] = told_shares([Algorithm::Bbr, Algorithm::NewReno], &shared_link(0.25));
    assert!(ours > 1.5 * theirs, "{ours:.3} and {theirs:.3}: then Auto may be simpler");
}

#[test]
fn bbr_follows_a_path_that_changes() {
    let path = |bits_per_second, rtt_ms: u64| Link {
        bits_per_second: Some(bits_per_second),
        queue_bytes: bits_per_second / 8 / 1000 * rtt_ms,
        ..Link::clean(ms(rtt_ms / 2))
    };
    let config = EndpointConfig { congestion: Algorithm::Bbr, ..EndpointConfig::default() };
    let mut world = fetch(&path(50_000_000, 20), config, u32::MAX, 7);
    let changes = [(5, 25_000_000, 20), (12, 50_000_000, 20), (19, 50_000_000, 60), (36, 50_000_000, 10)];
    for (at, bits_per_second, rtt_ms) in changes {
        world.schedule(ms(at * 1_000), Fault::Path(SERVER, CLIENT, path(bits_per_second, rtt_ms)));
    }
    for (from, to, bits_per_second, least) in [
        (2, 5, 50e6, 0.9),
        (9, 12, 25e6, 0.9),
        (16, 19, 50e6, 0.9),
        // A longer round trip is believed once ten seconds have shown no shorter one.
        (31, 36, 50e6, 0.85),
        (38, 42, 50e6, 0.85),
    ] {
        let before = read_at(&mut world, from);
        let got = (read_at(&mut world, to) - before) as f64 * 8.0 / (to - from) as f64;
        let share = got / (bits_per_second * 1416.0 / 1472.0);
        println!("{from} to {to} s: {share:.3} of {:.0} Mb/s", bits_per_second / 1e6);
        assert!(share >= least, "{from} to {to} s: {share:.3}");
    }
}

fn read_at(world: &mut World<Host>, seconds: u64) -> u64 {
    world.run_until(Duration::from_secs(seconds), |_| false);
    world.nodes[CLIENT].as_client().bytes_read
}

/// Tests a long reply after small ones now and then, and long pauses. They leave the channel's model as it
/// is: the next long reply comes at the rate of the link, and not all at once.
#[test]
fn long_reply_after_small_ones_and_pauses_comes_at_the_rate_of_the_path() {
    let link = Link { bits_per_second: Some(100_000_000), queue_bytes: 62_500, ..Link::clean(ms(10)) };
    let config = EndpointConfig { congestion: Algorithm::Bbr, ..EndpointConfig::default() };
    let mut calls = vec![plan(ms(0), 20_000_000, 1)];
    calls.extend((0..100).map(|n| plan(ms(4_000 + 100 * n), 5_000, n)));
    calls.push(plan(ms(30_000), 2_500_000, 9));
    let mut world = fetch_all(&link, config, &calls, 3);
    world.run_until(ms(29_999), |_| false);
    let dropped = world.network.fates.queue_full;
    assert!(world.run_until(ms(40_000), |hosts| hosts.iter().all(Host::is_idle)));
    let took = world.elapsed() - ms(30_000);
    println!("2.5 MB in {took:?}");
    assert!(took < ms(330), "2.5 MB at 100 Mb/s take 208 ms and two round trips, not {took:?}");
    let dropped = world.network.fates.queue_full - dropped;
    assert!(dropped < 36, "{dropped} of 1,766 packets: a window that left at once would have cost hundreds");
}

/// Returns the shares of two flows, printed as well.
fn told_shares(controllers: [Algorithm; 2], path: &Bottleneck) -> [f64; 2] {
    let shares = mean_shares(controllers, path);
    let ([one, other], [of_one, of_other]) = (controllers, shares);
    println!("queue of {}: {one:?} {of_one:.3}, {other:?} {of_other:.3}", path.queue);
    shares
}
