//! Tests of packet sizes, within what peers and paths take.

use std::time::Duration;

use super::{Pair, data_packet, packet, pattern, small_config};
use crate::ack::{self, AckFields, AckReason, Trailer};
use crate::header::{Header, PacketType, flags};
use crate::{EndpointConfig, Event, abort};

const EPOCH: u32 = 0x8000_4321;

/// Returns the largest DATA datagram of the server in the trace from `from` on.
fn largest(pair: &Pair, from: usize) -> usize {
    let of_server = pair.trace[from..].iter().filter(|wire| wire.from == pair.server_address);
    let data = of_server.filter(|wire| wire.header().kind == PacketType::Data);
    data.map(|wire| wire.bytes.len()).max().expect("the server sent something")
}

#[test]
fn reply_keeps_to_the_size_that_a_stock_client_states() {
    let mut pair = Pair::stock(EPOCH, 4, true);
    let served = *pair.served.keys().next().expect("delivered");
    let say = |pair: &mut Pair, serial: u32, first: u32, size: u32| {
        let mut header = Header::parse(&data_packet(EPOCH, 4, 1, 0, serial, false)).expect("valid").0;
        (header.kind, header.flags) = (PacketType::Ack, flags::CLIENT_INITIATED);
        let trailer = Trailer { max_mtu: size, if_mtu: size, window: 32, jumbo_max: 1 };
        let (previous, reason) = (first - 1, AckReason::Idle);
        let fields = AckFields { first, previous, serial: 0, reason, trailer, extended: false };
        let mut payload = vec![0; ack::ACK_PAYLOAD_MAX];
        let len = ack::encode(&mut payload, &fields, |_| 0, || None);
        pair.inject(pair.client_address, &packet(&header, &payload[..len]));
    };
    let mut call = pair.server.call(pair.now, served).expect("live");
    call.write(&pattern(2 * 1416)).expect("room");
    call.flush().expect("room");
    pair.settle();
    let from = pair.trace.len();
    say(&mut pair, 2, 2, 1300);
    pair.server.call(pair.now, served).expect("live").write(&pattern(20_000)).expect("room");
    pair.settle();
    assert_eq!(largest(&pair, from), 1300);
}

/// Makes a path drop fragments and all datagrams above 1,300 bytes, in the middle of a call.
///
/// The call that was under way ends with a code, and the next ones keep to what gets through.
#[test]
fn path_that_begins_to_carry_small_packets_only_costs_each_side_a_call() {
    let mut pair = Pair::new();
    let connection = pair.connect();
    pair.call(connection, pattern(2 << 20));
    pair.run_for(Duration::from_millis(45));
    pair.filter = Some(Box::new(|wire| wire.bytes.len() <= 1_300));
    let start = pair.now;
    assert!(pair.run_calls(Duration::from_secs(60)));
    assert!(pair.now - start < Duration::from_secs(20), "{:?}", pair.now - start);
    assert_eq!(pair.client.stats().calls_too_large, 1);
    let ends: Vec<_> =
        pair.client_events.iter().filter(|event| matches!(event, Event::Aborted { .. })).collect();
    assert!(matches!(ends[..], [Event::Aborted { code: abort::MESSAGE_SIZE, .. }]), "{ends:?}");
    let mut replies = Vec::new();
    for _ in 0..2 {
        let call = pair.call(connection, pattern(200_000));
        assert!(pair.run_calls(Duration::from_secs(60)));
        replies.push(pair.transfers[&call].reply == pattern(200_000));
    }
    assert!(replies[1], "the server's direction had to learn it once, too: {replies:?}");
    pair.assert_no_leaks();
}

#[test]
fn endpoint_that_keeps_few_packets_moves_as_much_and_holds_little_after() {
    let lean = EndpointConfig { packets: 2_048, packets_kept: Some(16), ..small_config() };
    let (mut pair, mut whole) = (Pair::with(lean, small_config()), Pair::new());
    let mut took = Vec::new();
    for pair in [&mut pair, &mut whole] {
        let (connection, began) = (pair.connect(), pair.now);
        let call = pair.call(connection, pattern(1_000_000));
        assert!(pair.run_calls(Duration::from_secs(60)));
        assert!(pair.transfers[&call].reply == pattern(1_000_000), "bytes differ");
        took.push(pair.now - began);
        pair.assert_no_leaks();
    }
    assert_eq!(took[0], took[1]);
    let held = [&pair, &whole].map(|pair| pair.client.pool().memory());
    assert!(held[0] < 150_000 && held[1] > 5_000_000, "{held:?}");
}
