//! Tests of the challenge, its answer, and of security classes' work on packets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::{ECHO, Pair, SECURITY_AT, data_packet, pattern, small_config};
use crate::header::{HEADER_LEN, PacketType};
use crate::security::{
    ConnectionContext, PacketContext, Principal, RESPONSE_MAX, Sealed, Security, SecurityError,
    SecurityFactory, Surroundings,
};
use crate::security::{SecurityKind, SecurityStats};
use crate::{EndpointConfig, Event, Jumbograms, abort};

/// Check that another thread has in hand.
#[derive(Debug, Default)]
struct Helper {
    waker: Mutex<Option<Waker>>,
    answered: AtomicBool,
}

impl Helper {
    fn answer(&self) {
        self.answered.store(true, Ordering::Release);
        let waker = self.waker.lock().expect("unpoisoned").take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Security class in the shape of rxkad and rxgk: 8 bytes before the data, 4 after it, a checksum in the
/// header, and a challenge to add one to.
#[derive(Debug, Default)]
pub(super) struct Guarded {
    server: bool,
    nonce: u8,
    /// Bytes of the client's answer beyond the first.
    ticket_len: usize,
    /// Helper of the server that checks answers, if that takes time.
    helper: Option<Arc<Helper>>,
    verdict: Option<Result<[u32; 4], SecurityError>>,
    principal: Option<Principal>,
    sealed: u32,
}

pub(super) const GUARDED: u8 = 9;

impl Security for Guarded {
    fn header_room(&self) -> usize {
        8
    }

    fn trailer_room(&self) -> usize {
        4
    }

    fn seal(&mut self, at: &PacketContext, payload: &mut [u8], len: usize) -> Result<Sealed, SecurityError> {
        self.sealed += 1;
        payload[..4].copy_from_slice(&at.seq.to_be_bytes());
        payload[4..8].copy_from_slice(&(len as u32).to_be_bytes());
        payload[8..8 + len].iter_mut().for_each(|byte| *byte ^= 0x5a);
        payload[8 + len..12 + len].fill(0xee);
        Ok(Sealed { len: len + 12, checksum: (at.seq ^ at.call) as u16 | 1 })
    }

    fn open(
        &mut self,
        at: &PacketContext,
        checksum: u16,
        payload: &mut [u8],
    ) -> Result<std::ops::Range<usize>, SecurityError> {
        let sealed = payload.len() >= 12 && payload[..4] == at.seq.to_be_bytes();
        if !sealed || checksum != (at.seq ^ at.call) as u16 | 1 {
            return Err(SecurityError { code: 99 });
        }
        let end = payload.len() - 4;
        payload[8..end].iter_mut().for_each(|byte| *byte ^= 0x5a);
        Ok(8..end)
    }

    fn protects_data(&self) -> bool {
        true
    }

    fn needs_challenge(&self) -> bool {
        self.server
    }

    fn challenge(&mut self, _: &mut Surroundings<'_>, out: &mut Vec<u8>) {
        self.nonce = 41;
        out.push(self.nonce);
    }

    fn check_response(
        &mut self,
        around: &mut Surroundings<'_>,
        _: &ConnectionContext,
        response: &[u8],
        waker: &Waker,
    ) -> Poll<Result<[u32; 4], SecurityError>> {
        let (head, ticket) = response.split_at(17.min(response.len()));
        let good = head.first() == Some(&(self.nonce + 1)) && ticket.iter().all(|&byte| byte == 7);
        let calls =
            head[1..].chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().expect("4 bytes")));
        let mut calls = calls.chain([0; 4]);
        let calls = std::array::from_fn(|_| calls.next().expect("four more"));
        self.verdict = Some(if good { Ok(calls) } else { Err(SecurityError { code: 98 }) });
        self.poll_check(around, waker)
    }

