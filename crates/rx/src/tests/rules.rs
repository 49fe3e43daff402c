//! Tests of the protocol's rules, one each.

use std::time::Duration;

use super::{ECHO, Pair, Wire, data_packet, packet, pattern, small_config};
use crate::ack::{Ack, AckReason};
use crate::header::{Header, PacketType, SERVICE_UPGRADE, flags};
use crate::security::NullSecurity;
use crate::{DeadReason, Endpoint, EndpointConfig, Event, Limits, Service, abort};

fn acks(trace: &[Wire]) -> Vec<(Header, Vec<u8>)> {
    let acks = trace.iter().filter(|wire| wire.header().kind == PacketType::Ack);
    acks.map(|wire| (wire.header(), wire.payload().to_vec())).collect()
}

/// Returns the server's answers to a stock client's packets.
fn answers(pair: &mut Pair) -> Vec<Wire> {
    pair.keep_trace = true;
    let from = pair.trace.len();
    pair.settle();
    pair.trace[from..].to_vec()
}

const EPOCH: u32 = 0x8000_1234;

#[test]
fn stock_client_gets_an_ack_for_every_second_packet_and_a_window_of_255() {
    let mut pair = Pair::stock(EPOCH, 4, false);
    let from = pair.client_address;
    pair.inject(from, &data_packet(EPOCH, 4, 1, 2, 2, false));
    pair.inject(from, &data_packet(EPOCH, 4, 1, 3, 3, false));
    let sent = acks(&answers(&mut pair));
    assert_eq!(sent.len(), 1);
    let ack = Ack::parse(&sent[0].1).expect("valid");
    assert_eq!((ack.first, ack.serial, ack.reason), (1, 3, AckReason::Idle));
    assert_eq!(ack.table, [1, 1, 1], "unread packets are soft-acknowledged");
    let trailer = ack.trailer.expect("trailer");
    assert_eq!((trailer.window, trailer.jumbo_max), (255, 0));
}

#[test]
fn gap_duplicate_and_overrun_are_answered_at_once() {
    let mut pair = Pair::stock(EPOCH, 4, false);
    let from = pair.client_address;
    let mut reason_for = |seq: u32, serial: u32| {
        pair.inject(from, &data_packet(EPOCH, 4, 1, seq, serial, false));
        let sent = acks(&answers(&mut pair));
        let ack = Ack::parse(&sent.last()?.1).expect("valid");
        Some((ack.reason, ack.serial))
    };
    assert_eq!(reason_for(3, 2), Some((AckReason::OutOfSequence, 2)));
    assert_eq!(reason_for(3, 3), Some((AckReason::Duplicate, 3)));
    assert_eq!(reason_for(300, 4), Some((AckReason::ExceedsWindow, 4)));
}

#[test]
fn stock_sender_hears_of_each_packet_behind_a_gap_though_they_came_together() {
    let mut pair = Pair::stock(EPOCH, 4, false);
    let from = pair.client_address;
    for (seq, serial) in [(2, 2), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)] {
        pair.inject(from, &data_packet(EPOCH, 4, 1, seq, serial, false));
    }
    let sent = acks(&answers(&mut pair));
    assert_eq!(sent.len(), 3, "its third resends packet 3");
    for (_, payload) in &sent {
        let ack = Ack::parse(payload).expect("valid");
        assert_eq!((ack.reason, ack.table), (AckReason::OutOfSequence, &[1, 1, 0, 1, 1, 1, 1, 1][..]));
    }
    assert!(acks(&answers(&mut pair)).is_empty());
}

/// Returns the ACKs that a server sends in the second after the packets `seqs` of a stock client.
///
/// Packet 9 is the last of the stream. Each ACK has its delay behind the packets, and its soft ACKs.
fn said_into_silence(seqs: &[u32]) -> Vec<(Duration, Vec<u8>)> {
    let mut pair = Pair::stock(EPOCH, 4, false);
    let (from, start) = (pair.client_address, pair.now);
    for &seq in seqs {
        pair.inject(from, &data_packet(EPOCH, 4, 1, seq, seq, seq == 9));
    }
    let mut said = Vec::new();
    while pair.now < start + Duration::from_secs(1) {
        for (_, payload) in acks(&answers(&mut pair)) {
            said.push((pair.now - start, Ack::parse(&payload).expect("valid").table.to_vec()));
        }
        pair.now += Duration::from_millis(1);
    }
    said
}

