//! Tests of a security class in the shape of rxkad and rxgk.
//!
//! Tickets expire, keys change with the bytes they have sealed, there are three levels of protection, and
//! helpers take their time over both sides' part of the challenge.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{ECHO, Pair, pattern, small_config};
use crate::header::PacketType;
use crate::security::{
    ConnectionContext, Expiry, PacketContext, Principal, Sealed, Security, SecurityError, SecurityFactory,
    SecurityKind, SecurityStats, Surroundings,
};
use crate::{ConnectOptions, ConnectionHandle, EndpointConfig, Event, OpenError};

const TICKETED: u8 = 5;
const EXPIRED: i32 = 19_270_409;
const BAD_TICKET: i32 = 19_270_408;
/// Bytes that a key seals before it is replaced.
const REKEY_BYTES: u64 = 10_000;
/// Time of day when the tests begin, since 1970.
const TODAY: Duration = Duration::from_secs(1_800_000_000);

/// Jobs that helpers have in hand.
type Jobs = Arc<Mutex<VecDeque<Job>>>;

#[derive(Debug)]
struct Job {
    input: Vec<u8>,
    output: Arc<Mutex<Option<Vec<u8>>>>,
    waker: Waker,
}

/// Runs the next job, if there is one.
fn work(jobs: &Jobs) -> bool {
    let Some(job) = jobs.lock().unwrap().pop_front() else { return false };
    *job.output.lock().unwrap() = Some(job.input);
    job.waker.wake();
    true
}

/// Work of a security class, done at once or by helpers, which pass it through.
#[derive(Debug, Default)]
struct Work {
    jobs: Option<Jobs>,
    under_way: Option<Arc<Mutex<Option<Vec<u8>>>>>,
}

impl Work {
    fn begin(&mut self, input: &[u8], waker: &Waker) -> Poll<Vec<u8>> {
        let Some(jobs) = &self.jobs else { return Poll::Ready(input.to_vec()) };
        let output = Arc::<Mutex<Option<Vec<u8>>>>::default();
        self.under_way = Some(Arc::clone(&output));
        jobs.lock().unwrap().push_back(Job { input: input.to_vec(), output, waker: waker.clone() });
        Poll::Pending
    }

    fn poll(&mut self) -> Poll<Vec<u8>> {
        let done = self.under_way.as_ref().and_then(|output| output.lock().unwrap().take());
        done.map_or(Poll::Pending, Poll::Ready)
    }
}

#[derive(Debug, Default)]
struct Ticketed {
    server: bool,
    /// Level of the client's ticket; of the server once proved.
    level: u8,
    expires: u64,
    nonce: u64,
    generator: Option<StdRng>,
    work: Work,
    principal: Option<Principal>,
    /// Key in use each way, and bytes sealed with ours.
    key_out: u8,
    key_in: u8,
    sealed_by_key: u64,
    stats: [u32; 4],
}

impl Ticketed {
    fn client(level: u8, expires: Duration) -> Self {
        Self { level, expires: expires.as_secs(), ..Self::default() }
    }

    fn tag(key: u8, at: &PacketContext, data: &[u8]) -> u8 {
        let sum = data.iter().fold(0u8, |sum, byte| sum.rotate_left(1) ^ byte);
        sum ^ key.wrapping_mul(151)
            ^ (at.seq as u8).wrapping_mul(31)
            ^ at.call as u8
            ^ u8::from(at.from_client)
    }

    fn answer(&self, challenge: &[u8], calls: [u32; 4]) -> Vec<u8> {
        let nonce = u64::from_be_bytes(challenge.try_into().expect("8 bytes"));
        let mut answer = (nonce + 1).to_be_bytes().to_vec();
        answer.extend(self.expires.to_be_bytes());
        answer.push(self.level);
        answer.extend(calls.iter().flat_map(|call| call.to_be_bytes()));
        answer
    }

    /// Returns the verdict on an answer that has been deciphered.
    fn judge(&mut self, around: &Surroundings<'_>, answer: &[u8]) -> Result<[u32; 4], SecurityError> {
        let word = |at: usize| answer.get(at..at + 8).map(|b| u64::from_be_bytes(b.try_into().expect("8")));
        let bad = SecurityError { code: BAD_TICKET };
        let (nonce, expires) = (word(0).ok_or(bad)?, word(8).ok_or(bad)?);
        if nonce != self.nonce + 1 || answer.len() != 33 {
            return Err(bad);
        }
        if around.unix.is_some_and(|now| now.as_secs() >= expires) {
            return Err(SecurityError { code: EXPIRED });
        }
        (self.expires, self.level) = (expires, answer[16]);
        let name = "alice@EXAMPLE".to_owned();
        self.principal = Some(Principal { name, level: self.level, expires_unix_s: Some(expires) });
        let call = |n: usize| u32::from_be_bytes(answer[17 + 4 * n..21 + 4 * n].try_into().expect("4"));
        Ok(std::array::from_fn(call))
    }
}

