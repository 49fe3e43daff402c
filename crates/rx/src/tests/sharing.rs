//! What one client may hold of what all share, and what others feel of it.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Pair, data_packet, pattern, small_config};
use crate::EndpointConfig;

fn spoofed(number: u32) -> SocketAddr {
    let [_, b, c, d] = number.to_be_bytes();
    SocketAddr::from(([100, b, c, d], 7001))
}

/// 100,000 connections a second from addresses that never answer, for three seconds, at a round trip of 100 ms.
#[test]
fn newcomers_are_served_in_a_flood_of_spoofed_connections_that_takes_no_memory() {
    let config = EndpointConfig { check_reach: true, ..small_config() };
    let mut pair = Pair::with(small_config(), config);
    pair.latency = Duration::from_millis(50);
    let (victims_max, mut number) = (pair.server.config().unproved_max, 0);
    let start = pair.now;
    let mut call = None;
    while pair.now < start + Duration::from_secs(3) {
        for _ in 0..100 {
            number += 1;
            let bytes = data_packet(0x8000_0000 | number, number << 2, 1, 1, 1, true);
            pair.inject(spoofed(number), &bytes);
        }
        if call.is_none() && number >= 50_000 {
            let connection = pair.connect();
            call = Some(pair.call(connection, b"let me in".to_vec()));
        }
        pair.pass(Duration::from_millis(1));
        assert!(pair.server.connection_count() <= victims_max + 1);
        assert!(pair.server.peers().count() <= victims_max + 1);
    }
    let call = call.expect("made");
    assert!(pair.transfers[&call].done, "{:?}", pair.server.stats());
    assert_eq!(pair.transfers[&call].reply, b"let me in");
    assert!(pair.server.stats().cookies_sent > 200_000);
    assert_eq!(pair.server.stats().cookies_returned, 1);
    // The next one needs no proof any more, on whatever connection.
    let connection = pair.connect();
    let at = pair.now;
    let call = pair.call(connection, pattern(1_000));
    assert!(pair.run_calls(Duration::from_secs(1)));
    assert!(pair.transfers[&call].reply == pattern(1_000));
    assert!(pair.now - at <= Duration::from_millis(101), "one round trip");
}

#[test]
fn one_answer_proves_all_connections_of_its_address() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    pair.keep_trace = true;
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let connection = pair.connect();
            pair.call(connection, b"hello".to_vec())
        })
        .collect();
    assert!(pair.run_calls(Duration::from_millis(21)), "two round trips, for all");
    assert!(calls.iter().all(|call| pair.transfers[call].reply == b"hello"));
}