    fn poll_check(
        &mut self,
        _: &mut Surroundings<'_>,
        waker: &Waker,
    ) -> Poll<Result<[u32; 4], SecurityError>> {
        if let Some(helper) = &self.helper
            && !helper.answered.load(Ordering::Acquire)
        {
            *helper.waker.lock().expect("unpoisoned") = Some(waker.clone());
            return Poll::Pending;
        }
        let verdict = self.verdict.take().expect("a check runs");
        if verdict.is_ok() {
            self.principal = Some(Principal { name: "alice".to_owned(), level: 2, expires_unix_s: None });
        }
        Poll::Ready(verdict)
    }

    fn respond(
        &mut self,
        _: &mut Surroundings<'_>,
        connection: &ConnectionContext,
        challenge: &[u8],
        _: &Waker,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), SecurityError>> {
        out.push(challenge[0] + 1 + self.nonce);
        connection.calls.iter().for_each(|number| out.extend(number.to_be_bytes()));
        out.resize(out.len() + self.ticket_len, 7);
        Poll::Ready(Ok(()))
    }

    fn statistics(&self) -> Option<SecurityStats> {
        Some(SecurityStats {
            kind: SecurityKind::Kad,
            level: 2,
            flags: 2,
            expires: 0,
            packets_received: 0,
            packets_sent: self.sealed,
            bytes_received: 0,
            bytes_sent: 0,
        })
    }

    fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }
}

#[derive(Debug, Default)]
pub(super) struct GuardedFactory {
    helper: Option<Arc<Helper>>,
}

impl SecurityFactory for GuardedFactory {
    fn index(&self) -> u8 {
        GUARDED
    }

    fn accept(&mut self, _: u32, _: u32) -> Box<dyn Security> {
        Box::new(Guarded { server: true, helper: self.helper.clone(), ..Guarded::default() })
    }
}

fn guarded(
    client: Guarded,
    config: EndpointConfig,
    factory: GuardedFactory,
) -> (Pair, crate::ConnectionHandle) {
    let mut pair = Pair::with(small_config(), config);
    pair.server.add_security(Box::new(factory));
    let (now, server) = (pair.now, pair.server_address);
    let connection = pair
        .client
        .connect(now, server, ECHO, GUARDED, Box::new(client), crate::ConnectOptions::default())
        .expect("room for a connection");
    (pair, connection)
}

fn guarded_pair(wrong_by: u8) -> (Pair, crate::CallHandle) {
    let client = Guarded { nonce: wrong_by, ..Guarded::default() };
    let (mut pair, connection) = guarded(client, small_config(), GuardedFactory::default());
    let call = pair.call(connection, pattern(60_000));
    (pair, call)
}

#[test]
fn call_is_delivered_after_the_challenge_is_answered_and_packets_are_transformed() {
    let (mut pair, call) = guarded_pair(0);
    pair.keep_trace = true;
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert!(pair.transfers[&call].reply == pattern(60_000), "bytes differ");
    assert_eq!(pair.server.stats().challenges_sent, 1);
    let connection = pair.server.connections().next().expect("one");
    assert_eq!(connection.principal().map(|principal| principal.name.as_str()), Some("alice"));
    pair.assert_no_leaks();
}

/// Runs calls of a stock client that takes jumbograms, one under a class that protects data and one without.
/// The first reply of each is cut to packets before the client has said what it takes.
#[test]
fn fragments_go_to_sealed_connections_and_to_no_others() {
    let fragments = |extensions| EndpointConfig {
        jumbograms: Jumbograms::Fragments,
        extensions,
        receive_window: if extensions { small_config().receive_window } else { 32 },
        ..small_config()
    };
    let mut pair = Pair::with(fragments(false), fragments(true));
    pair.server.add_security(Box::new(GuardedFactory::default()));
    // A path of plain Ethernet: what is sent so as not to be cut up does not arrive.
    pair.filter = Some(Box::new(|wire| wire.bytes.len() <= 1_472 || wire.header().kind == PacketType::Data));
    let (now, server) = (pair.now, pair.server_address);
    let class = Box::new(Guarded::default());
    let sealed = pair.client.connect(now, server, ECHO, GUARDED, class, crate::ConnectOptions::default());
    let plain = pair.connect();
    for (connection, goes) in [(plain, false), (sealed.expect("room for a connection"), true)] {
        let before = pair.server.stats().jumbograms_sent;
        for _ in 0..2 {
            let call = pair.call(connection, pattern(60_000));
            assert!(pair.run_calls(Duration::from_secs(10)));
            assert!(pair.transfers[&call].reply == pattern(60_000), "bytes differ");
        }
        assert_eq!(pair.server.stats().jumbograms_sent > before, goes, "{:?}", pair.server.stats());
    }
    pair.assert_no_leaks();
}

