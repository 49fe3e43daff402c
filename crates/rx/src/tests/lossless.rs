//! Tests of transfers over a network that loses nothing.

use std::time::Duration;

use super::{Pair, pattern};
use crate::Event;
use crate::header::PacketType;

#[test]
fn small_call_returns_its_bytes() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    let call = pair.call(connection, b"hello".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert_eq!(pair.transfers[&call].reply, b"hello");
    assert_eq!(pair.client_events.last(), Some(&Event::Finished(call)));
    pair.assert_no_leaks();
}

#[test]
fn megabytes_arrive_unchanged_without_a_single_resend() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    let request = pattern(3 << 20);
    let call = pair.call(connection, request.clone());
    assert!(pair.run_calls(Duration::from_secs(30)));
    assert!(pair.transfers[&call].reply == request, "bytes differ");
    for endpoint in [&pair.client, &pair.server] {
        assert_eq!((endpoint.stats().resends, endpoint.stats().timeouts), (0, 0));
        assert_eq!(endpoint.stats().resends_spurious, 0);
    }
    pair.assert_no_leaks();
}

#[test]
fn four_calls_of_a_connection_run_at_once_and_a_fifth_waits() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    for size in [1, 10_000, 100_000, 300_000] {
        pair.call(connection, pattern(size));
    }
    assert_eq!(pair.client.open_call(pair.now, connection), Err(crate::OpenError::Busy));
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert!(pair.client_events.contains(&Event::ChannelFree(connection)));
    for (call, transfer) in &pair.transfers {
        assert!(transfer.reply == pattern(transfer.reply.len()), "bytes of {call:?} differ");
    }
    pair.assert_no_leaks();
}

#[test]
fn empty_request_gets_an_empty_reply() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    let call = pair.call(connection, Vec::new());
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert!(pair.transfers[&call].reply.is_empty());
    pair.assert_no_leaks();
}

#[test]
fn small_calls_in_a_row_need_two_packets_each() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    for _ in 0..20 {
        pair.call(connection, b"ping".to_vec());
        assert!(pair.run_calls(Duration::from_secs(5)));
    }
    let (sent, received) = (pair.client.stats().datagrams_sent, pair.client.stats().datagrams_received);
    // The first request also asks for an ACK, to measure the round trip.
    assert!(sent <= 20 && received <= 21, "{sent} sent, {received} received");
    assert_eq!(pair.server.stats().calls_accepted, 20);
    pair.assert_no_leaks();
    assert_eq!(pair.server.stats().calls_finished, 20);
}

#[test]
fn bursts_go_out_in_one_transmit() {
    let mut pair = Pair::new();
    pair.latency = Duration::from_micros(200);
    let connection = pair.connect();
    pair.call(connection, pattern(1 << 20));
    assert!(pair.run_calls(Duration::from_secs(10)));
    let stats = pair.server.stats();
    assert!(stats.datagrams_sent / stats.transmits >= 8, "{} in {}", stats.datagrams_sent, stats.transmits);
}

#[test]
fn acks_are_few_towards_a_peer_that_asks_for_them() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    let connection = pair.connect();
    pair.call(connection, pattern(4 << 20));
    assert!(pair.run_calls(Duration::from_secs(30)));
    let acks = pair.trace.iter().filter(|wire| wire.header().kind == PacketType::Ack).count();
    let data = pair.trace.iter().filter(|wire| wire.header().kind == PacketType::Data).count();
    assert!(data / acks >= 10, "{acks} ACKs for {data} DATA packets");
}

#[test]
fn equal_seeds_give_equal_packets() {
    let run = || {
        let mut pair = Pair::new();
        pair.keep_trace = true;
        let connection = pair.connect();
        pair.call(connection, pattern(200_000));
        pair.run_calls(Duration::from_secs(10));
        pair.trace.into_iter().map(|wire| wire.bytes).collect::<Vec<_>>()
    };
    assert!(run() == run());
}