impl Security for Ticketed {
    fn begin(&mut self, around: &mut Surroundings<'_>, _: &ConnectionContext) {
        let mut seed = [0; 32];
        around.random.fill_bytes(&mut seed);
        self.generator = Some(StdRng::from_seed(seed));
    }

    fn expiry(&self) -> Option<Expiry> {
        let known = !self.server || self.principal.is_some();
        known.then(|| Expiry { unix: Duration::from_secs(self.expires), code: EXPIRED })
    }

    fn header_room(&self) -> usize {
        8
    }

    fn seal(&mut self, at: &PacketContext, payload: &mut [u8], len: usize) -> Result<Sealed, SecurityError> {
        if self.sealed_by_key >= REKEY_BYTES {
            (self.key_out, self.sealed_by_key) = (self.key_out + 1, 0);
        }
        self.sealed_by_key += len as u64;
        let confounder: u64 = self.generator.as_mut().expect("begun").random();
        payload[..8].copy_from_slice(&confounder.to_be_bytes());
        if self.level == 2 {
            payload[8..8 + len].iter_mut().for_each(|byte| *byte ^= self.key_out | 0x80);
        }
        let tag = if self.level > 0 { Self::tag(self.key_out, at, &payload[..8 + len]) } else { 0 };
        self.stats[1] += 1;
        self.stats[3] += len as u32;
        Ok(Sealed { len: 8 + len, checksum: u16::from_be_bytes([self.key_out, tag]) })
    }

    fn open(
        &mut self,
        at: &PacketContext,
        checksum: u16,
        payload: &mut [u8],
    ) -> Result<Range<usize>, SecurityError> {
        let [key, tag] = checksum.to_be_bytes();
        // Packets of the last key may be under way, those of the next are welcome.
        if key.abs_diff(self.key_in) > 1 || payload.len() < 8 {
            return Err(SecurityError { code: BAD_TICKET });
        }
        if self.level > 0 && tag != Self::tag(key, at, payload) {
            return Err(SecurityError { code: BAD_TICKET });
        }
        if self.level == 2 {
            payload[8..].iter_mut().for_each(|byte| *byte ^= key | 0x80);
        }
        self.key_in = self.key_in.max(key);
        self.stats[0] += 1;
        self.stats[2] += payload.len() as u32 - 8;
        Ok(8..payload.len())
    }

    fn needs_challenge(&self) -> bool {
        self.server
    }

    fn challenge(&mut self, around: &mut Surroundings<'_>, out: &mut Vec<u8>) {
        if self.nonce == 0 {
            self.nonce = (around.random.next_u64() >> 1) + 1;
        }
        out.extend(self.nonce.to_be_bytes());
    }

    fn check_response(
        &mut self,
        around: &mut Surroundings<'_>,
        _: &ConnectionContext,
        response: &[u8],
        waker: &Waker,
    ) -> Poll<Result<[u32; 4], SecurityError>> {
        self.work.begin(response, waker).map(|answer| self.judge(around, &answer))
    }

    fn poll_check(
        &mut self,
        around: &mut Surroundings<'_>,
        _: &Waker,
    ) -> Poll<Result<[u32; 4], SecurityError>> {
        self.work.poll().map(|answer| self.judge(around, &answer))
    }

    fn respond(
        &mut self,
        _: &mut Surroundings<'_>,
        connection: &ConnectionContext,
        challenge: &[u8],
        waker: &Waker,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), SecurityError>> {
        let answer = self.answer(challenge, connection.calls);
        self.work.begin(&answer, waker).map(|answer| {
            out.extend(answer);
            Ok(())
        })
    }

    fn poll_respond(
        &mut self,
        _: &mut Surroundings<'_>,
        _: &ConnectionContext,
        _: &Waker,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), SecurityError>> {
        self.work.poll().map(|answer| {
            out.extend(answer);
            Ok(())
        })
    }

