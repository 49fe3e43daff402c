//! Tests of one client's shares, and their effect on others.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Pair, data_packet, packet, pattern, ping_answer, small_config};
use crate::ack::AckReason;
use crate::header::{Header, PacketType, flags};
use crate::{DeadReason, EndpointConfig, Event};

fn spoofed(number: u32) -> SocketAddr {
    let [_, b, c, d] = number.to_be_bytes();
    SocketAddr::from(([100, b, c, d], 7001))
}

/// Writes to three clients at the same time: the packets leave in the order of their connections' priorities.
#[test]
fn packets_of_higher_priority_leave_first() {
    let mut pair = Pair::new();
    let connections: Vec<_> = (0..3).map(|_| pair.connect()).collect();
    for sleeps in [false, true] {
        pair.server_sleeps = sleeps;
        for &connection in &connections {
            pair.call(connection, pattern(2000));
        }
        pair.run_for(Duration::from_millis(200));
    }
    pair.keep_trace = true;
    let served: Vec<_> =
        pair.served.keys().copied().filter(|&call| pair.server.call(pair.now, call).is_some()).collect();
    let wanted = [crate::Priority::Low, crate::Priority::Normal, crate::Priority::High];
    for (call, priority) in served.iter().zip(wanted) {
        pair.server.call(pair.now, *call).expect("live").write(&[7; 14_000]).expect("room");
        // Also where the connection stands in line already.
        assert!(pair.server.set_priority(call.connection, priority));
    }
    let before = pair.trace.len();
    pair.settle();
    let cid = |at: usize| pair.server.connection(served[at].connection).expect("open").id().1;
    let data = pair.trace[before..].iter().filter(|wire| wire.header().kind == PacketType::Data);
    let mut order: Vec<_> = data.map(|wire| wire.header().cid & !3).collect();
    assert!(order.len() >= 24, "{} packets", order.len());
    order.dedup();
    assert_eq!(order, [cid(2), cid(1), cid(0)]);
}

#[test]
fn newcomers_are_served_in_a_flood_of_spoofed_connections_that_takes_no_memory() {
    let config = EndpointConfig { check_reach: true, ..small_config() };
    let mut pair = Pair::with(small_config(), config);
    pair.latency = Duration::from_millis(50);
    let (victims_max, mut number) = (pair.server.config().unproved_max, 0);
    let start = pair.now;
    let mut call = None;
    while pair.now < start + Duration::from_secs(3) {
        // As many as a driver takes in at once.
        for _ in 0..60 {
            number += 1;
            let bytes = data_packet(0x8000_0000 | number, number << 2, 1, 1, 1, true);
            pair.inject(spoofed(number), &bytes);
        }
        if call.is_none() && number >= 50_000 {
            let connection = pair.connect();
            call = Some(pair.call(connection, b"let me in".to_vec()));
        }
        pair.pass(Duration::from_millis(1));
        assert!(pair.server.connection_count() <= victims_max + 1);
        assert!(pair.server.peers().count() <= victims_max + 1);
    }
    let call = call.expect("made");
    assert!(pair.transfers[&call].done, "{:?}", pair.server.stats());
    assert_eq!(pair.transfers[&call].reply, b"let me in");
    assert!(pair.server.stats().cookies_sent > 150_000);
    assert_eq!(pair.server.stats().cookies_returned, 1);
    // The next one needs no proof any more, on whatever connection.
    let connection = pair.connect();
    let at = pair.now;
    let call = pair.call(connection, pattern(1_000));
    assert!(pair.run_calls(Duration::from_secs(1)));
    assert!(pair.transfers[&call].reply == pattern(1_000));
    assert!(pair.now - at <= Duration::from_millis(101), "one round trip");
}

#[test]
fn one_answer_proves_all_connections_of_its_address() {
    let mut pair = Pair::with(small_config(), EndpointConfig { check_reach: true, ..small_config() });
    pair.keep_trace = true;
    let calls: Vec<_> = (0..5)
        .map(|_| {
            let connection = pair.connect();
            pair.call(connection, b"hello".to_vec())
        })
        .collect();
    assert!(pair.run_calls(Duration::from_millis(21)), "two round trips, for all");
    assert!(calls.iter().all(|call| pair.transfers[call].reply == b"hello"));
}

