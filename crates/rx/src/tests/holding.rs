//! Tests of packets that the application holds: received ones, and rooms of packets to come.

use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Pair, data_packet, pattern, small_config};
use crate::ack::Ack;
use crate::header::{HEADER_LEN, PacketType};
use crate::{CallHandle, DeadReason, EndpointConfig, Event, ReadBatch, ReadError, WriteError};

const EPOCH: u32 = 0x8000_1234;

/// Delivers a call of `request` bytes to a server that has read nothing.
fn delivered(pair: &mut Pair, request: Vec<u8>) -> (CallHandle, CallHandle) {
    pair.server_sleeps = true;
    let connection = pair.connect();
    let call = pair.call(connection, request);
    pair.run_for(Duration::from_millis(100));
    (call, *pair.served.keys().next().expect("the call is delivered"))
}

fn hold(pair: &mut Pair, served: CallHandle, max: usize) -> Result<ReadBatch, ReadError> {
    pair.server.call(pair.now, served).ok_or(ReadError::End)?.hold(max)
}

/// Returns the data bytes of each of the packets of a direction, in order, each once.
fn data_sizes(pair: &Pair, from_server: bool) -> Vec<usize> {
    let mut sizes = std::collections::BTreeMap::new();
    let from = if from_server { pair.server_address } else { pair.client_address };
    for wire in pair.trace.iter().filter(|wire| wire.from == from && wire.header().kind == PacketType::Data) {
        sizes.insert(wire.header().seq, wire.payload().len());
    }
    sizes.into_values().collect()
}

#[test]
fn held_packets_keep_their_places_in_the_window_until_they_are_released() {
    let mut pair = Pair::new();
    let bytes = pattern(4_000_000);
    let (_, served) = delivered(&mut pair, bytes.clone());
    let window = pair.server.connection(served.connection).unwrap().calls().next().unwrap().receive_window();
    let batch = hold(&mut pair, served, usize::MAX).expect("there are bytes");
    assert_eq!(batch.packets() as u32, window.min(1000), "the whole window, or what one write takes");
    assert_eq!(hold(&mut pair, served, usize::MAX).unwrap_err(), ReadError::Held);
    pair.run_for(Duration::from_secs(5));
    let view = pair.server.connection(served.connection).unwrap().calls().next().unwrap();
    assert_eq!(view.receive_held(), batch.packets() as u32, "no packet more has been taken");
    let mut got = batch.slices().flatten().copied().collect::<Vec<_>>();
    pair.server.release(pair.now, served, batch);
    while got.len() < bytes.len() {
        pair.run_for(Duration::from_millis(20));
        while let Ok(batch) = hold(&mut pair, served, 100_000) {
            assert!(batch.len() <= 100_000);
            got.extend(batch.slices().flatten());
            pair.server.release(pair.now, served, batch);
        }
    }
    assert!(got == bytes);
    let mut live = pair.server.call(pair.now, served).expect("live");
    assert_eq!(live.read().unwrap_err(), ReadError::End);
    live.finish().expect("open");
    assert!(pair.run_calls(Duration::from_secs(5)));
    pair.assert_no_leaks();
}

#[test]
fn hold_takes_no_more_than_asked_and_the_rest_is_read_next() {
    let mut pair = Pair::new();
    let bytes = pattern(10_000);
    let (_, served) = delivered(&mut pair, bytes.clone());
    let mut at = 0;
    for want in [1, 20, 1500, 3000, 0, 1416, 2, usize::MAX] {
        let batch = hold(&mut pair, served, want).expect("there are bytes");
        let got: Vec<u8> = batch.slices().flatten().copied().collect();
        assert_eq!((got.len(), batch.len()), (want.min(10_000 - at), got.len()));
        assert!(got == bytes[at..at + got.len()], "at {at}");
        at += got.len();
        pair.server.release(pair.now, served, batch);
    }
    assert_eq!(hold(&mut pair, served, 1).unwrap_err(), ReadError::End);
}

