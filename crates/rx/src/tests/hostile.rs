//! Tests of input that no honest peer sends: dropped or refused, counted, and without effect on other calls.

use std::net::SocketAddr;
use std::time::Duration;

use super::{ECHO, Pair, data_packet, packet, pattern, small_config};
use crate::ack::AckReason;
use crate::header::{HEADER_LEN, Header, PacketType, flags};
use crate::{EndpointConfig, Event, Service};

const EPOCH: u32 = 0x8000_4321;
/// Offset of the flags in a header.
const FLAGS_AT: usize = 21;

fn source(number: u32) -> SocketAddr {
    let [a, b, c, d] = number.to_be_bytes();
    SocketAddr::from(([10 + (a & 1), b, c, d], 7001))
}

/// Makes an ACK of a client's call, with the fields that matter here.
fn ack(pair_header: &Header, first: u32, window: u32, table: &[u8]) -> Vec<u8> {
    let mut payload = vec![0; 4];
    payload.extend(first.to_be_bytes());
    payload.extend([0; 8]);
    payload.push(AckReason::Idle as u8);
    payload.push(table.len() as u8);
    payload.extend_from_slice(table);
    payload.extend([0; 3]);
    for word in [1444, 1444, window, 1] {
        payload.extend(u32::to_be_bytes(word));
    }
    packet(pair_header, &payload)
}

/// Makes a server in the middle of a long reply to a silent stock client, with that client's ACK header.
fn replying() -> (Pair, Header) {
    let mut pair = Pair::stock(EPOCH, 4, true);
    let call = *pair.served.keys().next().expect("accepted");
    let mut live = pair.server.call(pair.now, call).expect("live");
    live.write(&pattern(100_000)).expect("room");
    pair.settle();
    let header = Header {
        kind: PacketType::Ack,
        flags: flags::CLIENT_INITIATED | flags::SLOW_START_OK,
        seq: 0,
        serial: 10,
        ..Header::parse(&data_packet(EPOCH, 4, 1, 1, 1, true)).expect("valid").0
    };
    (pair, header)
}

#[test]
fn acks_for_packets_never_sent_change_nothing() {
    let (mut pair, header) = replying();
    let from = pair.client_address;
    let before = pair.server.connections().next().expect("one").calls().next().expect("live").send_held();
    for bytes in [
        ack(&header, 1000, 32, &[]),
        ack(&header, u32::MAX, 32, &[]),
        ack(&header, 1, 32, &[1; 255]),
        ack(&header, 8, 32, &[0, 0, 0, 0, 1]),
    ] {
        pair.inject(from, &bytes);
    }
    assert_eq!(pair.server.stats().acks_never_sent, 4);
    let held = pair.server.connections().next().expect("one").calls().next().expect("live").send_held();
    assert_eq!(held, before);
    pair.inject(from, &ack(&header, 0, 32, &[]));
    assert_eq!(pair.server.stats().acks_stale, 1);
}

#[test]
fn extension_ranges_that_lie_are_refused() {
    let (mut pair, header) = replying();
    let from = pair.client_address;
    let with_ranges = |ranges: &[(u32, u32)]| {
        let mut bytes = ack(&header, 1, 32, &[]);
        bytes.extend(b"LNR1");
        bytes.extend([0, 0, 0, ranges.len() as u8]);
        bytes.extend(
            ranges.iter().flat_map(|(first, count)| [first.to_be_bytes(), count.to_be_bytes()]).flatten(),
        );
        bytes
    };
    for range in [(1u32, u32::MAX), (u32::MAX, 1), (5, 100_000)] {
        pair.inject(from, &with_ranges(&[range]));
    }
    assert_eq!(pair.server.stats().acks_never_sent, 3);
    for ranges in [&[(0, 1)][..], &[(2, 3); 64], &[(3, 2), (2, 1)], &[(2, 0)]] {
        pair.inject(from, &with_ranges(ranges));
    }
    assert_eq!(pair.server.stats().acks_disordered, 4);
}

#[test]
fn next_call_after_a_window_without_end_is_opened_within_bounds() {
    let (mut pair, header) = replying();
    let from = pair.client_address;
    let mut bytes = ack(&header, 1, u32::MAX, &[]);
    bytes.extend(b"LNR1");
    bytes.extend([0; 4]);
    pair.inject(from, &bytes);
    pair.inject(from, &data_packet(EPOCH, 8, 1, 1, 11, true));
    pair.settle();
    let edges = pair.server.connections().flat_map(|found| found.calls().collect::<Vec<_>>());
    assert!(edges.map(|call| call.send_edge()).all(|edge| edge <= 1 + crate::ack::WINDOW_MAX));
}