    fn statistics(&self) -> Option<SecurityStats> {
        let [packets_received, packets_sent, bytes_received, bytes_sent] = self.stats;
        Some(SecurityStats {
            kind: SecurityKind::Kad,
            level: self.level,
            flags: if self.principal.is_some() { 2 } else { 1 },
            expires: self.expires as u32,
            packets_received,
            packets_sent,
            bytes_received,
            bytes_sent,
        })
    }

    fn principal(&self) -> Option<&Principal> {
        self.principal.as_ref()
    }
}

#[derive(Debug, Default)]
struct Tickets {
    jobs: Option<Jobs>,
}

impl SecurityFactory for Tickets {
    fn index(&self) -> u8 {
        TICKETED
    }

    fn accept(&mut self, _: u32, _: u32) -> Box<dyn Security> {
        let work = Work { jobs: self.jobs.clone(), under_way: None };
        Box::new(Ticketed { server: true, work, ..Ticketed::default() })
    }
}

fn world(config: EndpointConfig, jobs: Option<Jobs>) -> Pair {
    let mut pair = Pair::with(small_config(), config);
    pair.server.add_security(Box::new(Tickets { jobs }));
    pair.client.set_time_of_day(pair.now, TODAY);
    pair.server.set_time_of_day(pair.now, TODAY);
    pair
}

fn connect(pair: &mut Pair, class: Ticketed) -> ConnectionHandle {
    let (now, server) = (pair.now, pair.server_address);
    pair.client
        .connect(now, server, ECHO, TICKETED, Box::new(class), ConnectOptions::default())
        .expect("room for a connection")
}

fn hour() -> Duration {
    TODAY + Duration::from_secs(3600)
}

#[test]
fn keys_change_with_the_bytes_sealed_and_every_level_carries_calls() {
    for level in 0..3 {
        let mut pair = world(small_config(), None);
        let connection = connect(&mut pair, Ticketed::client(level, hour()));
        let call = pair.call(connection, pattern(60_000));
        assert!(pair.run_calls(Duration::from_secs(10)), "level {level}");
        assert!(pair.transfers[&call].reply == pattern(60_000), "bytes differ");
        let served = pair.server.connections().next().expect("one");
        let principal = served.principal().expect("proved");
        assert_eq!((principal.name.as_str(), principal.level), ("alice@EXAMPLE", level));
        let told = served.security_statistics().expect("some");
        assert_eq!((told.level, told.bytes_received, told.bytes_sent), (level, 60_000, 60_000));
        assert_eq!(u64::from(told.expires), hour().as_secs());
        assert!(told.packets_received > 40, "{told:?}");
        pair.assert_no_leaks();
    }
}

#[test]
fn challenges_are_drawn_from_the_endpoints_seed() {
    let question = || {
        let mut pair = world(small_config(), None);
        pair.keep_trace = true;
        let connection = connect(&mut pair, Ticketed::client(1, hour()));
        pair.call(connection, pattern(100));
        assert!(pair.run_calls(Duration::from_secs(10)));
        let sent = pair.trace.iter().find(|wire| wire.header().kind == PacketType::Challenge);
        sent.expect("asked").payload().to_vec()
    };
    assert_eq!(question(), question());
    let mut pair = world(small_config(), None);
    pair.keep_trace = true;
    for _ in 0..2 {
        let connection = connect(&mut pair, Ticketed::client(1, hour()));
        pair.call(connection, pattern(100));
        assert!(pair.run_calls(Duration::from_secs(10)));
    }
    let asked = pair.trace.iter().filter(|wire| wire.header().kind == PacketType::Challenge);
    let asked: Vec<_> = asked.map(|wire| wire.payload().to_vec()).collect();
    assert_ne!(asked[0], asked[1], "each connection has its own");
}

#[test]
fn connection_ends_with_its_ticket_and_a_new_one_with_a_new_ticket_goes_on() {
    let mut pair = world(small_config(), None);
    let expires = TODAY + Duration::from_secs(30);
    let connection = connect(&mut pair, Ticketed::client(2, expires));
    let call = pair.call(connection, pattern(5_000));
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert_eq!(pair.transfers[&call].reply.len(), 5_000);
    // One is under way when it ends: the server has its request and says nothing.
    pair.server_sleeps = true;
    let late = pair.call(connection, pattern(100));
    pair.run_for(Duration::from_secs(40));
    assert!(pair.client_events.contains(&Event::Aborted { call: late, code: EXPIRED }));
    assert!(pair.server_events.iter().any(|event| matches!(event, Event::Aborted { code: EXPIRED, .. })));
    assert_eq!(pair.client.open_call(pair.now, connection), Err(OpenError::Aborted(EXPIRED)));
    assert_eq!(pair.server.stats().connections_expired, 1);
    pair.server_sleeps = false;
    let again = connect(&mut pair, Ticketed::client(2, hour()));
    let call = pair.call(again, pattern(5_000));
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert_eq!(pair.transfers[&call].reply.len(), 5_000);
    pair.assert_no_leaks();
}