/// Holds and reads at random, with releases in any order, over a path that loses every tenth packet: every
/// byte comes once and in order, within the window.
#[test]
fn any_order_of_holds_and_releases_gives_every_byte_once() {
    for seed in 0..60 {
        let mut rng = StdRng::seed_from_u64(seed);
        let extensions = seed % 3 > 0;
        let config = EndpointConfig { extensions, ..small_config() };
        let mut pair = Pair::with(config.clone(), config);
        let mut loss = StdRng::seed_from_u64(!seed);
        pair.filter = Some(Box::new(move |_| loss.random_range(0..10) > 0));
        let bytes = pattern(rng.random_range(1..600_000));
        let (_, served) = delivered(&mut pair, bytes.clone());
        let (mut got, mut held) = (Vec::new(), VecDeque::new());
        while got.len() < bytes.len() {
            pair.run_for(Duration::from_millis(rng.random_range(0..50)));
            match rng.random_range(0..4) {
                0 => {
                    let Some(mut live) = pair.server.call(pair.now, served) else {
                        panic!("seed {seed}: dead")
                    };
                    if let Ok(part) = live.read() {
                        let count = rng.random_range(0..=part.len());
                        got.extend_from_slice(&part[..count]);
                        live.consume(count);
                    }
                }
                1 | 2 => match hold(&mut pair, served, rng.random_range(0..60_000)) {
                    Ok(batch) => {
                        got.extend(batch.slices().flatten());
                        held.push_back(batch);
                    }
                    Err(ReadError::Blocked) => {}
                    Err(error) => {
                        assert!(error == ReadError::Held && !held.is_empty(), "seed {seed}: {error}")
                    }
                },
                _ if held.is_empty() => {}
                _ => {
                    let batch = held.remove(rng.random_range(0..held.len())).expect("one of them");
                    pair.server.release(pair.now, served, batch);
                }
            }
            let view = pair.server.connection(served.connection).unwrap().calls().next().unwrap();
            assert!(view.receive_held() <= view.receive_window(), "seed {seed}");
        }
        assert!(got == bytes, "seed {seed}");
        let pool = pair.server.pool();
        let packets: usize = held.iter().map(ReadBatch::packets).sum();
        assert_eq!(pool.allocated(), pool.free_count() + pool.in_use(), "seed {seed}");
        assert!(pool.in_use() >= packets, "seed {seed}");
        held.drain(..).for_each(|batch| pair.server.release(pair.now, served, batch));
        pair.server.call(pair.now, served).expect("live").finish().expect("open");
        assert!(pair.run_calls(Duration::from_secs(60)), "seed {seed}");
        pair.filter = None;
        pair.run_for(Duration::from_secs(60));
        pair.assert_no_leaks();
    }
}

#[test]
fn stock_sender_hears_no_hard_ack_of_what_is_held() {
    let mut pair = Pair::stock(EPOCH, 4, false);
    let (from, served) = (pair.client_address, *pair.served.keys().next().expect("delivered"));
    let hard_acks = |pair: &mut Pair, seqs: std::ops::Range<u32>| {
        for seq in seqs {
            pair.inject(from, &data_packet(EPOCH, 4, 1, seq, seq + 2, false));
        }
        pair.settle();
        pair.run_for(Duration::from_millis(200));
        let mut acks = pair.trace.iter().filter(|wire| wire.header().kind == PacketType::Ack);
        Ack::parse(acks.next_back().expect("an ACK").payload()).expect("valid").first
    };
    hard_acks(&mut pair, 2..9);
    let batch = hold(&mut pair, served, usize::MAX).expect("bytes");
    assert_eq!(batch.packets(), 8);
    assert_eq!(hard_acks(&mut pair, 9..13), 1, "none of the held ones is acknowledged for good");
    pair.server.release(pair.now, served, batch);
    assert_eq!(hard_acks(&mut pair, 13..15), 9);
}