#[test]
fn window_of_zero_counts_as_one_and_does_not_stop_the_call() {
    let (mut pair, header) = replying();
    let from = pair.client_address;
    pair.inject(from, &ack(&header, 3, 0, &[]));
    let edge = pair.server.connections().next().expect("one").calls().next().expect("live").send_edge();
    assert_eq!(edge, 4);
}

#[test]
fn malformed_acks_are_counted_and_dropped() {
    let (mut pair, header) = replying();
    let from = pair.client_address;
    let whole = ack(&header, 1, 32, &[1, 0, 1]);
    for len in HEADER_LEN..HEADER_LEN + 21 {
        pair.inject(from, &whole[..len]);
    }
    assert_eq!(pair.server.stats().bad_acks, 21);
}

#[test]
fn truncated_and_unknown_packets_are_counted() {
    let mut pair = Pair::new();
    let from = pair.client_address;
    for len in 0..HEADER_LEN {
        pair.inject(from, &[1; HEADER_LEN][..len]);
    }
    pair.inject(from, &[0xff; 100]);
    assert_eq!(pair.server.stats().bad_headers, HEADER_LEN as u64 + 1);
    assert_eq!(pair.server.connection_count(), 0);
}

#[test]
fn sequence_numbers_out_of_reason_are_refused() {
    let mut pair = Pair::new();
    let from = pair.client_address;
    for seq in [0, 65, 1000, u32::MAX] {
        pair.inject(from, &data_packet(EPOCH, 4, 1, seq, 1, false));
    }
    assert_eq!(pair.server.connection_count(), 0);
    pair.server_sleeps = true;
    pair.inject(from, &data_packet(EPOCH, 4, 1, 1, 1, false));
    for seq in [0, u32::MAX] {
        pair.inject(from, &data_packet(EPOCH, 4, 1, seq, 2, false));
    }
    assert_eq!(pair.server.stats().bad_data, 2);
    pair.inject(from, &data_packet(EPOCH, 4, 1, 3, 3, true));
    pair.inject(from, &data_packet(EPOCH, 4, 1, 5, 4, false));
    pair.inject(from, &data_packet(EPOCH, 4, 1, 2, 5, true));
    assert_eq!(pair.server.stats().bad_data, 4);
}

#[test]
fn flood_from_spoofed_addresses_is_bounded_and_answered_with_no_more_than_it_sent() {
    let config = EndpointConfig { unproved_max: 100, check_reach: true, ..small_config() };
    let mut pair = Pair::with(small_config(), config);
    pair.keep_trace = true;
    let mut bytes_in = 0;
    for number in 0..5000 {
        let bytes = data_packet(EPOCH ^ number << 3, number * 4, 1, 1, 1, true);
        bytes_in += bytes.len();
        pair.inject(source(number), &bytes);
        if number % 50 == 0 {
            pair.settle();
        }
        assert!(pair.server.connection_count() <= 100);
        assert!(pair.server.timers_set() <= 4 * 100 + 1024 + 100, "wake-ups pile up");
    }
    pair.run_for(Duration::from_secs(30));
    let bytes_out: usize = pair.trace.iter().map(|wire| wire.bytes.len()).sum();
    assert!(bytes_out <= 3 * bytes_in, "{bytes_out} out for {bytes_in} in");
    assert!(pair.server.stats().cookies_sent >= 4900);
    assert!(pair.server_events.is_empty(), "no call of an unproved client is delivered");
    assert_eq!(pair.server.pool().in_use(), 0);
    assert!(pair.server.peers().count() <= 100);
}

#[test]
fn honest_client_is_served_after_one_reach_probe_even_for_the_smallest_request() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    pair.keep_trace = true;
    let connection = pair.connect();
    let call = pair.call(connection, b"1234".to_vec());
    assert!(pair.run_calls(Duration::from_millis(100)), "no retransmission may be needed");
    assert_eq!(pair.transfers[&call].reply, b"1234");
    let probe = &pair.trace[1];
    assert!(probe.header().kind == PacketType::Ack && probe.header().wants_ack());
    assert!(probe.bytes.len() <= 3 * pair.trace[0].bytes.len());
    let second = pair.call(connection, b"again".to_vec());
    assert!(pair.run_calls(Duration::from_millis(100)));
    assert_eq!(pair.transfers[&second].reply, b"again");
    let asked = |wire: &&super::Wire| wire.header().kind == PacketType::Ack && wire.header().wants_ack();
    assert_eq!(pair.trace.iter().filter(asked).filter(|wire| !wire.header().from_client()).count(), 1);
    pair.assert_no_leaks();
}

