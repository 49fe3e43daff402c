//! Tests of packets with a connection's ids from other addresses: clients that have moved, and impostors.

use std::net::SocketAddr;
use std::time::Duration;

use super::security::{GUARDED, Guarded, GuardedFactory};
use super::{ECHO, Pair, data_packet, packet, pattern, small_config};
use crate::ack::AckReason;
use crate::header::{HEADER_LEN, Header, PacketType, flags};
use crate::source::AddressRange;
use crate::{CallHandle, ConnectionHandle, EndpointConfig};

const EPOCH: u32 = 0x8000_4321;

fn thief() -> SocketAddr {
    "198.51.100.66:9999".parse().expect("address")
}

fn everybody() -> AddressRange {
    AddressRange::new([0, 0, 0, 0].into(), 0)
}

/// Makes a pair whose server has a security class, and a connection of it.
fn guarded() -> (Pair, ConnectionHandle) {
    let mut pair = Pair::new();
    pair.keep_trace = true;
    pair.server.add_security(Box::<GuardedFactory>::default());
    let (now, server) = (pair.now, pair.server_address);
    let security = Box::<Guarded>::default();
    let connection = pair
        .client
        .connect(now, server, ECHO, GUARDED, security, crate::ConnectOptions::default())
        .expect("room");
    (pair, connection)
}

fn bytes_to(pair: &Pair, address: SocketAddr) -> usize {
    pair.trace.iter().filter(|wire| wire.to == address).map(|wire| wire.bytes.len()).sum()
}

fn finish(pair: &mut Pair, call: CallHandle, sent: &[u8]) {
    assert!(pair.run_calls(Duration::from_secs(60)));
    assert!(pair.transfers[&call].reply == sent, "bytes differ");
}

/// Forges a packet of the connection: newest serial there can be, whatever the type.
fn forged(pair: &Pair, connection: ConnectionHandle, kind: PacketType, call: u32) -> Vec<u8> {
    let view = pair.client.connection(connection).expect("open");
    let (epoch, cid) = view.id();
    let header = Header {
        epoch,
        cid,
        call,
        seq: u32::from(kind == PacketType::Data),
        serial: 0x7fff_fffe,
        kind,
        flags: flags::CLIENT_INITIATED,
        user_status: 0,
        security: view.security_index(),
        checksum: 0,
        service: ECHO,
    };
    let mut payload = [0; 40];
    if kind == PacketType::Ack {
        payload[16] = AckReason::Ping as u8;
    }
    packet(&header, &payload)
}

/// Answers any VERSION question that was sent to `address`.
fn answer_version(pair: &mut Pair, address: SocketAddr) -> usize {
    let asked: Vec<_> = pair.trace.iter().filter(|wire| wire.to == address).cloned().collect();
    let asked = asked.iter().filter(|wire| wire.header().kind == PacketType::Version);
    let answers: Vec<_> = asked.map(|wire| packet(&Header { flags: 0, ..wire.header() }, &[0; 65])).collect();
    answers.iter().for_each(|answer| pair.inject(address, answer));
    answers.len()
}

#[test]
fn client_with_a_key_that_moves_is_followed_once_its_new_address_has_answered() {
    let (mut pair, connection) = guarded();
    let call = pair.call(connection, b"from home".to_vec());
    finish(&mut pair, call, b"from home");
    pair.run_for(Duration::from_secs(1));
    let (old, jump_from) = (pair.client_address, pair.server.connections().next().expect("one").serial());
    pair.client_address = "10.0.0.1:40000".parse().expect("address");
    let at = pair.now;
    let call = pair.call(connection, pattern(500_000));
    finish(&mut pair, call, &pattern(500_000));
    assert!(pair.now - at < Duration::from_secs(3), "{:?}", pair.now - at);
    assert_eq!(pair.server.stats().connections_rebound, 1);
    let view = pair.server.connections().next().expect("one");
    assert_eq!(view.remote(), pair.client_address);
    assert!(view.serial() - jump_from > 1 << 20, "the new address's serials are none that the old one knows");
    assert!(bytes_to(&pair, old) > 0);
    pair.assert_no_leaks();
}