#[test]
fn wrong_answer_to_the_challenge_aborts_the_connection_unserved() {
    let (mut pair, call) = guarded_pair(5);
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert!(pair.client_events.contains(&Event::Aborted { call, code: 98 }));
    assert_eq!(pair.server.stats().bad_responses, 1);
    assert!(pair.served.is_empty());
    pair.assert_no_leaks();
}

/// Returns the kinds of the server's packets before its first DATA.
fn first_sends(pair: &Pair) -> Vec<PacketType> {
    let of_server = pair.trace.iter().filter(|wire| wire.from == pair.server_address);
    of_server.map(|wire| wire.header().kind).take_while(|&kind| kind != PacketType::Data).collect()
}

#[test]
fn challenge_goes_first_and_its_answer_proves_the_address() {
    for request in [100, 60_000] {
        let config = EndpointConfig { check_reach: true, ..small_config() };
        let (mut pair, connection) = guarded(Guarded::default(), config, GuardedFactory::default());
        pair.keep_trace = true;
        let call = pair.call(connection, pattern(request));
        let start = pair.now;
        assert!(pair.run_calls(Duration::from_secs(10)));
        assert!(pair.transfers[&call].reply == pattern(request), "bytes differ");
        assert_eq!(first_sends(&pair)[0], PacketType::Challenge);
        assert!(!first_sends(&pair).contains(&PacketType::Version), "no probe beside it");
        if request == 100 {
            assert_eq!(
                pair.now - start,
                4 * pair.latency,
                "a round trip for the challenge, one for the call"
            );
        }
        pair.assert_no_leaks();
    }
}

#[test]
fn challenge_that_the_request_does_not_pay_for_waits_for_the_probe() {
    let config = EndpointConfig { check_reach: true, ..small_config() };
    let mut pair = Pair::with(small_config(), config);
    #[derive(Debug)]
    struct Wordy;
    impl SecurityFactory for Wordy {
        fn index(&self) -> u8 {
            0
        }
        fn accept(&mut self, _: u32, _: u32) -> Box<dyn Security> {
            Box::new(LongQuestion)
        }
    }
    #[derive(Debug)]
    struct LongQuestion;
    impl Security for LongQuestion {
        fn seal(&mut self, _: &PacketContext, _: &mut [u8], len: usize) -> Result<Sealed, SecurityError> {
            Ok(Sealed { len, checksum: 0 })
        }
        fn open(
            &mut self,
            _: &PacketContext,
            _: u16,
            payload: &mut [u8],
        ) -> Result<std::ops::Range<usize>, SecurityError> {
            Ok(0..payload.len())
        }
        fn needs_challenge(&self) -> bool {
            true
        }
        fn challenge(&mut self, _: &mut Surroundings<'_>, out: &mut Vec<u8>) {
            out.resize(200, 1);
        }
    }
    pair.server.add_security(Box::new(Wordy));
    pair.keep_trace = true;
    let from = pair.client_address;
    pair.inject(from, &data_packet(0x8000_1234, 4, 1, 1, 1, true));
    pair.settle();
    let probe = pair.trace.last().expect("a probe").header();
    assert!(probe.kind == PacketType::Ack && probe.wants_ack());
    assert!(pair.trace.iter().map(|wire| wire.bytes.len()).sum::<usize>() <= 3 * (HEADER_LEN + 16));
    pair.answer_ping();
    pair.settle();
    assert_eq!(pair.trace.last().expect("a challenge").header().kind, PacketType::Challenge);
    assert_eq!(pair.server.stats().challenges_sent, 1);
}