#[test]
fn reach_probe_is_repeated_after_a_quarter_second_and_then_ever_later_while_it_is_paid_for() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let from = pair.client_address;
    pair.keep_trace = true;
    let start = pair.now;
    let mut request = data_packet(EPOCH, 4, 1, 1, 1, true);
    request.resize(HEADER_LEN + 1_000, 0);
    pair.inject(from, &request);
    pair.settle();
    let mut seen = vec![Duration::ZERO];
    while pair.now < start + Duration::from_secs(9) {
        let before = pair.trace.len();
        pair.run_for(Duration::from_millis(10));
        let asks = pair.trace[before..].iter().filter(|wire| wire.header().wants_ack());
        seen.extend(asks.map(|_| pair.now - start));
    }
    let wanted = [0, 250, 750, 1_750, 3_750, 5_750, 7_750, 9_750].map(Duration::from_millis);
    assert_eq!(seen.len(), wanted.len(), "{seen:?}");
    assert!(
        seen.iter().zip(wanted).all(|(at, wanted)| at.abs_diff(wanted) <= Duration::from_millis(10)),
        "{seen:?}"
    );
    let sent: usize = pair.trace.iter().map(|wire| wire.bytes.len()).sum();
    assert!(sent <= request.len(), "{sent} bytes sent to an address that has not answered");
}

#[test]
fn request_without_a_byte_is_probed_with_no_more_than_three_times_a_header() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let from = pair.client_address;
    pair.keep_trace = true;
    let request = packet(&Header::parse(&data_packet(EPOCH, 4, 1, 1, 1, true)).expect("valid").0, &[]);
    assert_eq!(request.len(), HEADER_LEN);
    pair.inject(from, &request);
    pair.settle();
    let sent: usize = pair.trace.iter().map(|wire| wire.bytes.len()).sum();
    assert!(sent <= 3 * HEADER_LEN, "{sent} bytes");
    pair.answer_ping();
    pair.settle();
    assert_eq!(pair.served.len(), 1, "the answer proves the address");
}

#[test]
fn unproved_client_gets_three_times_its_bytes_at_most_even_without_the_reach_check() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    let from = pair.client_address;
    // The echo of a stock client that never acknowledges anything.
    pair.inject(from, &data_packet(EPOCH, 4, 1, 1, 1, true));
    pair.settle();
    let call = *pair.served.keys().next().expect("delivered");
    pair.run_for(Duration::from_secs(11));
    let sent: usize = pair.trace.iter().map(|wire| wire.bytes.len()).sum();
    assert!(sent <= 3 * (HEADER_LEN + 16), "{sent} bytes sent to {call:?}");
    assert!(pair.server.stats().amplification_limited > 0);
}

/// Sends every first packet that an unproved address may send: whatever becomes due and may not be sent has a
/// time at which it is tried again. [`Pair::step`] fails where that time has passed.
#[test]
fn what_is_due_and_may_not_be_sent_waits() {
    let bits =
        [0, flags::REQUEST_ACK, flags::LAST_PACKET, flags::REQUEST_ACK | flags::LAST_PACKET, 0x0f, 0xff];
    for check_reach in [false, true] {
        for bit in bits {
            for seqs in [&[1][..], &[2], &[1, 2], &[1, 1, 1], &[1, 3, 5, 7], &[1, 2, 3, 4, 5, 6]] {
                let mut pair = Pair::with(small_config(), EndpointConfig { check_reach, ..small_config() });
                let from = pair.client_address;
                pair.keep_trace = true;
                pair.server_sleeps = true;
                for (serial, &seq) in seqs.iter().enumerate() {
                    let mut bytes = data_packet(EPOCH, 4, 1, seq, serial as u32 + 1, false);
                    bytes[FLAGS_AT] |= bit;
                    pair.inject(from, &bytes);
                }
                let (mut turns, end) = (0, pair.now + Duration::from_secs(11));
                while pair.now < end && pair.step() {
                    turns += 1;
                }
                assert!(turns < 600, "{turns} turns after {seqs:?} with flags {bit:#x}");
                assert_eq!(pair.server.stats().timers_put_off, 0, "{seqs:?} with flags {bit:#x}");
            }
        }
    }
}