#[test]
fn client_without_a_key_that_moves_is_followed_where_it_is_known_to_roam() {
    let roaming = EndpointConfig { roaming: vec![everybody()], ..small_config() };
    let mut pair = Pair::with(small_config(), roaming);
    let connection = pair.connect();
    let call = pair.call(connection, pattern(500_000));
    pair.run_for(Duration::from_millis(60));
    pair.client_address = "10.0.0.1:40000".parse().expect("address");
    finish(&mut pair, call, &pattern(500_000));
    assert_eq!(pair.server.stats().connections_rebound, 1);
    assert_eq!(pair.server.connections().next().expect("one").remote(), pair.client_address);
    pair.assert_no_leaks();
}

#[test]
fn client_without_a_key_goes_on_from_its_new_address_with_its_next_call() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let connection = pair.connect();
    let first = pair.call(connection, b"from home".to_vec());
    finish(&mut pair, first, b"from home");
    pair.run_for(Duration::from_secs(1));
    pair.client_address = "10.0.0.1:40000".parse().expect("address");
    for text in ["from abroad", "and again"] {
        let call = pair.call(connection, text.into());
        finish(&mut pair, call, text.as_bytes());
    }
    assert_eq!(pair.server.stats().connections_rebound, 0);
    assert_eq!(pair.server.connection_count(), 2, "each address has its own");
    // What was run for one address is not run again for another.
    let (epoch, cid) = pair.client.connection(connection).expect("open").id();
    let before = pair.server.stats().calls_accepted;
    let third = "10.0.0.1:50000".parse().expect("address");
    for number in 1..=3 {
        pair.inject(third, &data_packet(epoch, cid, number, 1, 9, true));
    }
    pair.settle();
    assert_eq!((pair.server.stats().calls_accepted, pair.server.stats().strays), (before, 3));
    pair.assert_no_leaks();
}

#[test]
fn thief_who_knows_the_ids_gets_nothing_and_the_client_notices_nothing() {
    for key in [false, true] {
        let (mut pair, connection) =
            if key { guarded() } else { (Pair::new(), ConnectionHandle { index: 0, generation: 0 }) };
        pair.keep_trace = true;
        let connection = if key { connection } else { pair.connect() };
        let call = pair.call(connection, pattern(300_000));
        pair.run_for(Duration::from_millis(40));
        let honest = pair.client_address;
        for _ in 0..20 {
            for kind in [PacketType::Data, PacketType::Ack, PacketType::Abort, PacketType::Busy] {
                let bytes = forged(&pair, connection, kind, 1);
                pair.inject(thief(), &bytes);
            }
            answer_version(&mut pair, thief());
            pair.run_for(Duration::from_millis(5));
        }
        finish(&mut pair, call, &pattern(300_000));
        assert_eq!(bytes_to(&pair, thief()), 0, "key: {key}");
        assert_eq!(pair.server.stats().connections_rebound, 0);
        assert!(pair.server.connections().all(|view| view.remote() == honest));
        assert!(pair.server.stats().strays >= 60);
        assert!(!pair.client_events.iter().any(|event| matches!(event, crate::Event::Aborted { .. })));
        pair.assert_no_leaks();
    }
}

#[test]
fn thief_of_a_roaming_clients_connection_gets_nothing_while_the_client_speaks() {
    let roaming = EndpointConfig { roaming: vec![everybody()], ..small_config() };
    let mut pair = Pair::with(small_config(), roaming);
    pair.keep_trace = true;
    let connection = pair.connect();
    let call = pair.call(connection, pattern(300_000));
    pair.run_for(Duration::from_millis(40));
    for _ in 0..10 {
        let bytes = forged(&pair, connection, PacketType::Ack, 1);
        pair.inject(thief(), &bytes);
        answer_version(&mut pair, thief());
        pair.run_for(Duration::from_millis(5));
    }
    finish(&mut pair, call, &pattern(300_000));
    assert_eq!((bytes_to(&pair, thief()), pair.server.stats().connections_rebound), (0, 0));
}

