//! A challenge and its answer by themselves, and what a server makes of wrong ones.

use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use krb::{Client, OpenTicket};
use proptest::prelude::*;
use rx::security::{ConnectionContext, RngCore, Security, SecurityError, Surroundings};
use rxkad::wire::Challenge;
use rxkad::{
    Code, INDEX, Level, Observer, Policy, Refused, RxkadClient, RxkadServer, ServerConnection, Token,
};

use crate::forge::{Forge, NOW};

/// From one number of the generator to the next.
const STEP: u32 = 0x1357_9bdf;

/// A generator whose numbers are known.
pub(crate) struct Counting(pub(crate) u32);

impl RngCore for Counting {
    fn next_u32(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(STEP);
        self.0
    }

    fn next_u64(&mut self) -> u64 {
        self.next_u32().into()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next_u32() as u8);
    }
}

pub(crate) const HERE: ConnectionContext =
    ConnectionContext { epoch: 0xa460_d1fe, cid: 0x616d_1040, security: INDEX, calls: [1, 0, 7, 0] };

pub(crate) type Verdict = Result<[u32; 4], SecurityError>;

pub(crate) fn refused(code: Code) -> Verdict {
    Err(SecurityError { code: code.number() })
}

fn around<R>(now: Option<i64>, seed: u32, step: impl FnOnce(&mut Surroundings<'_>) -> R) -> R {
    let unix = now.map(|now| Duration::from_secs(now as u64));
    step(&mut Surroundings { now: Instant::now(), unix, random: &mut Counting(seed) })
}

/// What a server asks that draws this nonce.
pub(crate) fn ask_of(server: &mut ServerConnection, nonce: u32) -> Vec<u8> {
    ask(server, nonce.wrapping_sub(STEP))
}

/// What a server asks.
pub(crate) fn ask(server: &mut ServerConnection, seed: u32) -> Vec<u8> {
    let mut out = Vec::new();
    around(Some(NOW), seed, |around| server.challenge(around, &mut out));
    out
}

/// What a client answers.
pub(crate) fn answer(
    token: &Token,
    level: Level,
    connection: ConnectionContext,
    challenge: &[u8],
) -> Result<Vec<u8>, SecurityError> {
    let mut client = RxkadClient::new(token.clone(), level);
    let mut out = Vec::new();
    let told = around(Some(NOW), 1, |around| {
        client.begin(around, &connection);
        client.respond(around, &connection, challenge, Waker::noop(), &mut out)
    });
    match told {
        Poll::Ready(told) => told.map(|()| out),
        Poll::Pending => panic!("it needs nobody"),
    }
}

pub(crate) fn check_at(
    server: &mut ServerConnection,
    now: Option<i64>,
    at: ConnectionContext,
    response: &[u8],
) -> Verdict {
    match around(now, 1, |around| server.check_response(around, &at, response, Waker::noop())) {
        Poll::Ready(verdict) => verdict,
        Poll::Pending => panic!("it needs nobody"),
    }
}

pub(crate) fn check(server: &mut ServerConnection, response: &[u8]) -> Verdict {
    check_at(server, Some(NOW), HERE, response)
}

/// A new connection of a server with the forge's key, which asks and is answered by the token.
pub(crate) fn proof(
    forge: &Forge,
    policy: Policy,
    token: &Token,
    level: Level,
) -> (ServerConnection, Verdict) {
    let mut server = RxkadServer::new(forge.keys(), policy).connection();
    let challenge = ask(&mut server, 1);
    let verdict = answer(token, level, HERE, &challenge).and_then(|response| check(&mut server, &response));
    (server, verdict)
}

#[test]
fn a_client_proves_who_it_is_at_each_level() {
    let forge = Forge::new();
    for (level, number) in [(Level::Clear, 0), (Level::Auth, 1), (Level::Crypt, 2)] {
        let (server, verdict) = proof(&forge, Policy::default(), &forge.token(), level);
        assert_eq!(verdict, Ok([1, 0, 7, 0]), "the client's call numbers");
        let principal = server.principal().expect("proved");
        assert_eq!((principal.name.as_str(), principal.level), ("alice@TEST.LOCAL", number));
        assert_eq!(principal.expires_unix_s, Some(NOW as u64 + 3_600));
        assert!(!server.needs_challenge());
        let expiry = server.expiry().expect("some");
        assert_eq!((expiry.unix.as_secs(), expiry.code), (NOW as u64 + 3_600, 19_270_409));
        assert_eq!(server.statistics().map(|told| (told.level, told.flags)), Some((number, 10)));
    }
}

#[test]
fn nothing_is_known_before_the_proof() {
    let mut server = RxkadServer::new(Forge::new().keys(), Policy::default()).connection();
    assert!(server.needs_challenge() && server.principal().is_none() && server.expiry().is_none());
    assert_eq!(server.statistics().map(|told| told.flags), Some(1));
    let context = rx::security::PacketContext { epoch: 1, cid: 4, call: 1, seq: 1, from_client: true };
    let no_auth = SecurityError { code: Code::NoAuth.number() };
    assert_eq!(server.open(&context, 0, &mut [0; 16]), Err(no_auth));
    assert_eq!(server.seal(&context, &mut [0; 16], 8), Err(no_auth));
    // An answer to what was never asked.
    let unasked = answer(&Forge::new().token(), Level::Clear, HERE, &challenge_of(0)).unwrap();
    assert_eq!(check(&mut server, &unasked), refused(Code::OutOfSequence));
}

fn challenge_of(min_level: u32) -> Vec<u8> {
    let mut out = Vec::new();
    Challenge { nonce: 5, min_level }.encode(&mut out);
    out
}

#[test]
fn every_retry_asks_the_same_and_every_connection_something_else() {
    let factory = RxkadServer::new(Forge::new().keys(), Policy::default());
    let mut one = factory.connection();
    assert_eq!(ask(&mut one, 1), ask(&mut one, 2));
    assert_ne!(ask(&mut one, 1), ask(&mut factory.connection(), 2));
}

#[test]
fn levels_below_the_least_are_refused_at_both_ends() {
    let forge = Forge::new();
    let policy = Policy { min_level: Level::Crypt, ..Policy::default() };
    let (_, verdict) = proof(&forge, policy.clone(), &forge.token(), Level::Auth);
    assert_eq!(verdict, refused(Code::LevelFail), "the client itself says so");
    // One that does not look at the question.
    let mut server = RxkadServer::new(forge.keys(), policy.clone()).connection();
    let mut challenge = ask(&mut server, 1);
    challenge[8..12].fill(0);
    let response = answer(&forge.token(), Level::Auth, HERE, &challenge).unwrap();
    assert_eq!(check(&mut server, &response), refused(Code::LevelFail));
    assert!(server.needs_challenge() && server.principal().is_none());
    assert!(proof(&forge, policy, &forge.token(), Level::Crypt).1.is_ok());
}

#[test]
fn a_level_that_does_not_exist_is_refused() {
    let forge = Forge::new();
    let token = forge.token();
    let mut server = RxkadServer::new(forge.keys(), Policy::default()).connection();
    let nonce = Challenge::parse(&ask(&mut server, 1)).unwrap().nonce.wrapping_add(1);
    for (level, verdict) in
        [(3, refused(Code::LevelFail)), (u32::MAX, refused(Code::LevelFail)), (2, Ok([0; 4]))]
    {
        let proof = rxkad::wire::Proof { epoch: HERE.epoch, cid: HERE.cid, calls: [0; 4], nonce, level };
        let mut response = Vec::new();
        rxkad::wire::Response::encode(&proof, token.key(), token.kvno(), token.ticket(), &mut response);
        assert_eq!(check(&mut server, &response), verdict, "{level}");
    }
    assert!(answer(&token, Level::Crypt, HERE, &challenge_of(3)).is_err(), "nor does a client take one");
}

#[test]
fn trap_9_answers_that_are_replayed_or_moved_are_refused() {
    let (forge, factory) = (Forge::new(), RxkadServer::new(Forge::new().keys(), Policy::default()));
    let (mut first, mut second) = (factory.connection(), factory.connection());
    let response = answer(&forge.token(), Level::Crypt, HERE, &ask(&mut first, 1)).unwrap();
    let challenge = ask(&mut second, 99);
    // The same ids, another question: of an earlier connection, or of a server before its restart.
    assert_eq!(check(&mut second, &response), refused(Code::OutOfSequence));
    for there in [ConnectionContext { cid: HERE.cid + 4, ..HERE }, ConnectionContext { epoch: 1, ..HERE }] {
        assert_eq!(check_at(&mut first, Some(NOW), there, &response), refused(Code::SealedInconsistency));
    }
    assert!(first.needs_challenge() && second.needs_challenge(), "no state of a refused proof");
    assert!(check(&mut first, &response).is_ok());
    let right = answer(&forge.token(), Level::Crypt, HERE, &challenge).unwrap();
    assert!(check(&mut second, &right).is_ok());
}

#[test]
fn trap_9_every_flipped_bit_of_a_challenge_is_refused_or_of_no_account() {
    let forge = Forge::new();
    for bit in 0..128 {
        let mut server = RxkadServer::new(forge.keys(), Policy::default()).connection();
        let mut challenge = ask(&mut server, 1);
        challenge[bit / 8] ^= 0x80 >> (bit % 8);
        let found = answer(&forge.token(), Level::Crypt, HERE, &challenge);
        let found = found.and_then(|response| check(&mut server, &response));
        match bit {
            // Not a challenge: dropped.
            0..32 => assert_eq!(found, Err(SecurityError { code: rx::abort::PROTOCOL_ERROR })),
            32..64 => assert_eq!(found, refused(Code::OutOfSequence)),
            // No level 4 and up; 1 and 2 the client fulfils.
            64..94 => assert_eq!(found, refused(Code::LevelFail)),
            _ => assert!(found.is_ok()),
        }
    }
}

#[test]
fn trap_9_every_flipped_bit_of_a_response_leaves_no_state() {
    let forge = Forge::new();
    let mut server = RxkadServer::new(forge.keys(), Policy::default()).connection();
    let response = answer(&forge.token(), Level::Crypt, HERE, &ask(&mut server, 1)).unwrap();
    let mut taken = Vec::new();
    for bit in 0..response.len() * 8 {
        let mut flipped = response.clone();
        flipped[bit / 8] ^= 0x80 >> (bit % 8);
        match check(&mut server, &flipped) {
            Err(error) => assert!(Code::from_number(error.code).is_some(), "bit {bit}: {error}"),
            // What a ticket says of the service and of the key's version is not protected: any key of ours may open it.
            Ok(_) => taken.push(bit),
        }
        assert!(taken.iter().all(|bit| *bit >= 56 * 8), "{taken:?}");
        if !server.needs_challenge() {
            server = RxkadServer::new(forge.keys(), Policy::default()).connection();
            ask(&mut server, 1);
        }
    }
    assert!(taken.len() < response.len(), "{}", taken.len());
}

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl Observer for Heard {
    fn accepted(&self, _: &ConnectionContext, ticket: &OpenTicket, level: Level) {
        let who = if ticket.client == Client::LocalAuth { "superuser" } else { "user" };
        self.0.lock().unwrap().push(format!("{who} {level} kvno {}", ticket.opened_by.kvno));
    }

    fn refused(&self, connection: &ConnectionContext, refused: &Refused) {
        self.0.lock().unwrap().push(format!("{:x} {refused}", connection.cid));
    }
}

#[test]
fn an_observer_hears_of_each_proof_and_of_no_key() {
    let (forge, heard) = (Forge::new(), Arc::new(Heard::default()));
    let factory = RxkadServer::with_observer(forge.keys(), Policy::default(), Some(heard.clone()));
    let late = Forge { end_time: NOW - 1, ..Forge::new() };
    for token in [forge.token(), forge.local_auth(), late.token()] {
        let mut server = factory.connection();
        let response = answer(&token, Level::Auth, HERE, &ask(&mut server, 1)).unwrap();
        let _ = check(&mut server, &response);
    }
    let heard = heard.0.lock().unwrap();
    assert_eq!(*heard, ["user auth kvno 3", "superuser auth kvno 3", "616d1040 the ticket has expired"]);
}

#[test]
fn trap_17_debug_tells_no_key_and_no_ticket() {
    let forge = Forge::new();
    let (server, verdict) = proof(&forge, Policy::default(), &forge.token(), Level::Crypt);
    assert!(verdict.is_ok());
    let client = RxkadClient::new(forge.token(), Level::Crypt);
    let shown = format!("{server:?} {client:?} {:?}", forge.token());
    for secret in
        [&forge.ticket()[..8], &forge.token().key().bytes()[..], forge.session.bytes(), forge.key.bytes()]
    {
        let list = format!("{secret:?}");
        assert!(!shown.contains(list.trim_matches(['[', ']'])), "{shown}");
    }
}

proptest! {
    #[test]
    fn any_response_is_refused_with_a_code(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400), kvno in prop::sample::select(vec![256u32, 213, 3]), fits: bool,
    ) {
        if fits && bytes.len() >= 56 {
            let len = bytes.len() as u32 - 56;
            bytes[..4].copy_from_slice(&2u32.to_be_bytes());
            bytes[48..52].copy_from_slice(&kvno.to_be_bytes());
            bytes[52..56].copy_from_slice(&len.to_be_bytes());
        }
        let mut server = RxkadServer::new(Forge::new().keys(), Policy::default()).connection();
        ask(&mut server, 1);
        let verdict = check(&mut server, &bytes);
        prop_assert!(verdict.is_err_and(|error| Code::from_number(error.code).is_some()));
        prop_assert!(server.needs_challenge());
    }

    #[test]
    fn any_bytes_within_a_right_response_are_refused_or_of_no_account(
        at in 0usize..300, with in prop::collection::vec(any::<u8>(), 1..40), cut in 0usize..400,
    ) {
        let forge = Forge::new();
        let mut server = RxkadServer::new(forge.keys(), Policy::default()).connection();
        let mut response = answer(&forge.token(), Level::Crypt, HERE, &ask(&mut server, 1)).unwrap();
        let end = (at + with.len()).min(response.len());
        if at < end {
            response[at..end].copy_from_slice(&with[..end - at]);
        }
        response.truncate(response.len().max(cut + 1) - cut);
        if check(&mut server, &response).is_ok() {
            prop_assert_eq!(&server.principal().unwrap().name, "alice@TEST.LOCAL");
        }
    }

    #[test]
    fn any_challenge_is_answered_or_dropped(bytes in prop::collection::vec(any::<u8>(), 0..40), version: bool) {
        let mut bytes = bytes;
        if version && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&2u32.to_be_bytes());
        }
        if let Err(error) = answer(&Forge::new().token(), Level::Auth, HERE, &bytes) {
            prop_assert!([Code::LevelFail.number(), rx::abort::PROTOCOL_ERROR].contains(&error.code));
        }
    }
}