#[test]
fn client_that_dies_while_its_packets_are_held_leaves_them_in_use_and_charged_until_released() {
    let mut pair = Pair::new();
    let (call, served) = delivered(&mut pair, pattern(300_000));
    let batch = hold(&mut pair, served, usize::MAX).expect("bytes");
    pair.client.call(pair.now, call).expect("live").abort(5);
    pair.run_for(Duration::from_millis(100));
    assert!(pair.server_events.contains(&Event::Aborted { call: served, code: 5 }));
    assert_eq!(pair.server.pool().in_use(), batch.packets());
    // Long enough for the connection and its peer to be forgotten.
    pair.run_for(Duration::from_secs(1500));
    assert_eq!(pair.server.connection_count(), 0);
    assert_eq!(pair.server.pool().in_use(), batch.packets());
    assert_eq!(pair.server.peers().count(), 1, "the account of its host is not given to another");
    pair.server.release(pair.now, served, batch);
    pair.run_for(Duration::from_secs(100));
    assert!(pair.server.pool().is_empty());
    pair.server.handle_timeout(pair.now);
}

#[test]
fn reader_busy_with_held_packets_does_not_count_as_an_idle_client() {
    let config = EndpointConfig { idle_time: Some(Duration::from_secs(60)), ..small_config() };
    let mut pair = Pair::with(small_config(), config);
    pair.server_sleeps = true;
    let connection = pair.connect();
    let call = pair.client.open_call(pair.now, connection).expect("a free channel");
    let written = pair.client.call(pair.now, call).expect("live").write(&pattern(100_000)).expect("room");
    pair.client.call(pair.now, call).expect("live").flush().expect("open");
    pair.run_for(Duration::from_secs(1));
    let served = *pair.served.keys().next().expect("delivered");
    let batch = hold(&mut pair, served, usize::MAX).expect("bytes");
    assert_eq!(batch.len(), written);
    pair.run_for(Duration::from_secs(300));
    assert!(pair.server.call(pair.now, served).is_some(), "the disk is slow, not the client");
    pair.server.release(pair.now, served, batch);
    assert_eq!(hold(&mut pair, served, 1).unwrap_err(), ReadError::Blocked);
    pair.run_for(Duration::from_secs(50));
    assert!(pair.server.call(pair.now, served).is_some());
    pair.run_for(Duration::from_secs(12));
    let idle = Event::Dead { call: served, reason: DeadReason::Idle };
    assert!(pair.server_events.contains(&idle), "{:?}", pair.server_events.last());
}

/// Fills `batch` with the next of `bytes`, and returns how many there were.
fn fill(batch: &mut crate::WriteBatch, bytes: &[u8]) -> usize {
    let mut filled = 0;
    for room in batch.payloads() {
        let count = room.len().min(bytes.len() - filled);
        room[..count].copy_from_slice(&bytes[filled..filled + count]);
        filled += count;
    }
    filled
}

#[test]
fn rooms_go_on_in_the_packet_that_a_small_write_began() {
    let mut pair = Pair::new();
    let (call, served) = delivered(&mut pair, b"fetch".to_vec());
    pair.keep_trace = true;
    let (head, body, tail) = (pattern(30), pattern(40_000), pattern(120));
    let mut live = pair.server.call(pair.now, served).expect("live");
    assert_eq!(live.write(&head), Ok(30));
    let mut at = 0;
    while at < body.len() {
        let mut live = pair.server.call(pair.now, served).expect("live");
        let mut batch = live.lend_batch((body.len() - at).min(11_111)).expect("room");
        // A read that comes short of its rooms.
        let filled = fill(&mut batch, &body[at..body.len().min(at + 9_999)]);
        at += filled;
        pair.server.call(pair.now, served).expect("live").commit_batch(batch, filled).expect("taken");
    }
    let mut live = pair.server.call(pair.now, served).expect("live");
    assert_eq!(live.write(&tail), Ok(120));
    live.finish().expect("open");
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert!(pair.transfers[&call].reply == [head, body, tail].concat());
    let sizes = data_sizes(&pair, true);
    let (last, full) = sizes.split_last().expect("packets");
    assert!(full.iter().all(|&size| size == 1444 - HEADER_LEN), "runts: {sizes:?}");
    assert_eq!(*last, 40_150 % (1444 - HEADER_LEN));
    pair.assert_no_leaks();
}

