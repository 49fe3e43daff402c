//! Tests of the end of a server's service, and of connections.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Pair, data_packet, pattern, small_config};
use crate::header::PacketType;
use crate::{ConnectionEnd, EndpointConfig, Event, abort};

const EPOCH: u32 = 0x8000_1234;

/// Returns how the server's connections ended.
fn ends(pair: &Pair) -> Vec<ConnectionEnd> {
    let end = |event: &Event| match *event {
        Event::ConnectionEnded { end, .. } => Some(end),
        _ => None,
    };
    pair.server_events.iter().filter_map(end).collect()
}

/// Begins clients' calls before and after the server refuses new ones, over a path that loses packets.
///
/// Delivered calls end well, all others are told to come back, and nothing is left.
#[test]
fn calls_in_progress_end_and_later_ones_are_told_to_come_back() {
    for seed in 0..40 {
        let mut rng = StdRng::seed_from_u64(seed);
        let config = EndpointConfig { check_reach: seed % 2 == 0, ..small_config() };
        let mut pair = Pair::with(small_config(), config);
        let mut loss = StdRng::seed_from_u64(!seed);
        let rate = rng.random_range(0..10);
        pair.filter = Some(Box::new(move |_| loss.random_range(0..100) >= rate));
        let connections: Vec<_> = (0..6).map(|_| pair.connect()).collect();
        for _ in 0..rng.random_range(1..20) {
            let connection = connections[rng.random_range(0..connections.len())];
            if pair.client.connection(connection).unwrap().calls().count() < 4 {
                pair.call(connection, pattern(rng.random_range(0..300_000)));
            }
            pair.run_for(Duration::from_millis(rng.random_range(0..30)));
        }
        pair.server.refuse_calls(abort::RESTARTING);
        pair.settle();
        let delivered: Vec<_> = pair.served.keys().copied().collect();
        for connection in &connections {
            if pair.client.connection(*connection).unwrap().calls().count() < 4 {
                pair.call(*connection, pattern(50_000));
            }
        }
        assert!(pair.run_calls(Duration::from_secs(120)), "seed {seed}");
        assert!(pair.run_until(Duration::from_secs(60), |pair| pair.server.calls_in_progress() == 0));
        assert_eq!(pair.served.len(), delivered.len(), "seed {seed}: a call was taken after the end");
        let mut told = 0;
        for event in &pair.client_events {
            match *event {
                Event::Aborted { code, .. } => {
                    assert_eq!(code, abort::RESTARTING, "seed {seed}");
                    told += 1;
                }
                Event::Dead { .. } | Event::ConnectionAborted { .. } => panic!("seed {seed}: {event:?}"),
                _ => {}
            }
        }
        assert_eq!(told + delivered.len(), pair.transfers.len(), "seed {seed}");
        assert!(told > 0 && pair.server.stats().calls_refused > 0, "seed {seed}");
        pair.filter = None;
        pair.run_for(Duration::from_secs(30));
        pair.server.let_go(pair.now);
        pair.assert_no_leaks();
    }
}

#[test]
fn calls_cut_at_the_deadline_are_counted_and_told_to_both_sides() {
    let mut pair = Pair::new();
    pair.server_sleeps = true;
    let connection = pair.connect();
    let calls: Vec<_> = (0..3).map(|at| pair.call(connection, pattern(1000 << at))).collect();
    pair.run_for(Duration::from_millis(50));
    pair.server.refuse_calls(abort::RESTARTING);
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.server.calls_in_progress(), 3);
    assert_eq!(pair.server.cut_calls(abort::RESTARTING), 3);
    assert_eq!(pair.server.cut_calls(abort::RESTARTING), 0);
    pair.run_for(Duration::from_millis(50));
    for call in calls {
        assert!(pair.client_events.contains(&Event::Aborted { call, code: abort::RESTARTING }));
    }
    let told = |event: &&Event| matches!(event, Event::Aborted { code: abort::RESTARTING, .. });
    assert_eq!(pair.server_events.iter().filter(told).count(), 3);
    assert_eq!(pair.server.let_go(pair.now), 0, "who may not have heard it is told again");
    pair.assert_no_leaks();
}