/// Client of ours as seen from its own address, with the packets it would send by hand.
struct Stock {
    address: SocketAddr,
    epoch: u32,
    cid: u32,
    serial: u32,
}

impl Stock {
    /// Makes a client that has proved its address on a connection of its own.
    fn arrive(pair: &mut Pair, host: u8, port: u16) -> Self {
        Self::arrive_at(pair, SocketAddr::from(([10, 9, 0, host], port)), host)
    }

    fn arrive_at(pair: &mut Pair, address: SocketAddr, host: u8) -> Self {
        let port = address.port();
        let (epoch, cid) = (0x8100_0000 | u32::from(host) << 16 | u32::from(port), u32::from(host) << 8);
        let mut stock = Self { address, epoch, cid, serial: 0 };
        stock.send(pair, 1, 1, false);
        pair.settle();
        let asked = |wire: &&super::Wire| wire.to == address && wire.header().wants_ack();
        let ping = pair.trace.iter().rev().find(asked).expect("the server asks").header();
        pair.inject(address, &ping_answer(&ping));
        pair.settle();
        stock.serial = 10;
        stock
    }

    fn send(&mut self, pair: &mut Pair, call: u32, seq: u32, last: bool) {
        self.send_on(pair, 0, call, seq, last);
    }

    fn send_on(&mut self, pair: &mut Pair, channel: u32, call: u32, seq: u32, last: bool) {
        self.serial += 1;
        let bytes = data_packet(self.epoch, self.cid | channel, call, seq, self.serial, last);
        pair.inject(self.address, &bytes);
    }

    /// Sends an ACK of the call on channel 0.
    fn ack(&mut self, pair: &mut Pair, call: u32, first: u32, table: &[u8], window: u32) {
        self.serial += 1;
        let header = Header {
            kind: PacketType::Ack,
            flags: flags::CLIENT_INITIATED | flags::SLOW_START_OK,
            ..Header::parse(&data_packet(self.epoch, self.cid, call, 0, self.serial, false)).expect("valid").0
        };
        let heard = pair.trace.iter().rev().find(|wire| wire.to == self.address).expect("sent").header();
        let mut payload = vec![0; 4];
        payload.extend(first.to_be_bytes());
        payload.extend([0; 4]);
        payload.extend(heard.serial.to_be_bytes());
        payload.push(AckReason::Idle as u8);
        payload.push(table.len() as u8);
        payload.extend_from_slice(table);
        payload.extend([0; 3]);
        for word in [1444, 1444, window, 0] {
            payload.extend(u32::to_be_bytes(word));
        }
        let header = Header { seq: 0, ..header };
        pair.inject(self.address, &packet(&header, &payload));
    }
}

fn server_of(packets: usize) -> Pair {
    let config = EndpointConfig { packets, check_reach: true, ..small_config() };
    let mut pair = Pair::with(small_config(), config);
    pair.keep_trace = true;
    pair
}

/// Fills the receive windows of four calls of each of several connections, all but their first packets.
fn send_ahead_of_gaps(pair: &mut Pair, client: &mut Stock) {
    for connection in 0..20 {
        client.cid = client.cid & 0xffff | connection << 16;
        for channel in 0..4 {
            let call = if connection == 0 && channel == 0 { 2 } else { 1 };
            for seq in 2..256 {
                client.send_on(pair, channel, call, seq, false);
            }
        }
        pair.settle();
    }
}

#[test]
fn tiny_packets_ahead_of_gaps_take_two_thirds_of_the_buffers_at_most_and_a_newcomer_notices_nothing() {
    let mut pair = server_of(4096);
    let mut greedy = Stock::arrive(&mut pair, 1, 7001);
    send_ahead_of_gaps(&mut pair, &mut greedy);
    let free = pair.server.pool().free_count();
    assert!(free >= 4096 * 3 / 10, "{free} of 4096 free");
    assert!(pair.server.stats().over_share > 10_000);
    let connection = pair.connect();
    let (at, call) = (pair.now, pair.call(connection, pattern(100_000)));
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert!(pair.transfers[&call].reply == pattern(100_000), "bytes differ");
    assert!(pair.now - at < Duration::from_millis(200), "{:?}", pair.now - at);
    assert_eq!(pair.server.stats().timeouts + pair.client.stats().timeouts, 0);
}

