//! Tests of network reports that a peer cannot be reached, which are believed when they must be.
//!
//! Of a server only twice, of a client that is called back and of clients of a server that drains at once.

use std::time::Duration;

use super::{ECHO, Pair, SECURITY_NULL, Wire, pattern, small_config};
use crate::security::NullSecurity;
use crate::{CallHandle, ConnectOptions, DeadReason, EndpointConfig, Event, abort};

/// Makes a client with a call to a server whose port is closed from the start: every packet there is lost.
fn call_to_nobody() -> (Pair, CallHandle) {
    let mut pair = Pair::new();
    let server = pair.server_address;
    pair.filter = Some(Box::new(move |wire| wire.to != server));
    pair.keep_trace = true;
    let connection = pair.connect();
    let call = pair.call(connection, pattern(10));
    pair.settle();
    (pair, call)
}

fn last_sent(pair: &Pair) -> Wire {
    pair.trace.iter().rev().find(|wire| wire.to == pair.server_address).expect("the client sends").clone()
}

fn report(pair: &mut Pair, quoted: &[u8]) {
    let (now, server) = (pair.now, pair.server_address);
    pair.client.handle_unreachable(now, server, quoted, false);
    pair.settle();
}

fn counted(pair: &Pair) -> (u64, u64) {
    let stats = pair.client.stats();
    (stats.unreachable_believed, stats.unreachable_ignored)
}

fn has_died_unreachable(pair: &Pair, call: CallHandle) -> bool {
    pair.client_events.contains(&Event::Dead { call, reason: DeadReason::Unreachable })
}

#[test]
fn two_reports_end_a_call_in_less_than_two_seconds() {
    let (mut pair, call) = call_to_nobody();
    let started = pair.now;
    loop {
        pair.settle();
        let quoted = last_sent(&pair).bytes;
        report(&mut pair, &quoted[..64.min(quoted.len())]);
        if has_died_unreachable(&pair, call) {
            break;
        }
        assert!(pair.step(), "nothing is left to happen");
        assert!(pair.now - started < Duration::from_secs(2), "{:?}", pair.client_events);
    }
    assert!(pair.now - started >= Duration::from_millis(1500), "a server may be started again meanwhile");
    assert_eq!(counted(&pair).1, 0);
    pair.assert_no_leaks();
}

#[test]
fn one_report_repeated_ends_nothing_until_the_dead_time() {
    let (mut pair, call) = call_to_nobody();
    let started = pair.now;
    let quoted = last_sent(&pair).bytes;
    while pair.client_events.is_empty() {
        report(&mut pair, &quoted);
        assert!(pair.step(), "nothing is left to happen");
    }
    assert_eq!(pair.client_events, [Event::Dead { call, reason: DeadReason::Silent }]);
    assert!(pair.now - started >= Duration::from_secs(12));
}

#[test]
fn report_of_a_peer_that_is_heard_ends_nothing() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    pair.server_sleeps = true;
    let connection = pair.connect();
    let call = pair.call(connection, pattern(10));
    pair.pass(Duration::from_millis(100));
    for _ in 0..10 {
        let quoted = last_sent(&pair).bytes;
        report(&mut pair, &quoted);
        // The client asks, and the server answers.
        pair.pass(Duration::from_millis(1600));
    }
    assert_eq!(counted(&pair), (10, 0));
    assert!(pair.client.call(pair.now, call).is_some(), "the call goes on");
}

#[test]
fn reports_that_quote_no_recent_packet_of_a_call_of_ours_are_ignored() {
    let (mut pair, call) = call_to_nobody();
    for round in 1..=20 {
        pair.pass(Duration::from_millis(200));
        let good = last_sent(&pair).bytes;
        report(&mut pair, &good[..27]);
        // Epoch, cid, serial (ahead of, and far behind, what was sent) and the side.
        for at in [0, 5, 16, 17, 21] {
            let mut spoofed = good.clone();
            spoofed[at] ^= if at == 21 { 1 } else { 0x40 };
            report(&mut pair, &spoofed);
        }
        let (now, elsewhere) = (pair.now, "10.0.0.3:7000".parse().expect("address"));
        pair.client.handle_unreachable(now, elsewhere, &good, true);
        assert_eq!(counted(&pair), (0, round * 7));
    }
    assert!(pair.client.call(pair.now, call).is_some());
}

