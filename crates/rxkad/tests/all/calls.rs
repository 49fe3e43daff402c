//! Whole calls through `rx`: what its seam does with a class that holds the first DATA until the proof has come.

use std::time::Duration;

use rx::header::PacketType;
use rx::security::NullSecurity;
use rx::{CallHandle, Event, OpenError};
use rxkad::{Code, Level, PacketKey, Policy, RxkadServer};

use crate::forge::{Forge, NOW};
use crate::pair::Pair;

fn world(forge: &Forge, policy: Policy) -> Pair {
    Pair::new(RxkadServer::new(forge.keys(), policy))
}

/// Bytes that differ from packet to packet.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}

fn aborted(pair: &Pair, call: CallHandle) -> Option<Code> {
    match pair.calls[&call].end {
        Some(Event::Aborted { code, .. }) => Code::from_number(code),
        _ => None,
    }
}

#[test]
fn calls_of_every_level_and_length_come_back() {
    for level in [Level::Clear, Level::Auth, Level::Crypt] {
        let forge = Forge::new();
        let mut pair = world(&forge, Policy::default());
        let connection = pair.connect(forge.token(), level);
        for len in [0, 1, 3, 4, 5, 8, 1_400, 1_416, 60_000, 300_001] {
            let call = pair.call(connection, pattern(len));
            pair.run_calls();
            assert!(matches!(pair.calls[&call].end, Some(Event::Finished(_))), "{level} {len}");
            assert!(pair.calls[&call].taken == pattern(len), "{level}: {len} bytes differ");
        }
        let served = pair.server.connections().next().expect("one");
        let principal = served.principal().expect("proved");
        assert_eq!((principal.name.as_str(), principal.level), ("alice@TEST.LOCAL", level as u8));
        let told = served.security_statistics().expect("some");
        assert_eq!((told.level, told.flags, told.bytes_received), (level as u8, 10, 362_838));
        assert_eq!(told.bytes_received, told.bytes_sent);
        assert_eq!(pair.server.stats().security_refusals, 0);
    }
}

#[test]
fn the_first_data_is_sealed_before_the_challenge_and_held_until_the_proof() {
    let forge = Forge::new();
    let mut pair = world(&forge, Policy::default());
    pair.filter = Some(Box::new(|wire| wire.header().kind != PacketType::Response));
    let connection = pair.connect(forge.token(), Level::Crypt);
    let call = pair.call(connection, b"a secret of 21 bytes.".to_vec());
    pair.run_for(Duration::from_secs(5));
    assert!(pair.served.is_empty() && pair.calls[&call].end.is_none(), "no proof, no call");
    let first = &pair.trace[0];
    assert_eq!(first.header().kind, PacketType::Data);
    assert_ne!(first.header().checksum, 0);
    assert_eq!(first.payload().len(), 32, "8 before the data, padded to blocks");
    assert!(!first.payload().windows(8).any(|part| part == b"a secret"));
    pair.filter = None;
    pair.run_calls();
    assert_eq!(pair.calls[&call].taken, b"a secret of 21 bytes.");
    let response = pair.trace.iter().find(|wire| wire.header().kind == PacketType::Response).expect("one");
    assert_eq!(&response.payload()[48..52], [0, 0, 1, 0]);
}

#[test]
fn packets_of_a_connection_have_the_checksums_of_their_places() {
    let forge = Forge::new();
    let mut pair = world(&forge, Policy::default());
    let connection = pair.connect(forge.token(), Level::Clear);
    for _ in 0..2 {
        pair.call(connection, pattern(5_000));
        pair.run_calls();
    }
    let mut seen = 0;
    for wire in pair.trace.iter().filter(|wire| wire.header().kind == PacketType::Data) {
        let header = wire.header();
        let key = PacketKey::new(forge.token().key(), header.epoch, header.cid);
        let at = rx::security::PacketContext {
            epoch: header.epoch,
            cid: header.cid,
            call: header.call,
            seq: header.seq,
            from_client: wire.from_client,
        };
        assert_eq!(header.checksum, key.header_checksum(&at));
        seen += 1;
    }
    assert!(seen >= 16, "{seen}");
}

#[test]
fn trap_9_a_flipped_bit_of_the_first_packets_protected_part_ends_the_call() {
    for (level, at) in [(Level::Clear, 25), (Level::Auth, 30), (Level::Crypt, 40)] {
        let forge = Forge::new();
        let mut pair = world(&forge, Policy::default());
        let mut is_first = true;
        pair.filter = Some(Box::new(move |wire| {
            if std::mem::take(&mut is_first) {
                wire.bytes[at] ^= 1;
            }
            true
        }));
        let connection = pair.connect(forge.token(), level);
        let call = pair.call(connection, pattern(40));
        pair.run_calls();
        let expected = [Code::SealedInconsistency, Code::DataLength];
        let found = aborted(&pair, call);
        // Past the first word PCBC shows nothing: what is after the flipped bit is noise, and arrives.
        let is_seen = !matches!((level, at), (Level::Crypt, 40));
        assert_eq!(found.is_some_and(|code| expected.contains(&code)), is_seen, "{level} {found:?}");
    }
}

#[test]
fn header_checksums_of_0_are_refused_from_the_first_packet_on() {
    let forge = Forge::new();
    let mut pair = world(&forge, Policy::default());
    pair.filter = Some(Box::new(|wire| {
        if wire.from_client && wire.header().kind == PacketType::Data {
            wire.bytes[24..26].fill(0);
        }
        true
    }));
    let connection = pair.connect(forge.token(), Level::Clear);
    let call = pair.call(connection, pattern(40));
    pair.run_calls();
    assert_eq!(aborted(&pair, call), Some(Code::SealedInconsistency));
    assert!(pair.served.is_empty());
}