#[test]
fn answer_larger_than_a_packet_goes_out_whole_up_to_16_kib() {
    for ticket_len in [1_399, 1_400, 12_000, RESPONSE_MAX - 17] {
        let client = Guarded { ticket_len, ..Guarded::default() };
        let (mut pair, connection) = guarded(client, small_config(), GuardedFactory::default());
        pair.keep_trace = true;
        let call = pair.call(connection, pattern(60_000));
        assert!(pair.run_calls(Duration::from_secs(10)), "a ticket of {ticket_len} bytes");
        assert!(pair.transfers[&call].reply == pattern(60_000), "bytes differ");
        let response = pair.trace.iter().find(|wire| wire.header().kind == PacketType::Response);
        assert_eq!(response.expect("sent").payload().len(), 17 + ticket_len);
        pair.assert_no_leaks();
    }
}

#[test]
fn answer_beyond_the_limit_fails_the_connection_with_a_code() {
    let client = Guarded { ticket_len: RESPONSE_MAX - 16, ..Guarded::default() };
    let (mut pair, connection) = guarded(client, small_config(), GuardedFactory::default());
    let call = pair.call(connection, pattern(100));
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert!(pair.client_events.contains(&Event::Aborted { call, code: abort::MESSAGE_SIZE }));
    assert_eq!(pair.client.stats().responses_too_large, 1);
    pair.run_for(Duration::from_secs(15));
    pair.assert_no_leaks();
}

#[test]
fn first_call_of_a_second_channel_is_served_though_its_packet_was_lost_before_the_answer() {
    let (mut pair, connection) = guarded(Guarded::default(), small_config(), GuardedFactory::default());
    let mut lost = false;
    pair.filter = Some(Box::new(move |wire| {
        let header = wire.header();
        let hit = header.kind == PacketType::Data && header.channel() == 1 && !lost;
        lost |= hit;
        !hit
    }));
    let calls = [pair.call(connection, pattern(100)), pair.call(connection, pattern(200))];
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert_eq!(calls.map(|call| pair.transfers[&call].reply.len()), [100, 200]);
    assert_eq!(pair.server.stats().calls_accepted, 2);
    pair.assert_no_leaks();
}

#[test]
fn packets_of_calls_older_than_the_answer_says_are_dropped() {
    let (mut pair, connection) = guarded(Guarded::default(), small_config(), GuardedFactory::default());
    pair.client.set_call_numbers(connection, [8, 3, 0, 0]);
    pair.call(connection, pattern(100));
    assert!(pair.run_calls(Duration::from_secs(10)));
    let (epoch, cid) = pair.client.connection(connection).expect("open").id();
    let from = pair.client_address;
    // Channel 1 is at call 3, so 2 is over; a copy of it must not run.
    let mut old = data_packet(epoch, cid | 1, 2, 1, 900, true);
    old[23] = GUARDED;
    pair.inject(from, &old);
    pair.settle();
    assert_eq!((pair.server.stats().calls_accepted, pair.server.stats().old_calls), (1, 1));
}

#[test]
fn check_that_takes_time_holds_the_call_until_the_class_answers() {
    let helper = Arc::new(Helper::default());
    let factory = GuardedFactory { helper: Some(Arc::clone(&helper)) };
    let (mut pair, connection) = guarded(Guarded::default(), small_config(), factory);
    let call = pair.call(connection, pattern(60_000));
    pair.run_for(Duration::from_secs(5));
    assert_eq!((pair.server.checks_running(), pair.served.len()), (1, 0));
    assert_eq!(pair.server.stats().challenges_sent, 1, "no challenge while one answer is checked");
    helper.answer();
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert!(pair.transfers[&call].reply == pattern(60_000), "bytes differ");
    assert_eq!(pair.server.checks_running(), 0);
    pair.assert_no_leaks();
}