#[test]
fn server_keeps_its_calls_whatever_the_network_says() {
    let quick = EndpointConfig { dead_time: Duration::from_secs(60), ..small_config() };
    let mut pair = Pair::with(quick.clone(), quick);
    pair.keep_trace = true;
    pair.server_sleeps = true;
    let connection = pair.connect();
    pair.call(connection, pattern(10));
    for _ in 0..3 {
        pair.pass(Duration::from_secs(2));
        let client = pair.client_address;
        let sent = pair.trace.iter().rev().find(|wire| wire.to == client).expect("the server acknowledges");
        let quoted = sent.bytes.clone();
        pair.server.handle_unreachable(pair.now, client, &quoted, false);
        pair.server.handle_unreachable(pair.now, client, &quoted, true);
    }
    assert_eq!(pair.server.stats().unreachable_ignored, 6);
    assert_eq!(pair.served.values().filter(|transfer| transfer.done).count(), 0);
}

/// Calls a closed port ([`call_to_nobody`]) on a connection whose calls end when the peer reports its port
/// closed.
fn call_back_to_nobody() -> (Pair, CallHandle) {
    let mut pair = Pair::new();
    let server = pair.server_address;
    pair.filter = Some(Box::new(move |wire| wire.to != server));
    pair.keep_trace = true;
    let options = ConnectOptions { ends_at_closed_port: true, ..ConnectOptions::default() };
    let (now, security) = (pair.now, Box::new(NullSecurity));
    let connection = pair.client.connect(now, server, ECHO, SECURITY_NULL, security, options).expect("room");
    let call = pair.call(connection, pattern(10));
    pair.settle();
    (pair, call)
}

#[test]
fn closed_port_ends_a_call_at_once_where_its_connection_asks_for_that() {
    let (mut pair, call) = call_back_to_nobody();
    let (now, server) = (pair.now, pair.server_address);
    let quoted = last_sent(&pair).bytes;
    pair.client.handle_unreachable(now, server, &quoted, true);
    pair.settle();
    assert!(pair.client_events.contains(&Event::Dead { call, reason: DeadReason::PortClosed }));
    assert_eq!((counted(&pair), pair.now), ((1, 0), now));
    // Its next call asks anew, and what is said of the last one does not end it.
    let next = pair.call(call.connection, pattern(10));
    pair.settle();
    pair.client.handle_unreachable(now, server, &quoted, true);
    assert!(pair.client.call(pair.now, next).is_some());
    pair.filter = None;
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.transfers[&next].done));
}

#[test]
fn forged_word_of_a_closed_port_ends_nothing() {
    let (mut pair, call) = call_back_to_nobody();
    let good = last_sent(&pair).bytes;
    let (now, server, elsewhere) = (pair.now, pair.server_address, "10.0.0.3:7000".parse().expect("address"));
    // Too little of it, and each bit of epoch, cid, call number and serial, and which side has sent it.
    for length in 0..28 {
        pair.client.handle_unreachable(now, server, &good[..length], true);
    }
    for bit in (0..12 * 8).chain(16 * 8..20 * 8).chain([21 * 8]) {
        let mut forged = good.clone();
        forged[bit / 8] ^= 1 << (bit % 8);
        let serials = |bytes: &[u8]| u32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
        // The newest serials are known to a host that sees the packets alone; they are as good as this one.
        if serials(&good).wrapping_sub(serials(&forged)) >= 4096 {
            pair.client.handle_unreachable(now, server, &forged, true);
        }
    }
    pair.client.handle_unreachable(now, elsewhere, &good, true);
    pair.settle();
    assert!(pair.client.call(now, call).is_some(), "{:?}", pair.client_events);
    // What a router on the way says of a true one is only believed twice.
    pair.client.handle_unreachable(now, server, &good, false);
    pair.settle();
    assert!(pair.client.call(now, call).is_some());
}

#[test]
fn client_of_a_server_that_drains_is_asked_and_waited_for_no_longer_than_its_port_is_open() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    pair.server_sleeps = true;
    let connection = pair.connect();
    let mut calls = vec![pair.call(connection, pattern(10)), pair.call(connection, pattern(10))];
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.server.calls_in_progress(), 2);
    let client = pair.client_address;
    pair.filter = Some(Box::new(move |wire| wire.to != client));
    let sent_to_client =
        |pair: &Pair| pair.trace.iter().rev().find(|wire| wire.to == client).expect("some").bytes.clone();
    let before = sent_to_client(&pair);
    pair.server.handle_unreachable(pair.now, client, &before, true);
    assert_eq!(pair.server.calls_in_progress(), 2, "it may be behind a NAT that begins anew");
    // It does, and is heard again.
    calls.push(pair.call(connection, pattern(10)));
    pair.run_for(Duration::from_millis(100));
    let sent = pair.trace.len();
    pair.server.refuse_calls(abort::RESTARTING);
    pair.settle();
    assert!(pair.trace[sent..].iter().any(|wire| wire.to == client), "it asks");
    let asked = sent_to_client(&pair);
    pair.server.handle_unreachable(pair.now, client, &asked, false);
    pair.server.handle_unreachable(pair.now, "10.0.0.3:7001".parse().expect("address"), &asked, true);
    assert_eq!(pair.server.calls_in_progress(), 3);
    pair.server.handle_unreachable(pair.now, client, &asked, true);
    assert_eq!(pair.server.calls_in_progress(), 0);
    pair.settle();
    let dead = pair
        .server_events
        .iter()
        .filter(|event| matches!(event, Event::Dead { reason: DeadReason::PortClosed, .. }));
    assert_eq!(dead.count(), calls.len());
}