#[test]
fn refused_tokens_end_the_connection_with_their_code() {
    let right = Forge::new();
    let other = Forge { key: crate::forge::key(krb::Etype::Aes256Sha1, 0x55), ..Forge::new() };
    let newer = Forge { kvno: 9, ..other.clone() };
    for (token, code) in [
        (other.token(), Code::BadTicket),
        (newer.token(), Code::UnknownKey),
        (right.token_of(3, &right.ticket()), Code::UnknownKey),
        (Forge::of(&["a.b"], "TEST.LOCAL").token(), Code::BadTicket),
    ] {
        let mut pair = world(&right, Policy::default());
        let connection = pair.connect(token, Level::Crypt);
        let call = pair.call(connection, pattern(40));
        pair.run_calls();
        assert_eq!(aborted(&pair, call), Some(code));
        assert!(pair.served.is_empty());
        assert_eq!(pair.client.open_call(pair.now, connection), Err(OpenError::Aborted(code.number())));
    }
}

#[test]
fn a_client_below_the_least_level_is_told_so() {
    let forge = Forge::new();
    let mut pair = world(&forge, Policy { min_level: Level::Crypt, ..Policy::default() });
    let connection = pair.connect(forge.token(), Level::Auth);
    let call = pair.call(connection, pattern(40));
    pair.run_calls();
    assert_eq!(aborted(&pair, call), Some(Code::LevelFail));
}

#[test]
fn trap_10_calls_without_a_proof_are_anonymous_beside_a_proved_connection() {
    let forge = Forge::new();
    let mut pair = world(&forge, Policy::default());
    let proved = pair.connect(forge.token(), Level::Crypt);
    let anonymous = pair.connect_by(0, Box::new(NullSecurity));
    for connection in [proved, anonymous, proved] {
        pair.call(connection, pattern(100));
        pair.run_calls();
    }
    let names: Vec<_> = pair
        .server
        .connections()
        .map(|one| (one.security_index(), one.principal().map(|principal| principal.name.clone())))
        .collect();
    assert!(names.contains(&(2, Some("alice@TEST.LOCAL".to_owned()))), "{names:?}");
    assert!(names.contains(&(0, None)), "{names:?}");
    // A packet of the proved connection under another index is nobody's.
    let mut moved = pair.trace.iter().find(|wire| wire.header().security == 2).expect("some").clone();
    moved.bytes[23] = 0;
    let (now, before) = (pair.now, pair.server.stats().wrong_security);
    pair.server.handle_datagram(now, ([10, 0, 0, 1], 7_001).into(), None, &moved.bytes);
    assert_eq!(pair.server.stats().wrong_security, before + 1);
}

#[test]
fn trap_13_a_token_that_ends_mid_transfer_ends_its_calls_with_the_code() {
    let forge = Forge { end_time: NOW + 30, ..Forge::new() };
    let mut pair = world(&forge, Policy::default());
    // The client thinks that it is yesterday.
    pair.client.set_time_of_day(pair.now, Duration::from_secs(NOW as u64 - 86_400));
    let connection = pair.connect(forge.token(), Level::Crypt);
    let early = pair.call(connection, pattern(40));
    pair.run_calls();
    assert!(matches!(pair.calls[&early].end, Some(Event::Finished(_))));
    pair.server_sleeps = true;
    let late = pair.call(connection, pattern(40));
    pair.run_for(Duration::from_secs(40));
    assert_eq!(aborted(&pair, late), Some(Code::Expired));
    pair.server_sleeps = false;
    let again = pair.connect(Forge::new().token(), Level::Crypt);
    let call = pair.call(again, pattern(40));
    pair.run_calls();
    assert_eq!(pair.calls[&call].taken, pattern(40));
}

#[test]
fn losses_cost_time_and_nothing_else() {
    let forge = Forge::new();
    let mut pair = world(&forge, Policy::default());
    let mut count = 0;
    pair.filter = Some(Box::new(move |_| {
        count += 1;
        count % 7 != 3
    }));
    let connection = pair.connect(forge.token(), Level::Crypt);
    let call = pair.call(connection, pattern(60_000));
    pair.run_calls();
    assert!(pair.calls[&call].taken == pattern(60_000));
}

#[test]
fn a_local_superuser_calls() {
    let forge = Forge::new();
    let mut pair = world(&forge, Policy::default());
    let connection = pair.connect(forge.local_auth(), Level::Crypt);
    let call = pair.call(connection, pattern(3_000));
    pair.run_calls();
    assert!(pair.calls[&call].taken == pattern(3_000));
    let principal = pair.server.connections().next().and_then(|one| one.principal()).cloned();
    assert_eq!(principal.map(|principal| principal.name).as_deref(), Some(rxkad::LOCAL_AUTH));
}

#[test]
fn a_large_ticket_goes_in_one_response() {
    let forge = Forge::new();
    let mut pair = world(&forge, Policy::default());
    // As long as a ticket may be: it does not decrypt, and all of it arrived.
    let connection = pair.connect(forge.token_of(213, &[0x30; 12_000]), Level::Clear);
    let call = pair.call(connection, pattern(40));
    pair.run_calls();
    assert_eq!(aborted(&pair, call), Some(Code::BadTicket));
}