#[test]
fn addresses_that_packets_claim_to_have_moved_to_leave_nothing_behind() {
    let roaming = EndpointConfig { roaming: vec![everybody()], ..small_config() };
    let mut pair = Pair::with(small_config(), roaming);
    let connection = pair.connect();
    pair.call(connection, b"one".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    pair.run_for(Duration::from_secs(2));
    pair.keep_trace = true;
    let bytes = forged(&pair, connection, PacketType::Ack, 0);
    for number in 0..20_000u32 {
        let [a, b, c, d] = number.to_be_bytes();
        pair.inject(SocketAddr::from(([100 + a, b, c, d], 7001)), &bytes);
        if number % 200 == 0 {
            pair.settle();
        }
    }
    pair.settle();
    assert_eq!((pair.server.peers().count(), pair.server.connection_count()), (1, 1));
    let sent: usize = pair.trace.iter().map(|wire| wire.bytes.len()).sum();
    assert!(sent <= 20_000 * bytes.len(), "{sent} bytes");
}

/// Attacks with calls in the name of a client that was here a moment ago, on connections of the attacker's
/// own making.
#[test]
fn calls_in_the_name_of_a_proved_address_pull_three_times_their_bytes_and_a_fixed_credit() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let connection = pair.connect();
    pair.call(connection, b"honest".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    let victim = pair.client_address;
    // The victim's stack drops what it did not ask for; here no socket listens at all.
    pair.filter = Some(Box::new(move |wire| wire.to != victim));
    pair.keep_trace = true;
    pair.server_sleeps = true;
    let (mut bytes_in, start) = (0, pair.trace.len());
    for number in 0..400u32 {
        let bytes = data_packet(EPOCH ^ number << 4, number * 4, 1, 1, 1, true);
        bytes_in += bytes.len();
        pair.inject(victim, &bytes);
        pair.settle();
        let served: Vec<_> = pair.served.keys().copied().collect();
        for call in served {
            if let Some(mut live) = pair.server.call(pair.now, call) {
                let _ = live.write(&pattern(40_000));
            }
        }
        pair.pass(Duration::from_millis(10));
    }
    pair.run_for(Duration::from_secs(30));
    let bytes_out: usize = pair.trace[start..].iter().map(|wire| wire.bytes.len()).sum();
    // The credit, and half of it again as it comes back over the time.
    assert!(bytes_out <= 3 * bytes_in + 256 * 1024 * 3 / 2, "{bytes_out} out for {bytes_in} in");
    assert!(pair.server.stats().amplification_limited > 0);
}

/// Checks that an address that was proved by a whole reply and falls silent draws three times what it sent.
///
/// More comes only when it acknowledges again; within a second of its last packet a first burst more for each
/// call, which its credit bounds.
#[test]
fn an_address_that_falls_silent_draws_three_times_what_it_sent() {
    for pause in [0, 400, 1_000, 5_000, 59_000].map(Duration::from_millis) {
        for payload in [1, 20, 400, 1_400] {
            for packets in [1, 30] {
                let mut pair =
                    Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
                let connection = pair.connect();
                pair.call(connection, pattern(60_000));
                assert!(pair.run_calls(Duration::from_secs(5)));
                // Its last word of the call.
                pair.run_for(Duration::from_millis(100));
                let client = pair.client_address;
                pair.filter = Some(Box::new(|_| false));
                pair.server_sleeps = true;
                pair.run_for(pause);
                let heard = Header::parse(&data_packet(EPOCH, 4, 1, 1, 1, true)).expect("valid").0;
                pair.keep_trace = true;
                let mut sent = 0;
                for number in 0..packets {
                    let header = Header { cid: heard.cid + (number << 2), ..heard };
                    let bytes = packet(&header, &pattern(payload));
                    sent += bytes.len();
                    pair.inject(client, &bytes);
                    pair.settle();
                    let served: Vec<_> = pair.served.keys().copied().collect();
                    for call in served {
                        if let Some(mut live) = pair.server.call(pair.now, call) {
                            let _ = live.write(&pattern(100_000));
                        }
                    }
                    pair.settle();
                }
                pair.run_for(Duration::from_secs(60));
                let drawn = bytes_to(&pair, client);
                let credit = match packets {
                    _ if pause >= Duration::from_secs(1) => 0,
                    1 => 24_000,
                    _ => 256 * 1024,
                };
                assert!(drawn <= 3 * sent + credit, "{drawn} bytes for {sent} in {packets}, after {pause:?}");
            }
        }
    }
}

/// Checks that an address that falls silent in the middle of a reply draws three times what it sends
/// afterwards.
///
/// Packets under way are sent again a few times, as to any client whose packets are lost, and packets in its
/// name bring no more than three times their bytes.
#[test]
fn an_address_that_falls_silent_in_a_call_draws_three_times_what_it_sends_then() {
    let drawn = |kind: Option<PacketType>, packets: u32| {
        let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
        let connection = pair.connect();
        let call = pair.call(connection, pattern(2_000_000));
        assert!(pair.run_until(Duration::from_secs(5), |pair| pair.transfers[&call].reply.len() > 300_000));
        let (epoch, cid) = pair.client.connection(connection).expect("open").id();
        let client = pair.client_address;
        pair.filter = Some(Box::new(|_| false));
        // What was under way gets there yet, and nothing is acknowledged.
        pair.run_for(Duration::from_millis(20));
        pair.keep_trace = true;
        let mut sent = 0;
        for number in 0..packets {
            let first =
                Header::parse(&data_packet(epoch, cid, 1, 1, 0x7000_0000 + number, true)).expect("valid").0;
            let Some(kind) = kind else { break };
            let seq = u32::from(kind == PacketType::Data);
            let flags = first.flags | flags::REQUEST_ACK;
            let header = Header { kind, seq, flags, ..first };
            let mut payload = [0; 37];
            payload[16] = AckReason::Ping as u8;
            let bytes = packet(&header, &payload);
            sent += bytes.len();
            pair.inject(client, &bytes);
            pair.settle();
        }
        pair.run_for(Duration::from_secs(60));
        (sent, bytes_to(&pair, client))
    };
    let (_, alone) = drawn(None, 0);
    assert!(alone <= 8 * 1_444, "{alone} bytes of packets sent again");
    for kind in [PacketType::Data, PacketType::Ack] {
        for packets in [1, 30, 400] {
            let (sent, drawn) = drawn(Some(kind), packets);
            assert!(drawn <= 3 * sent + alone, "{drawn} bytes for {sent}, {alone} for none");
        }
    }
}

/// Checks that a client that acknowledges gets the whole reply at once, and after a pause a round trip later.
#[test]
fn a_client_that_comes_back_waits_one_round_trip_more_and_only_then() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let connection = pair.connect();
    pair.server_sleeps = true;
    let mut takes = Vec::new();
    for pause in [0, 0, 100, 5_000, 0, 30_000, 0].map(Duration::from_millis) {
        pair.run_for(pause);
        let began = pair.now;
        let call = pair.call(connection, b"go".to_vec());
        assert!(pair.run_until(Duration::from_secs(5), |pair| pair.served.keys().any(|known| {
            pair.server.connection(known.connection).is_some() && known.number == call.number
        })));
        let served = *pair.served.keys().find(|known| known.number == call.number).expect("served");
        let mut live = pair.server.call(pair.now, served).expect("live");
        while let Ok(len) = live.read().map(<[u8]>::len) {
            live.consume(len);
        }
        live.write(&pattern(8_000)).expect("room");
        live.finish().expect("live");
        assert!(pair.run_until(Duration::from_secs(5), |pair| pair.transfers[&call].done));
        takes.push((pair.now - began).as_millis());
        assert!(pair.transfers.remove(&call).expect("known").reply == pattern(8_000), "bytes differ");
    }
    let (quick, late) = ([1, 2, 4, 6], [3, 5]);
    assert!(quick.iter().all(|&at| takes[at] <= 12) && late.iter().all(|&at| takes[at] <= 23), "{takes:?}");
}