#[test]
fn drain_waits_for_no_client_that_has_said_last_that_its_port_is_closed() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    pair.server_sleeps = true;
    let connection = pair.connect();
    pair.call(connection, pattern(10));
    pair.run_for(Duration::from_millis(100));
    let client = pair.client_address;
    pair.filter = Some(Box::new(move |_| false));
    let quoted = pair.trace.iter().rev().find(|wire| wire.to == client).expect("some").bytes.clone();
    pair.server.handle_unreachable(pair.now, client, &quoted, true);
    // A reply that the client has not shown to know is not repeated for ever: nothing may be left to ask it by.
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.server.calls_in_progress(), 1);
    pair.server.refuse_calls(abort::RESTARTING);
    assert_eq!(pair.server.calls_in_progress(), 0);
}

/// Makes a client of three connections, with a call on each, that receives nothing any more.
fn gone_with_three_connections() -> Pair {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    pair.server_sleeps = true;
    for _ in 0..3 {
        let connection = pair.connect();
        pair.call(connection, pattern(10));
    }
    pair.run_for(Duration::from_millis(100));
    pair.filter = Some(Box::new(move |_| false));
    assert_eq!(pair.server.calls_in_progress(), 3);
    pair
}

fn last_to_client(pair: &Pair) -> Vec<u8> {
    let client = pair.client_address;
    pair.trace.iter().rev().find(|wire| wire.to == client).expect("the server sends").bytes.clone()
}

#[test]
fn word_of_a_closed_port_ends_a_drain_on_all_connections_of_that_client() {
    for before in [true, false] {
        let mut pair = gone_with_three_connections();
        let (client, quoted) = (pair.client_address, last_to_client(&pair));
        if before {
            pair.server.handle_unreachable(pair.now, client, &quoted, true);
            assert_eq!(pair.server.calls_in_progress(), 3);
            pair.run_for(Duration::from_secs(1));
        }
        pair.server.refuse_calls(abort::RESTARTING);
        pair.settle();
        if !before {
            assert_eq!(pair.server.calls_in_progress(), 3);
            let quoted = last_to_client(&pair);
            pair.server.handle_unreachable(
                pair.now,
                "10.0.0.3:7001".parse().expect("address"),
                &quoted,
                true,
            );
            pair.server.handle_unreachable(pair.now, client, &quoted, false);
            assert_eq!(pair.server.calls_in_progress(), 3);
            pair.server.handle_unreachable(pair.now, client, &quoted, true);
        }
        assert_eq!(pair.server.calls_in_progress(), 0, "before: {before}");
    }
}

#[test]
fn drain_asks_clients_that_went_before_they_acknowledged_a_reply() {
    for size in [10, 1000, 100_000] {
        let mut pair = Pair::new();
        pair.keep_trace = true;
        let client = pair.client_address;
        // It has asked, over a path that brings it nothing more once its request is there.
        pair.filter = Some(Box::new(move |wire| wire.to != client || wire.bytes[20] != 1));
        let connection = pair.connect();
        pair.call(connection, pattern(size));
        pair.run_for(Duration::from_millis(100));
        pair.filter = Some(Box::new(|_| false));
        // What it may be sent unasked is used up, and an address's credit lasts some seconds.
        pair.run_for(Duration::from_secs(8));
        if pair.server.calls_in_progress() == 0 {
            panic!("{size}: the reply is on its way");
        }
        let sent = pair.trace.len();
        pair.server.refuse_calls(abort::RESTARTING);
        pair.settle();
        let asked: Vec<_> = pair.trace[sent..].iter().filter(|wire| wire.to == client).collect();
        assert_eq!(asked.len(), 1, "{size}: it asks, once");
        let quoted = asked[0].bytes.clone();
        pair.server.handle_unreachable(pair.now, client, &quoted, true);
        assert_eq!(pair.server.calls_in_progress(), 0, "{size}");
    }
}