#[test]
fn check_that_is_never_answered_ends_with_its_connection_and_counts_until_its_helper_lets_go() {
    let helper = Arc::new(Helper::default());
    let factory = GuardedFactory { helper: Some(Arc::clone(&helper)) };
    let (mut pair, connection) = guarded(Guarded::default(), small_config(), factory);
    pair.call(connection, pattern(100));
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.server.checks_running(), 1);
    pair.filter = Some(Box::new(|_| false));
    pair.run_for(Duration::from_secs(120));
    assert_eq!((pair.server.checks_running(), pair.server.connection_count()), (1, 0), "the helper has it");
    helper.waker.lock().expect("unpoisoned").take();
    assert_eq!(pair.server.checks_running(), 0);
}

#[test]
fn one_address_has_an_eighth_of_the_checks_and_leaves_room_for_others() {
    let config = EndpointConfig { checks_max: 16, ..small_config() };
    let (mut pair, _) = guarded(Guarded::default(), config, GuardedFactory { helper: Some(Arc::default()) });
    let mut ask = |from: SocketAddr, cid: u32| {
        pair.inject_made_up_response(from, cid, GUARDED, &[42]);
        pair.server.checks_running()
    };
    let greedy: SocketAddr = "10.0.0.66:7001".parse().expect("address");
    let running: Vec<_> = (1..=4).map(|n| ask(greedy, n << 2)).collect();
    assert_eq!(running, [1, 2, 2, 2]);
    assert_eq!(ask("10.0.0.67:7001".parse().expect("address"), 100), 3);
    assert_eq!(pair.server.stats().checks_refused, 2);
}

#[test]
fn rxdebug_sees_what_the_class_tells_of_a_connection() {
    let (mut pair, connection) = guarded(Guarded::default(), small_config(), GuardedFactory::default());
    pair.call(connection, pattern(5_000));
    assert!(pair.run_calls(Duration::from_secs(10)));
    let shown =
        pair.server.connections().next().expect("one connection").security_statistics().expect("statistics");
    assert_eq!((shown.kind, shown.level, shown.packets_sent), (SecurityKind::Kad, 2, 4));
}

/// Refuses clients with a proof of a class that is not offered, by that class's own code.
///
/// The application gets an event of them now and then.
#[test]
fn proofs_of_classes_that_are_not_offered_are_refused_by_the_codes_of_their_class() {
    let codes = [
        (1, abort::INVALID_OPERATION),
        (2, 19_270_405),
        (3, abort::INVALID_OPERATION),
        (4, 1_233_242_887),
        (5, abort::INVALID_OPERATION),
        (6, 1_233_242_884),
        (255, abort::INVALID_OPERATION),
    ];
    for (index, code) in codes {
        let mut pair = Pair::new();
        pair.keep_trace = true;
        let from = pair.client_address;
        for number in 0..50 {
            let mut bytes = data_packet(0x8000_1234, number << 2, 1, 1, 1, true);
            bytes[SECURITY_AT] = index;
            pair.inject(from, &bytes);
            pair.pass(Duration::from_millis(50));
        }
        let sent: Vec<_> = pair.trace.iter().filter(|wire| wire.to == from).collect();
        assert_eq!(sent.len(), 50);
        assert!(sent.iter().all(|wire| wire.header().kind == PacketType::Abort), "{index}");
        assert!(sent.iter().all(|wire| wire.payload() == code.to_be_bytes()), "{index}");
        assert_eq!((pair.server.connection_count(), pair.server.stats().wrong_security), (0, 50));
        let told = Event::ProofRefused { remote: from, index };
        let times = pair.server_events.iter().filter(|event| **event == told).count();
        assert_eq!(
            (times, pair.server_events.len()),
            if index % 2 == 0 { (3, 3) } else { (0, 0) },
            "{index}"
        );
    }
}