#[test]
fn server_ends_a_connection_whose_client_has_another_idea_of_the_time() {
    let mut pair = world(small_config(), None);
    // To the client it is yesterday.
    pair.client.set_time_of_day(pair.now, TODAY - Duration::from_secs(86_400));
    let connection = connect(&mut pair, Ticketed::client(1, TODAY + Duration::from_secs(20)));
    pair.call(connection, pattern(100));
    assert!(pair.run_calls(Duration::from_secs(10)));
    pair.run_for(Duration::from_secs(30));
    assert_eq!((pair.server.stats().connections_expired, pair.client.stats().connections_expired), (1, 0));
    assert_eq!(pair.client.open_call(pair.now, connection), Err(OpenError::Aborted(EXPIRED)));
}

#[test]
fn ticket_that_has_expired_is_refused_on_arrival() {
    let mut pair = world(small_config(), None);
    pair.client.set_time_of_day(pair.now, TODAY - Duration::from_secs(86_400));
    let connection = connect(&mut pair, Ticketed::client(1, TODAY - Duration::from_secs(1)));
    let call = pair.call(connection, pattern(100));
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert!(pair.client_events.contains(&Event::Aborted { call, code: EXPIRED }));
    assert!(pair.served.is_empty());
}

#[test]
fn clients_answer_may_come_from_a_helper_too() {
    let jobs = Jobs::default();
    let mut pair = world(small_config(), Some(Arc::clone(&jobs)));
    let work_here = Work { jobs: Some(Arc::clone(&jobs)), under_way: None };
    let connection = connect(&mut pair, Ticketed { work: work_here, ..Ticketed::client(2, hour()) });
    let call = pair.call(connection, pattern(20_000));
    pair.run_for(Duration::from_secs(5));
    assert_eq!((pair.client.checks_running(), pair.server.checks_running()), (1, 0));
    assert_eq!(jobs.lock().unwrap().len(), 1, "challenges repeated meanwhile make no more work");
    assert!(work(&jobs));
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.server.checks_running(), 1);
    // A challenge may have been on its way when the answer left: it is answered once more.
    while work(&jobs) {
        pair.run_for(Duration::from_millis(100));
    }
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert!(pair.transfers[&call].reply == pattern(20_000), "bytes differ");
    assert_eq!((pair.client.checks_running(), pair.server.checks_running()), (0, 0));
    pair.assert_no_leaks();
}

#[test]
fn flood_of_made_up_answers_while_helpers_are_slow_leaves_room_for_clients_that_are_there() {
    let jobs = Jobs::default();
    let config = EndpointConfig { checks_max: 64, check_reach: true, unproved_max: 256, ..small_config() };
    let mut pair = world(config, Some(Arc::clone(&jobs)));
    for n in 0..1_000u32 {
        let from = SocketAddr::from(([198, 51, (n / 250) as u8, (n % 250) as u8 + 1], 7001));
        pair.inject_made_up_response(from, n << 2, TICKETED, &[9; 33]);
        assert!(jobs.lock().unwrap().len() <= 32, "half of the places, at most");
    }
    assert_eq!(pair.server.checks_running(), 32);
    let refused = pair.server.stats().checks_refused;
    assert!(refused > 100, "{refused}");
    // The flood's connections go; helpers still have their answers in hand, and no more than these.
    pair.run_for(Duration::from_secs(30));
    assert_eq!((pair.server.checks_running(), jobs.lock().unwrap().len()), (32, 32));
    let connection = connect(&mut pair, Ticketed::client(2, hour()));
    let call = pair.call(connection, pattern(3_000));
    pair.run_for(Duration::from_secs(2));
    assert_eq!(jobs.lock().unwrap().len(), 33, "the client that is there has a place");
    while work(&jobs) {}
    assert!(pair.run_calls(Duration::from_secs(10)));
    assert_eq!(pair.transfers[&call].reply.len(), 3_000);
    assert_eq!(pair.server.checks_running(), 0);
    pair.assert_no_leaks();
}
