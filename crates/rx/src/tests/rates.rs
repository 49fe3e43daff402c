//! Tests of rates of single connections, and of all together.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Pair, pattern};
use crate::header::PacketType;

/// Returns how long a call of `bytes` bytes takes, there and back.
fn seconds_for(pair: &mut Pair, bytes: usize) -> f64 {
    let connection = pair.connect();
    let call = pair.call(connection, pattern(bytes));
    let start = pair.now;
    assert!(pair.run_calls(Duration::from_secs(300)));
    assert!(pair.transfers[&call].reply == pattern(bytes), "bytes differ");
    (pair.now - start).as_secs_f64()
}

#[test]
fn connections_rate_bounds_what_it_sends_and_nothing_else() {
    let mut pair = Pair::new();
    let free = seconds_for(&mut pair, 1_000_000);
    let connection = pair.connect();
    assert!(pair.client.set_rate(pair.now, connection, Some(200_000)));
    let call = pair.call(connection, pattern(1_000_000));
    let start = pair.now;
    assert!(pair.run_calls(Duration::from_secs(300)));
    let took = (pair.now - start).as_secs_f64();
    assert!(pair.transfers[&call].reply == pattern(1_000_000), "bytes differ");
    assert!((4.8..6.5).contains(&took) && free < 2.0, "{took} s at 200 kB/s, {free} s without");
    assert_eq!(pair.client.stats().timeouts, 0, "what waits for its rate is not taken for lost");
    assert!(seconds_for(&mut pair, 1_000_000) < 2.0, "others are free");
    pair.assert_no_leaks();
}

#[test]
fn endpoints_share_is_divided_among_all_who_send() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    pair.client.set_share(pair.now, Some(1_000_000));
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let connection = pair.connect();
            pair.call(connection, pattern(500_000))
        })
        .collect();
    let start = pair.now;
    pair.run_for(Duration::from_secs(5));
    // All are at work, none far ahead.
    let mut sent = BTreeMap::<u32, usize>::new();
    let of_client = pair.trace.iter().filter(|wire| wire.from == pair.client_address);
    for wire in of_client.filter(|wire| wire.header().kind == PacketType::Data) {
        *sent.entry(wire.header().cid).or_default() += wire.bytes.len();
    }
    let (least, most) = (sent.values().min().unwrap(), sent.values().max().unwrap());
    assert!(sent.len() == 20 && *least > 150_000 && *most < 350_000, "{sent:?}");
    pair.keep_trace = false;
    assert!(pair.run_calls(Duration::from_secs(300)));
    let took = (pair.now - start).as_secs_f64();
    assert!((9.9..12.0).contains(&took), "10 MB at 1 MB/s took {took} s");
    assert!(calls.iter().all(|call| pair.transfers[call].reply.len() == 500_000));
    assert!(pair.client.stats().share_waits > 0);
    assert_eq!(pair.client.stats().timeouts, 0);
    pair.assert_no_leaks();
}

#[test]
fn share_that_grows_or_goes_is_felt_at_once() {
    let mut pair = Pair::new();
    pair.client.set_share(pair.now, Some(10_000));
    let connection = pair.connect();
    let call = pair.call(connection, pattern(2_000_000));
    pair.run_for(Duration::from_secs(20));
    assert!(!pair.transfers[&call].done, "200 kB of 2 MB");
    pair.client.set_share(pair.now, None);
    let start = pair.now;
    assert!(pair.run_calls(Duration::from_secs(60)));
    assert!(pair.now - start < Duration::from_secs(5));
    pair.assert_no_leaks();
}