#[test]
fn stock_sender_that_falls_silent_behind_a_gap_hears_of_it_three_times_before_its_timeout() {
    let said = said_into_silence(&[2, 4]);
    assert_eq!(said.len(), 5, "at once, twice more, and two for those that are lost: {said:?}");
    assert!(said.iter().all(|(_, table)| table == &[1, 1, 0, 1]), "{said:?}");
    assert!(said[0].0.is_zero() && said[2].0 <= Duration::from_millis(120), "{said:?}");
}

#[test]
fn stock_sender_that_falls_silent_in_order_hears_once_more_and_at_the_end_of_its_stream_no_more() {
    let said = said_into_silence(&[2, 3]);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[1].0 <= Duration::from_millis(60), "{said:?}");
    let whole = said_into_silence(&[2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(whole.len(), 1, "{whole:?}");
}

#[test]
fn lone_packet_is_acknowledged_after_the_delay() {
    let mut pair = Pair::stock(EPOCH, 4, true);
    let asked = acks(&pair.trace).len();
    assert!(acks(&answers(&mut pair)).is_empty());
    pair.run_for(Duration::from_millis(101));
    let reasons: Vec<_> = acks(&pair.trace)[asked..]
        .iter()
        .map(|(_, payload)| Ack::parse(payload).expect("valid").reason)
        .collect();
    assert_eq!(reasons, [AckReason::Delay]);
}

#[test]
fn ping_is_answered_with_its_serial() {
    let mut pair = Pair::stock(EPOCH, 4, false);
    let from = pair.client_address;
    let mut header = Header::parse(&data_packet(EPOCH, 4, 1, 0, 77, false)).expect("valid").0;
    header.kind = PacketType::Ack;
    header.flags = flags::CLIENT_INITIATED | flags::REQUEST_ACK;
    let mut payload = vec![0; 18];
    payload[7] = 1;
    payload[16] = AckReason::Ping as u8;
    pair.inject(from, &packet(&header, &payload));
    let sent = acks(&answers(&mut pair));
    let ack = Ack::parse(&sent[0].1).expect("valid");
    assert_eq!((ack.reason, ack.serial), (AckReason::PingResponse, 77));
}

#[test]
fn last_reply_packet_never_asks_for_an_ack() {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    let connection = pair.connect();
    for size in [5, 50_000] {
        pair.call(connection, pattern(size));
        assert!(pair.run_calls(Duration::from_secs(5)));
    }
    let mut lasts =
        pair.trace.iter().map(Wire::header).filter(|header| header.is_last() && !header.from_client());
    assert!(lasts.all(|header| !header.wants_ack()));
}

#[test]
fn newer_call_on_a_busy_channel_gets_busy_and_ends_the_older() {
    let mut pair = Pair::new();
    pair.server_sleeps = true;
    let from = pair.client_address;
    pair.inject(from, &data_packet(EPOCH, 4, 1, 1, 1, true));
    pair.settle();
    pair.inject(from, &data_packet(EPOCH, 4, 2, 1, 2, true));
    let sent = answers(&mut pair);
    assert_eq!(sent.iter().filter(|wire| wire.header().kind == PacketType::Busy).count(), 1);
    assert!(matches!(pair.server_events.last(), Some(Event::Dead { reason: DeadReason::Replaced, .. })));
    pair.inject(from, &data_packet(EPOCH, 4, 2, 1, 3, true));
    pair.settle();
    assert_eq!(pair.server.stats().calls_accepted, 2);
}

#[test]
fn next_call_acknowledges_the_last_reply() {
    let mut pair = Pair::new();
    let from = pair.client_address;
    pair.inject(from, &data_packet(EPOCH, 4, 1, 1, 1, true));
    pair.settle();
    assert_eq!(pair.server.stats().calls_finished, 0);
    pair.inject(from, &data_packet(EPOCH, 4, 2, 1, 2, true));
    pair.settle();
    assert_eq!(pair.server.stats().calls_finished, 1);
    assert_eq!(pair.server.stats().busies_sent, 0);
}

#[test]
fn replayed_call_is_not_run_again() {
    let mut pair = Pair::new();
    let from = pair.client_address;
    for (call, serial) in [(1, 1), (2, 2), (1, 3), (1, 1), (2, 2)] {
        pair.inject(from, &data_packet(EPOCH, 4, call, 1, serial, true));
        pair.settle();
    }
    assert_eq!(pair.server.stats().calls_accepted, 2);
    assert_eq!(pair.server.stats().old_calls, 2);
}

#[test]
fn upgrade_is_granted_where_the_service_has_a_newer_version() {
    let mut pair = Pair::new();
    pair.server.add_service(ECHO, Service { upgrade_to: Some(2500), ..Service::default() });
    pair.server.add_service(2500, Service::default());
    let (now, server) = (pair.now, pair.server_address);
    let connection = pair
        .client
        .connect(
            now,
            server,
            ECHO,
            0,
            Box::new(NullSecurity),
            crate::ConnectOptions { upgrade: true, ..crate::ConnectOptions::default() },
        )
        .expect("room for a connection");
    pair.keep_trace = true;
    pair.call(connection, b"capabilities?".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert_eq!(pair.trace[0].header().user_status, SERVICE_UPGRADE);
    assert!(pair.server_events.iter().any(|event| matches!(event, Event::NewCall { service: 2500, .. })));
    assert_eq!(pair.client.connection(connection).expect("open").service(), 2500);
    let call = pair.call(connection, b"again".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert_eq!(pair.transfers[&call].reply, b"again");
    assert_eq!(pair.trace.last().expect("packets").header().user_status, 0);
}

#[test]
fn abort_ends_the_call_on_both_sides_with_its_code() {
    let mut pair = Pair::new();
    pair.server_sleeps = true;
    let connection = pair.connect();
    let call = pair.call(connection, pattern(100_000));
    pair.run_for(Duration::from_millis(50));
    let served = *pair.served.keys().next().expect("accepted");
    pair.server.call(pair.now, served).expect("live").abort(1234);
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert!(pair.client_events.contains(&Event::Aborted { call, code: 1234 }));
    pair.assert_no_leaks();
}

#[test]
fn silent_application_does_not_time_its_client_out_while_pings_are_answered() {
    let mut pair = Pair::with(small_config(), EndpointConfig { idle_time: None, ..small_config() });
    pair.server_sleeps = true;
    let dead_time = pair.client.config().dead_time;
    let connection = pair.connect();
    pair.call(connection, b"patience".to_vec());
    pair.run_for(dead_time * 3);
    assert!(pair.client.stats().pings_sent >= 6);
    pair.run_for(Duration::from_secs(600));
    assert!(!pair.client_events.iter().any(|event| matches!(event, Event::Dead { .. })));
}

#[test]
fn limits_of_one_connection_end_its_calls_and_nobody_elses() {
    let mut pair = Pair::with(small_config(), EndpointConfig { idle_time: None, ..small_config() });
    pair.server_sleeps = true;
    let (patient, hasty) = (pair.connect(), pair.connect());
    let patient = pair.call(patient, b"patience".to_vec());
    let call = pair.call(hasty, b"haste".to_vec());
    pair.run_for(Duration::from_secs(1));
    let limits = pair.client.connection(hasty).expect("open").limits();
    assert_eq!(limits.idle_time, None, "no idle limit for clients unless they ask");
    assert!(pair.client.set_limits(hasty, Limits { idle_time: Some(Duration::from_secs(5)), ..limits }));
    pair.run_for(Duration::from_secs(6));
    assert!(pair.client_events.contains(&Event::Dead { call, reason: DeadReason::Idle }));
    assert!(!pair.transfers[&patient].done);
}

#[test]
fn call_numbers_end_before_they_wrap_and_the_connection_says_so() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    pair.client.set_call_numbers(connection, [i32::MAX as u32 - 1; 4]);
    for left in (0..4).rev() {
        let call = pair.call(connection, b"one of the last".to_vec());
        assert_eq!(call.number, i32::MAX as u32);
        assert!(pair.run_calls(Duration::from_secs(5)), "{left} to go");
    }
    assert_eq!(pair.client.open_call(pair.now, connection), Err(crate::OpenError::UsedUp));
}

#[test]
fn ack_that_the_budget_refused_goes_out_with_the_next_packet_that_pays() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let from = pair.client_address;
    let (mut first, mut second) =
        (data_packet(EPOCH, 4, 1, 1, 1, false), data_packet(EPOCH, 4, 1, 2, 2, false));
    // Two packets of 32 bytes ask for an ACK of 63 or more, after the probe has taken its share.
    first.truncate(32);
    second.truncate(32);
    pair.inject(from, &first);
    pair.settle();
    pair.inject(from, &second);
    assert!(acks(&answers(&mut pair)).is_empty());
    assert!(pair.server.stats().amplification_limited > 0);
    let mut far = data_packet(EPOCH, 4, 1, 4, 4, false);
    far.resize(400, 0);
    pair.inject(from, &far);
    let sent = acks(&answers(&mut pair));
    let ack = Ack::parse(&sent.last().expect("an ACK").1).expect("valid");
    assert_eq!((ack.first, ack.table), (1, &[1, 1, 0, 1][..]));
}

#[test]
fn refused_ack_is_repeated_without_another_packet() {
    let mut pair = Pair::stock(EPOCH, 4, false);
    let from = pair.client_address;
    let held = pair.server.take_all_packets();
    pair.inject(from, &data_packet(EPOCH, 4, 1, 300, 2, false));
    assert!(acks(&answers(&mut pair)).is_empty(), "no buffer for it");
    pair.server.give_packets(held);
    pair.run_for(Duration::from_millis(150));
    let reasons = acks(&pair.trace);
    let mut reasons = reasons.iter().map(|(_, payload)| Ack::parse(payload).expect("valid").reason);
    assert!(reasons.any(|reason| reason == AckReason::ExceedsWindow), "once there is a buffer");
}

#[test]
fn serial_proves_an_address_after_half_the_circle_too() {
    let mut pair = Pair::new();
    pair.server_sleeps = true;
    let connection = pair.connect();
    pair.call(connection, b"hello".to_vec());
    pair.run_for(Duration::from_millis(200));
    let server = pair.server.connections().next().expect("one").handle();
    for _ in 0..4 {
        // The server sends a billion packets, and the client acknowledges the last.
        pair.server.skip_serials(server, 1 << 30);
        pair.run_for(Duration::from_secs(3));
        let proved = pair.server.peer_at(pair.client_address).expect("known");
        assert!(proved.is_proved(pair.now, Duration::from_secs(3)), "the proof was renewed");
    }
}

#[test]
fn idle_connections_of_peers_are_reaped_and_taken_up_again() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    pair.call(connection, b"one".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    pair.run_for(Duration::from_secs(800));
    // Its opener has it until it closes it.
    assert_eq!((pair.client.connection_count(), pair.server.connection_count()), (1, 0));
    assert_eq!(pair.server.peers().count(), 0);
    pair.call(connection, b"two".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    pair.client.close(pair.now, connection);
    assert_eq!(pair.client.connection_count(), 0);
    assert_eq!(pair.client.open_call(pair.now, connection), Err(crate::OpenError::Gone));
}

#[test]
fn reader_that_stops_stops_the_sender_and_starts_it_again() {
    let mut pair = Pair::with(
        EndpointConfig { receive_window: 300, idle_time: None, ..small_config() },
        EndpointConfig { idle_time: None, ..small_config() },
    );
    let connection = pair.connect();
    let call = pair.call(connection, pattern(1 << 20));
    pair.run_for(Duration::from_millis(25));
    pair.client_sleeps = true;
    pair.run_for(Duration::from_secs(5));
    let held = pair.client.connections().next().expect("open").calls().next().expect("live").receive_held();
    assert!((200..=300).contains(&held), "{held} packets held");
    assert_eq!(pair.server.stats().resends, 0);
    pair.client_sleeps = false;
    let mut transfer = pair.transfers.remove(&call).expect("known");
    super::pump_reads(&mut pair.client, pair.now, call, &mut transfer, true);
    pair.transfers.insert(call, transfer);
    assert!(pair.run_calls(Duration::from_secs(60)));
    assert!(pair.transfers[&call].reply == pattern(1 << 20), "bytes differ");
    pair.assert_no_leaks();
}

#[test]
fn reply_finished_early_leaves_once_the_request_is_whole() {
    let mut pair = Pair::new();
    pair.server_sleeps = true;
    pair.keep_trace = true;
    let connection = pair.connect();
    let call = pair.call(connection, pattern(2 << 20));
    pair.run_for(Duration::from_millis(20));
    let served = *pair.served.keys().next().expect("accepted");
    let mut live = pair.server.call(pair.now, served).expect("live");
    live.write(b"no need for the rest").expect("room");
    live.finish().expect("open");
    assert!(pair.run_calls(Duration::from_secs(30)));
    assert_eq!(pair.transfers[&call].reply, b"no need for the rest");
    let data = |client: bool| {
        pair.trace.iter().position(|wire| {
            let header = wire.header();
            header.kind == PacketType::Data && header.is_last() && header.from_client() == client
        })
    };
    assert!(data(true) < data(false));
    pair.assert_no_leaks();
}

#[test]
fn client_ids_belong_to_their_lane() {
    let now = std::time::Instant::now();
    let config = EndpointConfig { lane: 2, lanes: 3, ..small_config() };
    let mut endpoint = Endpoint::new(now, config, [9; 32]);
    for _ in 0..10 {
        let remote = "10.0.0.2:7000".parse().expect("address");
        let handle = endpoint
            .connect(now, remote, 1, 0, Box::new(NullSecurity), crate::ConnectOptions::default())
            .expect("room for a connection");
        let (epoch, cid) = endpoint.connection(handle).expect("open").id();
        assert_eq!(crate::Route { epoch, cid, from_client: true }.lane(3), 2);
    }
}

#[test]
fn batches_are_lent_filled_and_sent_in_order() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    let call = pair.call(connection, b"batch".to_vec());
    pair.server_sleeps = true;
    pair.run_for(Duration::from_millis(20));
    let served = *pair.served.keys().next().expect("accepted");
    let bytes = pattern(20_000);
    let mut batch = pair.server.call(pair.now, served).expect("live").lend_batch(30_000).expect("room");
    assert!(batch.len() >= bytes.len());
    let mut left = &bytes[..];
    for room in batch.payloads() {
        let count = room.len().min(left.len());
        room[..count].copy_from_slice(&left[..count]);
        left = &left[count..];
    }
    let mut live = pair.server.call(pair.now, served).expect("live");
    live.commit_batch(batch, bytes.len()).expect("taken");
    live.finish().expect("open");
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert!(pair.transfers[&call].reply == bytes, "bytes differ");
    pair.assert_no_leaks();
}

#[test]
fn version_answer_is_whole_however_short_the_question() {
    let mut pair = Pair::new();
    let from = pair.client_address;
    let mut header = Header::parse(&data_packet(EPOCH, 4, 0, 0, 7, false)).expect("valid").0;
    header.kind = PacketType::Version;
    for asked in [1, 65, 100] {
        pair.inject(from, &packet(&header, &vec![0; asked]));
        let sent = answers(&mut pair);
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].payload().len(), 65);
        assert_eq!(sent[0].header().flags & flags::CLIENT_INITIATED, 0);
        assert!(sent[0].payload().starts_with(b"linerate"));
    }
}

#[test]
fn unknown_service_is_aborted_and_nothing_is_kept() {
    let mut pair = Pair::new();
    let from = pair.client_address;
    let mut header = Header::parse(&data_packet(EPOCH, 4, 1, 1, 7, true)).expect("valid").0;
    header.service = 999;
    pair.inject(from, &packet(&header, b"1234"));
    let sent = answers(&mut pair);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].header().kind, PacketType::Abort);
    assert_eq!(sent[0].payload(), abort::INVALID_OPERATION.to_be_bytes());
    assert_eq!(pair.server.connection_count(), 0);
    header.kind = PacketType::Abort;
    pair.inject(from, &packet(&header, b"1234"));
    assert!(answers(&mut pair).is_empty(), "an abort is never aborted");
}
