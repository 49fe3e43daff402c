//! Tests of resending over a network that loses chosen packets.

use std::time::Duration;

use super::{Pair, Wire, pattern};
use crate::header::PacketType;

/// Loses the packets for which `pick` holds, each only the first time.
fn lose(pair: &mut Pair, mut pick: impl FnMut(&Wire) -> bool + 'static) {
    pair.filter = Some(Box::new(move |wire| !pick(wire)));
}

fn is_reply(wire: &Wire, seq: u32) -> bool {
    let header = wire.header();
    header.kind == PacketType::Data && !header.from_client() && header.seq == seq
}

/// Runs an echo of `len` bytes whose reply packets `seqs` are lost the first time.
fn echo_losing(len: usize, seqs: &'static [u32]) -> Pair {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    let connection = pair.connect();
    pair.call(connection, b"warm up the round-trip estimate".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    let mut lost = Vec::new();
    lose(&mut pair, move |wire| {
        let seq = wire.header().seq;
        let first_time = seqs.contains(&seq) && is_reply(wire, seq) && !lost.contains(&seq);
        if first_time {
            lost.push(seq);
        }
        first_time
    });
    let call = pair.call(connection, pattern(len));
    assert!(pair.run_calls(Duration::from_secs(60)));
    assert!(pair.transfers[&call].reply == pattern(len), "bytes differ");
    pair
}

#[test]
fn only_the_lost_packets_are_resent() {
    let mut pair = echo_losing(400_000, &[20, 21, 150, 200]);
    assert_eq!(pair.server.stats().resends, 4);
    assert_eq!((pair.server.stats().resends_spurious, pair.server.stats().timeouts), (0, 0));
    pair.assert_no_leaks();
}

#[test]
fn losses_beyond_the_soft_ack_table_are_seen_through_the_extension() {
    let gaps: &[u32] = &[300, 301, 700, 702, 704, 900];
    let mut pair = echo_losing(2 << 20, gaps);
    assert_eq!(pair.server.stats().resends, gaps.len() as u64);
    assert_eq!(pair.server.stats().resends_spurious, 0);
    pair.assert_no_leaks();
}

#[test]
fn tail_loss_is_probed_for_before_anything_is_resent() {
    // 141 full packets and a bit; the last three are lost, so nothing after them tells of it.
    let mut pair = echo_losing(1416 * 141 + 5, &[140, 141, 142]);
    let stats = pair.server.stats();
    assert!(stats.tail_probes >= 1);
    assert_eq!((stats.resends, stats.resends_spurious, stats.timeouts), (3, 0, 0));
    pair.assert_no_leaks();
}

#[test]
fn lost_request_is_resent_after_the_timeout() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    let mut left = 1;
    lose(&mut pair, move |_| std::mem::take(&mut left) == 1);
    let call = pair.call(connection, b"lost at first".to_vec());
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert_eq!(pair.transfers[&call].reply, b"lost at first");
    assert_eq!((pair.client.stats().timeouts, pair.client.stats().resends), (1, 1));
    pair.assert_no_leaks();
}

#[test]
fn late_packet_counts_as_spurious_resend_and_is_kept_once() {
    let mut pair = echo_losing(200_000, &[]);
    // Hold one reply packet back until its resend has gone out.
    let connection = pair.connect();
    let held: std::rc::Rc<std::cell::RefCell<Option<Wire>>> = std::rc::Rc::default();
    let keep = held.clone();
    let mut done = false;
    lose(&mut pair, move |wire| {
        let hit = !done && is_reply(wire, 50);
        if hit {
            done = true;
            *keep.borrow_mut() = Some(wire.clone());
        }
        hit
    });
    let call = pair.call(connection, pattern(200_000));
    let before = pair.server.stats().resends;
    assert!(pair.run_until(Duration::from_secs(5), |pair| pair.server.stats().resends > before));
    let late = held.borrow_mut().take().expect("held back");
    pair.client.handle_datagram(pair.now, late.from, None, &late.bytes);
    assert!(pair.run_calls(Duration::from_secs(30)));
    assert!(pair.transfers[&call].reply == pattern(200_000), "bytes differ");
    assert_eq!(pair.server.stats().resends, before + 1);
    assert_eq!(pair.server.stats().resends_spurious, 1);
    pair.assert_no_leaks();
    // The next call of the peer, on whichever connection, allows for as much from its first packet on.
    let learnt = pair.server.peer_at(pair.client_address).expect("known").reordering(pair.now);
    assert!(learnt.is_some_and(|quarters| quarters > 1), "{learnt:?}");
    pair.server_sleeps = true;
    let connection = pair.connect();
    pair.call(connection, pattern(10));
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.server.reordering_expected(), vec![learnt]);
}

#[test]
fn a_fifth_of_all_packets_lost_still_delivers_everything() {
    let mut pair = Pair::new();
    let mut state = 7u32;
    lose(&mut pair, move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 24 < 51
    });
    let connection = pair.connect();
    let call = pair.call(connection, pattern(300_000));
    assert!(pair.run_calls(Duration::from_secs(300)));
    assert!(pair.transfers[&call].reply == pattern(300_000), "bytes differ");
    pair.filter = None;
    pair.run_for(Duration::from_secs(30));
    pair.assert_no_leaks();
}

#[test]
fn peer_that_vanishes_mid_call_is_given_up_and_nothing_leaks() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    pair.call(connection, pattern(1 << 20));
    pair.run_for(Duration::from_millis(40));
    lose(&mut pair, |_| true);
    pair.run_for(Duration::from_secs(20));
    let dead = |events: &[crate::Event]| {
        events
            .iter()
            .any(|event| matches!(event, crate::Event::Dead { reason: crate::DeadReason::Silent, .. }))
    };
    assert!(dead(&pair.client_events) && dead(&pair.server_events));
    pair.assert_no_leaks();
}