/// Sends tiny packets behind a gap, each worth an ACK that it does not pay for.
#[test]
fn connections_that_wait_for_credit_are_looked_at_for_packets_and_credit_only() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let connection = pair.connect();
    pair.call(connection, b"honest".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    let client = pair.client_address;
    pair.filter = Some(Box::new(move |wire| wire.to != client));
    pair.server_sleeps = true;
    // More than there are places in the list of those that wait.
    let packets = 40_000;
    for number in 0..packets {
        let (connection, round) = (number % 8, number / 8);
        let seq = if round == 0 { 1 } else { round + 2 };
        let mut bytes = data_packet(EPOCH ^ 0x100, connection * 4, 1, seq, round + 1, false);
        bytes.truncate(HEADER_LEN + 1);
        pair.inject(client, &bytes);
        pair.settle();
    }
    let looks = pair.server.stats().amplification_limited;
    assert!(looks > 20_000 && looks < 4 * u64::from(packets), "{looks}");
    pair.run_for(Duration::from_secs(70));
    assert_eq!(pair.server.pool().in_use(), 0, "calls of a client that is gone end");
}

#[test]
fn honest_client_of_many_small_calls_never_runs_out_of_credit() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    let connection = pair.connect();
    let start = pair.now;
    for _ in 0..2_000 {
        // The next call on the channel says that the reply has come, so no ACK ever does.
        let call = pair.call(connection, pattern(1_400));
        assert!(pair.run_until(Duration::from_secs(5), |pair| pair.transfers[&call].done));
        pair.transfers.remove(&call);
    }
    let each = (pair.now - start) / 2_000;
    assert!(each < Duration::from_millis(11), "{each:?} for a round trip of 10 ms");
}