#[test]
fn aborts_to_one_source_are_limited() {
    let mut pair = Pair::new();
    let from = pair.client_address;
    let mut header = Header::parse(&data_packet(EPOCH, 4, 1, 1, 7, true)).expect("valid").0;
    header.service = 999;
    for call in 1..=500 {
        header.call = call;
        pair.inject(from, &packet(&header, b"1234"));
    }
    let limit = u64::from(pair.server.config().aborts_per_second);
    assert_eq!(pair.server.stats().aborts_sent, limit);
    assert_eq!(pair.server.stats().aborts_limited, 500 - limit);
    pair.settle();
    assert_eq!(pair.server.pool().in_use(), 0);
}

#[test]
fn wrong_security_index_on_a_known_connection_is_dropped() {
    let mut pair = Pair::new();
    pair.server_sleeps = true;
    let from = pair.client_address;
    pair.inject(from, &data_packet(EPOCH, 4, 1, 1, 1, false));
    let mut header = Header::parse(&data_packet(EPOCH, 4, 1, 2, 2, true)).expect("valid").0;
    header.security = 2;
    pair.inject(from, &packet(&header, b"x"));
    assert_eq!((pair.server.stats().wrong_security, pair.server.stats().data_received), (1, 1));
}

#[test]
fn packets_for_connections_that_do_not_exist_are_dropped_silently() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    let from = pair.client_address;
    let header = Header::parse(&data_packet(EPOCH, 4, 1, 1, 7, true)).expect("valid").0;
    for kind in [2u8, 3, 4, 5, 6, 7, 9, 10, 11, 12] {
        for flag in [0, flags::CLIENT_INITIATED] {
            let kind = PacketType::from_wire(kind).expect("known");
            pair.inject(from, &packet(&Header { kind, flags: flag, ..header }, &[0; 40]));
        }
    }
    pair.inject(from, &packet(&Header { flags: 0, ..header }, b"reply to nobody"));
    pair.settle();
    assert!(pair.trace.is_empty());
    assert_eq!(pair.server.stats().unknown_calls, 21);
}

#[test]
fn hostile_packets_on_one_call_leave_its_neighbours_unharmed() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    let call = pair.call(connection, pattern(300_000));
    let (epoch, cid) = pair.client.connection(connection).expect("open").id();
    let from = pair.client_address;
    let mut state = 99u32;
    let end = pair.now + Duration::from_secs(30);
    while pair.now < end && !pair.transfers[&call].done {
        // Packets of the same connection on another channel, of every type and with wild fields.
        for _ in 0..5 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let header = Header {
                epoch,
                cid: cid | 3,
                call: state >> 20 & 7,
                seq: state >> 8 & 0xff,
                serial: 1,
                kind: PacketType::from_wire((state >> 28) as u8 % 6 + 1).expect("known"),
                flags: flags::CLIENT_INITIATED | (state >> 16) as u8,
                user_status: state as u8,
                security: 0,
                checksum: 0,
                service: ECHO,
            };
            if header.call == 0 {
                continue;
            }
            pair.inject(from, &packet(&header, &state.to_be_bytes().repeat(20)));
        }
        pair.step();
    }
    assert!(pair.transfers[&call].reply == pattern(300_000), "bytes differ");
}

#[test]
fn connection_limit_holds_for_both_sides() {
    let config = EndpointConfig { connections_max: 3, ..small_config() };
    let mut pair = Pair::with(config.clone(), config);
    pair.server.add_service(1, Service::default());
    for _ in 0..3 {
        pair.connect();
    }
    let (now, server) = (pair.now, pair.server_address);
    let refused = pair.client.connect(
        now,
        server,
        ECHO,
        0,
        Box::new(crate::security::NullSecurity),
        crate::ConnectOptions::default(),
    );
    assert_eq!(refused.map_err(|error| error.limit), Err(3));
    for number in 0..10 {
        pair.inject(source(number), &data_packet(EPOCH + number, 4, 1, 1, 1, true));
        pair.settle();
    }
    assert!(pair.server.connection_count() <= 3);
}

#[test]
fn pool_that_runs_dry_blocks_writers_and_recovers() {
    let config = EndpointConfig { packets: 128, ..small_config() };
    let mut pair = Pair::with(config.clone(), config);
    let connections = [pair.connect(), pair.connect(), pair.connect()];
    for connection in connections {
        for _ in 0..4 {
            pair.call(connection, pattern(200_000));
        }
    }
    assert!(pair.run_calls(Duration::from_secs(120)));
    assert!(pair.transfers.values().all(|transfer| transfer.reply == pattern(200_000)));
    assert!(!pair.client_events.iter().any(|event| matches!(event, Event::Dead { .. })));
    pair.assert_no_leaks();
}
