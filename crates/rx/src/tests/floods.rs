//! Tests of strangers' packets that come faster than clients' own: answers to them have a share of each turn
//! and no more.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Pair, data_packet, packet, pattern, small_config};
use crate::EndpointConfig;
use crate::header::{Header, PacketType, flags};

const EPOCH: u32 = 0x8000_4321;

fn stranger(number: u32) -> SocketAddr {
    let [_, b, c, d] = number.to_be_bytes();
    SocketAddr::from(([100, b, c, d], 7001))
}

/// Makes a VERSION question as in a peer's NAT keep-alive or from `rxdebug -version`.
fn version_question(number: u32) -> Vec<u8> {
    let first = Header::parse(&data_packet(EPOCH, number << 2, 0, 0, number, false)).expect("valid").0;
    packet(&Header { kind: PacketType::Version, flags: flags::CLIENT_INITIATED, ..first }, &[0])
}

fn checked() -> Pair {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    pair.keep_trace = true;
    pair
}

/// Makes the first packet of a call on a connection of its own.
fn newcomer(number: u32) -> Vec<u8> {
    data_packet(EPOCH ^ number << 3, number << 2, 1, 1, 1, true)
}

/// Makes a packet of a connection that never existed.
fn ack_of_nothing(number: u32) -> Vec<u8> {
    let first = Header::parse(&newcomer(number)).expect("valid").0;
    packet(&Header { kind: PacketType::Ack, flags: flags::CLIENT_INITIATED, ..first }, &[0; 40])
}

/// Makes a call of a service that is not offered.
fn unknown_service(number: u32) -> Vec<u8> {
    let first = Header::parse(&newcomer(number)).expect("valid").0;
    packet(&Header { service: 999, ..first }, b"1234")
}

fn sent_to_strangers(pair: &Pair) -> usize {
    let (client, server) = (pair.client_address, pair.server_address);
    pair.trace.iter().filter(|wire| wire.to != client && wire.to != server).count()
}

const KINDS: [fn(u32) -> Vec<u8>; 4] = [version_question, newcomer, ack_of_nothing, unknown_service];

#[test]
fn strangers_of_one_turn_have_a_bounded_number_of_answers_and_of_connections() {
    for kind in KINDS {
        let mut pair = checked();
        for number in 1..=2_000 {
            pair.inject(stranger(number), &kind(number));
        }
        pair.settle();
        let made = pair.server.connection_count();
        assert!(sent_to_strangers(&pair) <= 64 && made <= 64, "{} and {made}", sent_to_strangers(&pair));
        let stats = pair.server.stats();
        assert!(stats.strangers_limited + stats.unknown_calls >= 1_900, "{stats:?}");
    }
}

/// Runs a client of many small calls beside strangers, and returns the turns and all that the client got in
/// them.
fn calls_beside(strangers: Option<fn(u32) -> Vec<u8>>) -> (u32, Duration, Pair) {
    let mut pair = checked();
    pair.latency = Duration::from_millis(1);
    let connections: Vec<_> = (0..4).map(|_| pair.connect()).collect();
    let first = pair.call(connections[0], b"prove it".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    pair.transfers.remove(&first);
    let (began, mut number, mut calls, mut turns) = (pair.now, 0, 0, 0);
    pair.trace.clear();
    while calls < 1_600 {
        for &connection in &connections {
            while let Ok(call) = pair.client.open_call(pair.now, connection) {
                let mut live = pair.client.call(pair.now, call).expect("live");
                live.write(&pattern(400)).expect("room");
                live.finish().expect("live");
                pair.transfers.insert(call, super::Transfer::default());
            }
        }
        // Both come in one turn.
        for _ in 0..strangers.map_or(0, |_| STRANGERS_A_TURN) {
            number += 1;
            pair.inject(stranger(number), &strangers.expect("some come")(number));
        }
        pair.settle();
        turns += 1;
        let open = pair.transfers.len();
        pair.transfers.retain(|_, transfer| !transfer.done);
        calls += open - pair.transfers.len();
        pair.now += Duration::from_millis(1);
    }
    (turns, pair.now - began, pair)
}

const STRANGERS_A_TURN: u32 = 200;

#[test]
fn a_client_makes_as_many_calls_a_turn_beside_a_flood_as_alone() {
    let (turns_alone, time_alone, _) = calls_beside(None);
    for kind in KINDS {
        let (turns, time, pair) = calls_beside(Some(kind));
        assert_eq!((turns, time), (turns_alone, time_alone));
        let answered = sent_to_strangers(&pair);
        assert!(answered as u32 <= 9 * turns, "{answered} of {} answered in {turns} turns", turns * 200);
        assert!(pair.server.connection_count() <= 4 + 9 * turns as usize);
        let stats = pair.server.stats();
        let questions = stats.answers_limited + stats.aborts_limited + stats.unknown_calls;
        assert_eq!(
            stats.strangers_limited + questions + answered as u64,
            u64::from(turns * STRANGERS_A_TURN)
        );
    }
}

#[test]
fn a_newcomer_beside_a_flood_and_a_busy_client_is_served_by_its_repeated_request() {
    let mut pair = checked();
    let busy = pair.connect();
    pair.call(busy, b"prove it".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    let (epoch, cid) = pair.client.connection(busy).expect("open").id();
    let honest = stranger(9_999_999);
    let mut asked = 0;
    for turn in 0..2_000 {
        (0..99).for_each(|n| pair.inject(stranger(turn * 99 + n), &newcomer(turn * 99 + n)));
        // Last of its turn, each time.
        pair.inject(honest, &newcomer(9_999_999));
        asked += 1;
        let client = pair.client_address;
        pair.inject(client, &data_packet(epoch, cid, 1, 1, turn + 100, true));
        pair.settle();
        if pair.trace.iter().any(|wire| wire.to == honest) {
            break;
        }
        pair.now += Duration::from_millis(1);
    }
    assert!(pair.trace.iter().any(|wire| wire.to == honest), "asked {asked} times");
}

#[test]
fn a_timer_that_ran_is_not_due_again_whatever_came_of_strangers() {
    let mut pair = checked();
    (1..=40).for_each(|number| pair.inject(stranger(number), &newcomer(number)));
    pair.settle();
    let mut held = pair.server.connection_count();
    assert!(held > 0);
    while held > 0 {
        let at = pair.server.poll_timeout().expect("a stranger is not kept for ever");
        pair.server.handle_timeout(at);
        while let Some(transmit) = pair.server.poll_transmit(at) {
            pair.server.transmit_done(transmit);
        }
        assert!(pair.server.poll_timeout().is_none_or(|next| next > at), "{held} strangers were there");
        held = pair.server.connection_count();
    }
    assert_eq!(pair.server.pool().free_count(), pair.server.pool().allocated());
}