/// Moves a client with a key to an address that answers any VERSION question, and then acknowledges, blindly,
/// what is sent there.
#[test]
fn move_to_a_bystander_gets_him_no_more_than_the_credit() {
    let (mut pair, connection) = guarded();
    pair.call(connection, b"from home".to_vec());
    assert!(pair.run_calls(Duration::from_secs(5)));
    pair.run_for(Duration::from_millis(300));
    let bystander: SocketAddr = "203.0.113.5:7001".parse().expect("address");
    let honest = pair.client_address;
    // The attacker's packets bear the bystander's address from now on; it does not see what comes for it.
    pair.filter = Some(Box::new(move |wire| wire.to != honest && wire.to != bystander));
    pair.client_address = bystander;
    pair.server_sleeps = true;
    pair.call(connection, b"x".to_vec());
    let from = pair.trace.len();
    let serial = pair.server.connections().next().expect("one").serial();
    for _ in 0..400 {
        pair.pass(Duration::from_millis(10));
        answer_version(&mut pair, bystander);
        let served: Vec<_> = pair.served.keys().copied().collect();
        for call in served {
            if let Some(mut live) = pair.server.call(pair.now, call) {
                let _ = live.write(&pattern(100_000));
            }
        }
        let to_him = pair.trace[from..].iter().filter(|wire| wire.to == bystander).map(|wire| wire.header());
        let first = to_him.map(|header| header.seq).max().unwrap_or(0) + 1;
        let mut payload = [0; 40];
        payload[4..8].copy_from_slice(&first.to_be_bytes());
        payload[12..16].copy_from_slice(&(serial + 1).to_be_bytes());
        payload[16] = AckReason::PingResponse as u8;
        let header = Header::parse(&forged(&pair, connection, PacketType::Ack, 2)).expect("valid").0;
        pair.inject(bystander, &packet(&header, &payload));
    }
    assert_eq!(pair.server.stats().connections_rebound, 1);
    let bytes_in: usize =
        pair.trace[from..].iter().filter(|wire| wire.from == bystander).map(|wire| wire.bytes.len()).sum();
    let bytes_out = bytes_to(&pair, bystander);
    let paid = 3 * (bytes_in + 400 * (HEADER_LEN + 40));
    assert!(bytes_out <= paid + 300 * 1024, "{bytes_out} out for {bytes_in} in and {paid} paid");
    assert!(bytes_out > 100 * 1024, "{bytes_out} bytes: the test tests nothing");
}