#[test]
fn hosts_that_hold_most_give_up_what_lies_ahead_of_gaps_when_buffers_run_short() {
    let mut pair = server_of(4096);
    for host in 1..=20 {
        let mut greedy = Stock::arrive(&mut pair, host, 7001);
        send_ahead_of_gaps(&mut pair, &mut greedy);
    }
    assert!(pair.server.stats().packets_reclaimed > 0);
    let told = pair.trace.iter().filter(|wire| wire.header().kind == PacketType::Ack).any(|wire| {
        let ack = crate::ack::Ack::parse(wire.payload()).expect("valid");
        ack.reason == AckReason::NoSpace && ack.table.len() > ack.soft_acked() + 1
    });
    assert!(told, "what was given up is named as missing, packet by packet");
    let connection = pair.connect();
    let (at, call) = (pair.now, pair.call(connection, pattern(100_000)));
    assert!(pair.run_calls(Duration::from_secs(5)));
    assert!(pair.transfers[&call].reply == pattern(100_000), "bytes differ");
    assert!(pair.now - at < Duration::from_millis(500), "{:?}", pair.now - at);
}

#[test]
fn slow_stores_hold_little_and_others_calls_go_on_as_ever() {
    let mut alone = server_of(32 * 1024);
    let mut beside = server_of(32 * 1024);
    for (pair, stores) in [(&mut alone, 0), (&mut beside, 4)] {
        pair.server_sleeps = true;
        let slow: Vec<_> = (0..stores).map(|_| pair.connect()).collect();
        for connection in &slow {
            pair.call(*connection, pattern(30_000_000));
        }
        pair.run_for(Duration::from_secs(2));
        pair.server_sleeps = false;
        let held = pair.server.pool().allocated() - pair.server.pool().free_count();
        assert!(held <= stores * 600, "{held} packets held by {stores} stores that nobody reads");
    }
    let took = [&mut alone, &mut beside].map(|pair| {
        let connection = pair.connect();
        let (at, call) = (pair.now, pair.call(connection, pattern(3_000_000)));
        assert!(pair.run_until(Duration::from_secs(20), |pair| pair.transfers[&call].done));
        pair.now - at
    });
    assert!(took[1] <= took[0] * 11 / 10 + Duration::from_millis(20), "{took:?}");
}

#[test]
fn call_that_acknowledges_softly_and_never_for_good_is_ended() {
    let mut pair = server_of(4096);
    let mut greedy = Stock::arrive(&mut pair, 1, 7001);
    pair.server_sleeps = true;
    greedy.send(&mut pair, 1, 2, true);
    pair.settle();
    let call = *pair.served.keys().next().expect("delivered");
    for _ in 0..100 {
        if let Some(mut live) = pair.server.call(pair.now, call) {
            let _ = live.write(&pattern(500_000));
        }
        pair.pass(Duration::from_secs(1));
        if pair.server.call(pair.now, call).is_none() {
            break;
        }
        let sent = sent_to(&pair, greedy.address);
        greedy.ack(&mut pair, 1, 1, &[1; 255][..sent], 65_535);
    }
    let dead = |event: &Event| matches!(event, Event::Dead { reason: DeadReason::Idle, .. });
    assert!(pair.server_events.iter().any(dead), "{:?}", pair.server_events.last());
    assert_eq!(pair.server.pool().in_use(), 0);
}

/// Returns the highest packet sent to an address, up to what a table holds.
fn sent_to(pair: &Pair, address: SocketAddr) -> usize {
    let sent = pair.trace.iter().filter(|wire| wire.to == address).map(|wire| wire.header());
    sent.map(|header| header.seq as usize).max().unwrap_or(0).min(255)
}