#[test]
fn newcomer_at_a_server_that_ends_is_told_so_and_nothing_is_kept_of_him() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    pair.server.refuse_calls(abort::RESTARTING);
    let from = pair.client_address;
    pair.inject(from, &data_packet(EPOCH, 4, 1, 1, 1, true));
    pair.settle();
    let answer = pair.trace.last().expect("an answer");
    assert_eq!(
        (answer.header().kind, answer.payload()),
        (PacketType::Abort, &abort::RESTARTING.to_be_bytes()[..])
    );
    assert_eq!((pair.server.connection_count(), pair.server.stats().calls_refused), (0, 1));
    // A flood is not answered as fast as it comes.
    for call in 0..10_000 {
        pair.inject(from, &data_packet(EPOCH, 4 * call, 1, 1, 1, true));
        pair.settle();
    }
    assert!(pair.server.stats().aborts_sent < 100, "{}", pair.server.stats().aborts_sent);
    assert_eq!(pair.server.connection_count(), 0);
}

#[test]
fn calls_that_wait_for_their_clients_proof_are_refused_with_the_rest() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    pair.keep_trace = true;
    let from = pair.client_address;
    pair.inject(from, &data_packet(EPOCH, 4, 1, 1, 1, true));
    pair.settle();
    assert!(pair.served.is_empty());
    pair.server.refuse_calls(abort::RESTARTING);
    pair.answer_ping();
    pair.settle();
    let aborts = |wire: &&super::Wire| wire.header().kind == PacketType::Abort;
    assert!(pair.served.is_empty() && pair.trace.iter().any(|wire| aborts(&wire)));
    assert_eq!(pair.server.pool().in_use(), 0);
}

#[test]
fn connections_that_are_let_go_end_with_an_event_once() {
    let mut pair = Pair::new();
    let connections: Vec<_> = (0..5).map(|_| pair.connect()).collect();
    for connection in connections {
        pair.call(connection, b"hello".to_vec());
    }
    assert!(pair.run_calls(Duration::from_secs(5)));
    pair.run_for(Duration::from_secs(1));
    assert!(ends(&pair).is_empty());
    pair.server.refuse_calls(abort::RESTARTING);
    assert_eq!(pair.server.let_go(pair.now), 5);
    pair.settle();
    assert_eq!(ends(&pair), [ConnectionEnd::Closed; 5]);
    assert_eq!(pair.server.connection_count(), 0);
    pair.run_for(Duration::from_secs(1000));
    assert_eq!(ends(&pair).len(), 5);
}

#[test]
fn idle_connection_ends_with_an_event_and_one_that_never_had_a_call_with_none() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let spoofed = std::net::SocketAddr::from(([10, 9, 9, 9], 7001));
    pair.inject(spoofed, &data_packet(EPOCH, 4, 1, 1, 1, true));
    let connection = pair.connect();
    pair.call(connection, b"hello".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert_eq!(pair.server.connection_count(), 2);
    pair.run_for(Duration::from_secs(800));
    assert_eq!(pair.server.connection_count(), 0);
    assert_eq!(ends(&pair), [ConnectionEnd::Idle]);
}

#[test]
fn connection_that_its_client_aborts_ends_by_that_alone() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    pair.call(connection, b"hello".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    pair.client.abort_connection(connection, 77);
    pair.run_for(Duration::from_secs(800));
    let aborted = |event: &&Event| matches!(event, Event::ConnectionAborted { code: 77, .. });
    assert_eq!(pair.server_events.iter().filter(aborted).count(), 1);
    assert!(ends(&pair).is_empty());
}

#[test]
fn displaced_connections_end_with_an_event() {
    let config = EndpointConfig { connections_max: 40, check_reach: false, ..small_config() };
    let mut pair = Pair::with(small_config(), config);
    for _ in 0..60 {
        let connection = pair.connect();
        pair.call(connection, b"hello".to_vec());
        pair.run_for(Duration::from_millis(100));
    }
    let displaced = pair.server.stats().connections_displaced as usize;
    assert!(displaced > 0);
    assert_eq!(ends(&pair), vec![ConnectionEnd::Displaced; displaced]);
}
