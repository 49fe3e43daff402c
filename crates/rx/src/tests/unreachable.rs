//! The network's word that a server cannot be reached: believed when it must be, and only twice.

use std::time::Duration;

use super::{Pair, Wire, pattern, small_config};
use crate::{CallHandle, DeadReason, EndpointConfig, Event};

/// A client with a call to a server whose port is closed from the start: every packet there is lost.
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
    pair.client.handle_unreachable(now, server, quoted);
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
        pair.client.handle_unreachable(now, elsewhere, &good);
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
        pair.server.handle_unreachable(pair.now, client, &quoted);
    }
    assert_eq!(pair.server.stats().unreachable_ignored, 3);
    assert_eq!(pair.served.values().filter(|transfer| transfer.done).count(), 0);
}