#[test]
fn call_that_takes_its_reply_slowly_lives_as_long_as_it_takes_it() {
    let mut pair = server_of(4096);
    let mut slow = Stock::arrive(&mut pair, 1, 7001);
    pair.server_sleeps = true;
    slow.send(&mut pair, 1, 2, true);
    pair.settle();
    let call = *pair.served.keys().next().expect("delivered");
    for turn in 0..200 {
        if let Some(mut live) = pair.server.call(pair.now, call) {
            let _ = live.write(&pattern(20_000));
        }
        pair.pass(Duration::from_secs(1));
        // A packet each second: 1.4 kB/s.
        slow.ack(&mut pair, 1, 1 + turn, &[], 16);
    }
    assert!(pair.server.call(pair.now, call).is_some(), "{:?}", pair.server_events.last());
}

/// Opens connections of clients in an IPv6 /48, each from a /64 of its own, and of clients from elsewhere.
#[test]
fn a_network_of_many_addresses_has_its_share_of_the_connections_and_replaces_its_own() {
    let config = EndpointConfig { connections_max: 400, check_reach: true, ..small_config() };
    // By /56 and by /48.
    for (step, share) in [(1, 267), (256, 300)] {
        let mut pair = Pair::with(small_config(), config.clone());
        pair.keep_trace = true;
        let arrived = |pair: &mut Pair, address: SocketAddr, host| {
            let mut stock = Stock::arrive_at(pair, address, host);
            stock.send(pair, 1, 1, false);
            stock.send(pair, 1, 2, true);
            pair.settle();
            let first = sent_to(pair, stock.address) as u32 + 1;
            stock.ack(pair, 1, first, &[], 16);
            pair.settle();
            pair.trace.clear();
        };
        let of_crowd = |n: u128| {
            let bits = 0x2001_0db8 << 96 | (n % 256 * step) << 64 | 1;
            SocketAddr::new(std::net::Ipv6Addr::from_bits(bits).into(), 1 + n as u16)
        };
        for n in 0..600 {
            arrived(&mut pair, of_crowd(n), 1);
            assert!(pair.server.connection_count() <= share + 1, "{}", pair.server.connection_count());
        }
        assert!(pair.server.connection_count() + 70 >= share, "{}", pair.server.connection_count());
        assert!(pair.server.stats().connections_displaced >= 250);
        for host in 2..=30 {
            for port in 0..30 {
                arrived(&mut pair, SocketAddr::from(([10, 9, 0, host], 1 + port)), host);
            }
        }
        let left = pair.server.connections().filter(|view| view.remote().is_ipv6()).count();
        assert!(left <= 120, "who had most has given way: {left}");
        assert_eq!(pair.server.stats().connections_refused, 0);
    }
}

#[test]
fn one_host_has_half_of_the_connections_and_replaces_its_own() {
    let config = EndpointConfig { connections_max: 400, check_reach: true, ..small_config() };
    let mut pair = Pair::with(small_config(), config);
    pair.keep_trace = true;
    let arrived = |pair: &mut Pair, host, port| {
        let mut stock = Stock::arrive(pair, host, port);
        // Its call is whole and answered.
        stock.send(pair, 1, 1, false);
        stock.send(pair, 1, 2, true);
        pair.settle();
        let first = sent_to(pair, stock.address) as u32 + 1;
        stock.ack(pair, 1, first, &[], 16);
        pair.settle();
        pair.trace.clear();
    };
    for port in 0..1000 {
        arrived(&mut pair, 1, 1 + port);
        assert!(pair.server.connection_count() <= 201);
    }
    assert!((150..=201).contains(&pair.server.connection_count()), "{}", pair.server.connection_count());
    assert!(pair.server.stats().connections_displaced >= 700);
    for host in 2..=30 {
        for port in 0..30 {
            arrived(&mut pair, host, 1 + port);
        }
    }
    assert!(pair.server.connection_count() <= 400);
    let of = |host: u8| {
        let ip = std::net::IpAddr::from([10, 9, 0, host]);
        pair.server.connections().filter(|view| view.remote().ip() == ip).count()
    };
    assert!(of(30) >= 10, "the last to come has its share: {}", of(30));
    assert!(of(1) <= 40, "who had most has given way: {}", of(1));
    assert_eq!(pair.server.stats().connections_refused, 0);
}
