//! What an acceptor accepts, and what it knows then.

use krb::gss::{GssChecksum, MessageIntegrity, Role};
use krb::message::KrbError;
use krb::{
    Acceptor, BindingCheck, ChannelBindings, Etype, GssFlags, KeySource, Policy, Principal, Reason,
    ReplayCache, Request, ServiceName, Time,
};

use crate::forge::{Forge, NOW, key, request};

#[test]
fn every_type_signs_in_framed_or_bare() {
    for etype in Etype::ALL {
        let forge = Forge::new(etype);
        let accepted = forge.accept().unwrap();
        assert_eq!(accepted.session_key.bytes(), forge.subkey.as_ref().unwrap().bytes());
        assert_eq!(accepted.ticket.end_time, Time::from_seconds(NOW + 3_600));
        assert_eq!(accepted.flags, GssFlags(0x2e));
        assert_eq!(accepted.ticket.opened_by.kvno, 3);
        let bare = Forge { mechanism: None, checksum: None, ..forge };
        let reply = bare.accept().unwrap().reply.unwrap();
        assert_eq!(reply[0], 0x6f, "the reply is as bare as the request");
    }
}

#[test]
fn without_a_subkey_the_key_is_the_tickets() {
    let forge = Forge { subkey: None, ..Forge::new(Etype::Aes256Sha1) };
    let accepted = forge.accept().unwrap();
    assert_eq!(accepted.key_source, KeySource::Ticket);
    assert_eq!(accepted.session_key, forge.session);
}

#[test]
fn without_mutual_authentication_there_is_no_reply_and_sequences_are_shared() {
    let checksum = GssChecksum { bindings: [0; 16], flags: GssFlags::INTEGRITY }.encode();
    let forge = Forge {
        mutual: false,
        checksum: Some((GssChecksum::TYPE, checksum)),
        seq_number: Some(5),
        ..Forge::new(Etype::Aes128Sha1)
    };
    let mut accepted = forge.accept().unwrap();
    assert_eq!(accepted.reply, None);
    let mut client = MessageIntegrity::new(key(Etype::Aes128Sha1, 0x33), Role::Initiator, false, 5, 5);
    accepted.messages.verify(b"m", &client.sign(b"m")).unwrap();
    client.verify(b"n", &accepted.messages.sign(b"n")).unwrap();
}

#[test]
fn services_are_told_apart_by_class_or_name() {
    let forge = Forge::new(Etype::Aes256Sha1);
    let accepts = |services: Vec<ServiceName>| {
        forge.accept_by(Policy { services, ..Policy::default() }, BindingCheck::Ignored).map(drop)
    };
    accepts(vec![ServiceName::Class("host".to_owned()), ServiceName::Class("CIFS".to_owned())]).unwrap();
    accepts(vec![ServiceName::Principal("cifs/fs1.test.local@TEST.LOCAL".parse().unwrap())]).unwrap();
    for other in [
        ServiceName::Class("HTTP".to_owned()),
        ServiceName::Principal("cifs/fs2.test.local@TEST.LOCAL".parse().unwrap()),
        ServiceName::Principal("cifs/fs1.test.local@test.local".parse().unwrap()),
    ] {
        let refusal = accepts(vec![other]).unwrap_err();
        assert_eq!(refusal.reason, Reason::Service(forge.service.clone()));
        assert_eq!(refusal.reason.code().0, 35);
    }
    // A machine's account answers for its host.
    let host = ServiceName::Class("host".to_owned());
    assert!(host.matches(&Principal::new(&["FS1$"], "AD.TEST")));
    assert!(!host.matches(&Principal::new(&["FS1"], "AD.TEST")));
    assert!(!ServiceName::Class("HTTP".to_owned()).matches(&Principal::new(&["FS1$"], "AD.TEST")));
}

/// MIT's rule, and Microsoft's option that says that a client would have given bindings.
#[test]
fn channel_bindings_are_ignored_checked_or_required() {
    let ours = ChannelBindings::of_tls_server_end_point(&[1; 32]);
    let theirs = ChannelBindings::of_tls_server_end_point(&[2; 32]);
    let of = |bindings: [u8; 16], option: Option<u32>| Forge {
        checksum: Some((GssChecksum::TYPE, GssChecksum { bindings, flags: GssFlags(0) }.encode())),
        authenticator_data: option
            .map(|bits| (143, false, bits.to_le_bytes().to_vec()))
            .into_iter()
            .collect(),
        ..Forge::new(Etype::Aes256Sha1)
    };
    let none = of([0; 16], None);
    let would_give = of([0; 16], Some(0x4000));
    let other_option = of([0; 16], Some(0x1000));
    let right = of(*ours.hash(), Some(0x4000));
    let wrong = of(*theirs.hash(), None);
    let bare = Forge { mechanism: None, checksum: None, ..none.clone() };
    for (forge, ignored, if_given, required) in [
        (&none, None, None, Some(Reason::NoBindings)),
        (&would_give, None, Some(Reason::NoBindings), Some(Reason::NoBindings)),
        (&other_option, None, None, Some(Reason::NoBindings)),
        (&right, None, None, None),
        (&wrong, None, Some(Reason::WrongBindings), Some(Reason::WrongBindings)),
        (&bare, None, None, Some(Reason::NoBindings)),
    ] {
        for (check, expected) in [
            (BindingCheck::Ignored, ignored),
            (BindingCheck::IfGiven(ours), if_given),
            (BindingCheck::Required(ours), required),
        ] {
            let reason = forge.accept_by(Policy::default(), check).err().map(|refusal| refusal.reason);
            assert_eq!(reason, expected, "{check:?}");
        }
    }
}