#[test]
fn rooms_given_up_leave_what_was_written_as_it_was() {
    let mut pair = Pair::new();
    let (call, served) = delivered(&mut pair, b"fetch".to_vec());
    for _ in 0..3 {
        let mut live = pair.server.call(pair.now, served).expect("live");
        assert_eq!(live.write(b"0123456789"), Ok(10));
        let batch = live.lend_batch(20_000).expect("room");
        assert_eq!(live.lend_batch(1).unwrap_err(), WriteError::Lent);
        assert_eq!(live.write(b"x"), Err(WriteError::Lent));
        assert_eq!((live.flush(), live.finish()), (Err(WriteError::Lent), Err(WriteError::Lent)));
        let in_use = pair.server.pool().in_use();
        let packets = batch.packets();
        let mut live = pair.server.call(pair.now, served).expect("live");
        live.commit_batch(batch, 0).expect("given up");
        assert_eq!(pair.server.pool().in_use(), in_use - packets + 1, "the packet begun stays");
    }
    pair.server.call(pair.now, served).expect("live").finish().expect("open");
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert_eq!(pair.transfers[&call].reply, b"0123456789".repeat(3));
    pair.assert_no_leaks();
}

#[test]
fn rooms_that_outlive_their_call_are_freed_when_they_come_back() {
    let mut pair = Pair::new();
    let (call, served) = delivered(&mut pair, b"fetch".to_vec());
    let mut live = pair.server.call(pair.now, served).expect("live");
    assert_eq!(live.write(b"head"), Ok(4));
    let batch = live.lend_batch(50_000).expect("room");
    pair.client.call(pair.now, call).expect("live").abort(5);
    pair.run_for(Duration::from_millis(100));
    assert!(pair.server.call(pair.now, served).is_none());
    assert_eq!(pair.server.pool().in_use(), batch.packets());
    pair.server.discard_batch(batch);
    pair.assert_no_leaks();
}

/// Opens calls of 200 clients that send a window and then neither send nor read: each holds its window at
/// most, and the pool keeps what others need.
#[test]
fn clients_that_open_calls_and_do_nothing_leave_buffers_to_others() {
    let config = EndpointConfig { packets: 2048, check_reach: false, ..EndpointConfig::default() };
    let mut pair = Pair::with(small_config(), config);
    pair.server_sleeps = true;
    let mut held = Vec::new();
    for client in 0..200u32 {
        let from = std::net::SocketAddr::from(([10, 1, (client >> 8) as u8, client as u8], 7001));
        for seq in 1..=60 {
            pair.inject(from, &data_packet(EPOCH, client << 2, 1, seq, seq, false));
        }
        pair.settle();
        let served = pair.served.keys().copied().filter(|call| !held.iter().any(|(known, _)| known == call));
        for served in served.collect::<Vec<_>>() {
            if let Ok(batch) = hold(&mut pair, served, usize::MAX) {
                held.push((served, batch));
            }
        }
        let pool = pair.server.pool();
        assert_eq!(pool.allocated(), pool.free_count() + pool.in_use());
    }
    assert!(!held.is_empty());
    assert!(pair.server.pool().free_count() >= 2048 / 16, "{} free", pair.server.pool().free_count());
    let connection = pair.connect();
    pair.server_sleeps = false;
    let call = pair.call(connection, pattern(20_000));
    pair.run_for(Duration::from_secs(2));
    assert!(pair.transfers[&call].done, "another client is served meanwhile");
    for (served, batch) in held {
        pair.server.release(pair.now, served, batch);
    }
    pair.run_for(Duration::from_secs(900));
    assert!(pair.server.pool().is_empty());
}