/// Three legs: a token by a wrong clock, KRB-ERROR with the e-data that Windows needs, a token by our clock.
#[test]
fn a_client_recovers_from_a_wrong_clock() {
    for ahead in [301, -301] {
        let forge = Forge { authenticator_time: NOW + ahead, ..Forge::new(Etype::Aes256Sha1) };
        let refusal = forge.accept().unwrap_err();
        assert_eq!(refusal.reason, Reason::Skew { seconds: ahead });
        assert!(refusal.is_recoverable());
        assert_eq!(refusal.client, Some(forge.client.clone()));
        let reply = refusal.reply.unwrap();
        let framed = krb::gss::Framed::parse(&reply).unwrap().unwrap();
        assert_eq!(framed.kind, krb::gss::TokenKind::Error);
        let error = KrbError::parse(framed.message).unwrap();
        assert_eq!(error.code.0, 37);
        assert_eq!(error.data.as_deref(), Some(&[0x30, 0x05, 0xa1, 0x03, 0x02, 0x01, 0x02][..]));
        assert_eq!(error.server_time, Time::from_seconds(NOW));
        assert_eq!(error.service, forge.service);
        let again = Forge { authenticator_time: error.server_time.seconds, ..forge };
        again.accept().unwrap();
    }
    for ahead in [300, -300] {
        Forge { authenticator_time: NOW + ahead, ..Forge::new(Etype::Aes256Sha1) }.accept().unwrap();
    }
}

#[test]
fn tickets_have_a_beginning_and_an_end() {
    let of = |start_time, end_time| Forge { start_time, end_time, ..Forge::new(Etype::Aes128Sha256) };
    of(Some(NOW + 300), NOW + 1_000).accept().unwrap();
    of(None, NOW - 300).accept().unwrap();
    assert_eq!(of(None, NOW - 301).reason(), Reason::Expired);
    let early = of(Some(NOW + 301), NOW + 1_000).accept().unwrap_err();
    assert_eq!(early.reason, Reason::NotYetValid);
    assert!(early.is_recoverable(), "the client's clock may be wrong");
    let no_start = Forge { auth_time: NOW + 301, ..of(None, NOW + 1_000) };
    assert_eq!(no_start.reason(), Reason::NotYetValid);
}

#[test]
fn a_replay_is_refused_by_any_acceptor_that_shares_the_cache() {
    let forge = Forge::new(Etype::Aes256Sha384);
    let (keys, replays, token) = (forge.keys(), ReplayCache::new(64), forge.token());
    Acceptor::default().accept(&request(&token), &keys, &replays).unwrap();
    let later = Request { now: Time::from_seconds(NOW + 300), ..request(&token) };
    for request in [request(&token), later] {
        let refusal = Acceptor::default().accept(&request, &keys, &replays).unwrap_err();
        assert_eq!(refusal.reason, Reason::Replay);
        assert_eq!(refusal.reason.code().0, 34);
    }
    // Another authenticator of the same ticket is none.
    let other = Forge { confounder: 9, ..forge }.token();
    Acceptor::default().accept(&request(&other), &keys, &replays).unwrap();
}

#[test]
fn what_is_refused_is_not_remembered() {
    let forge = Forge { authenticator_time: NOW + 400, ..Forge::new(Etype::Aes256Sha1) };
    let (keys, replays, token) = (forge.keys(), ReplayCache::new(64), forge.token());
    Acceptor::default().accept(&request(&token), &keys, &replays).unwrap_err();
    assert!(replays.is_empty());
}

#[test]
fn a_foreign_client_needs_a_checked_path() {
    let mut forge = Forge::new(Etype::Aes256Sha1);
    forge.client = Principal::new(&["alice"], "EVIL.REALM");
    forge.accept().unwrap();
    forge.transited = b"EVIL.REALM".to_vec();
    assert_eq!(forge.reason(), Reason::Transited);
    let trusting = Policy { is_transit_checked: false, ..Policy::default() };
    forge.accept_by(trusting, BindingCheck::Ignored).unwrap();
    forge.ticket_flags = krb::message::TicketFlags::TRANSITED_POLICY_CHECKED;
    let accepted = forge.accept().unwrap();
    assert_eq!(accepted.ticket.client, krb::Client::Principal(Principal::new(&["alice"], "EVIL.REALM")));
}
