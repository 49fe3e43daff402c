//! What stock software made: AP-REQs and integrity codes of MIT, key files of MIT and OpenAFS.

use krb::crypto::usage;
use krb::gss::{Framed, TokenKind};
use krb::keytab::{parse_key_file_ext, parse_keytab, write_key_file_ext, write_keytab};
use krb::message::{ApRep, ApReq, EncApRepPart};
use krb::{
    Acceptor, BindingCheck, ChannelBindings, Client, Etype, KeySource, Keys, Policy, Principal, Reason,
    ReplayCache, Request, Time,
};

use crate::vectors::{mit, mit_seconds};

const ETYPES: [(&str, Etype); 4] = [
    ("aes128-sha1-96", Etype::Aes128Sha1),
    ("aes256-sha1-96", Etype::Aes256Sha1),
    ("aes128-sha256-128", Etype::Aes128Sha256),
    ("aes256-sha384-192", Etype::Aes256Sha384),
];

fn keys() -> Keys {
    Keys::new(parse_keytab("srv.keytab", &mit("keytab")).unwrap())
}

#[test]
fn mit_signs_in_by_every_type_with_a_verified_certificate() {
    let (keys, acceptor) = (keys(), Acceptor::default());
    let bindings = ChannelBindings::of_tls_server_end_point(&[0; 32]);
    for (name, etype) in ETYPES {
        for (how, bindings) in
            [("mutual", BindingCheck::Required(bindings)), ("once", BindingCheck::IfGiven(bindings))]
        {
            let of = |field: &str| format!("{name}.{how}.{field}");
            let token = mit(&of("token"));
            let now = Time::from_seconds(mit_seconds(&of("now")));
            let request = Request { token: &token, now, random: &[1; 20], bindings };
            let mut accepted = acceptor.accept(&request, &keys, &ReplayCache::new(16)).unwrap();
            let alice = Principal::new(&["alice"], "TEST.LOCAL");
            assert_eq!(accepted.ticket.client, Client::Principal(alice));
            assert_eq!(accepted.ticket.opened_by.etype, etype.number());
            assert_eq!(
                accepted.session_key.bytes(),
                mit(&of("key")),
                "the key of gss_inquire_sec_context_by_oid"
            );
            assert_eq!(accepted.session_key.etype(), etype.number());
            assert_eq!(accepted.key_source, KeySource::InitiatorSubkey);
            assert_eq!(accepted.has_bindings, how == "mutual");
            assert_eq!(accepted.reply.is_some(), how == "mutual");
            assert!(accepted.ticket.end_time > now);
            // MIT's KDC signs a certificate that names nobody.
            assert!(accepted.ticket.pac.as_ref().unwrap().logon.is_none());
            accepted.messages.verify(b"mechTypes", &mit(&of("mic"))).unwrap();
        }
    }
}

#[test]
fn a_reply_proves_that_the_ticket_was_read() {
    let token = mit("aes256-sha1-96.mutual.token");
    let now = Time::from_seconds(mit_seconds("aes256-sha1-96.mutual.now"));
    let request = Request { token: &token, now, random: &[1; 20], bindings: BindingCheck::Ignored };
    let accepted = Acceptor::default().accept(&request, &keys(), &ReplayCache::new(16)).unwrap();
    let reply = accepted.reply.unwrap();
    let framed = Framed::parse(&reply).unwrap().unwrap();
    assert_eq!(framed.kind, TokenKind::ApRep);
    let sealed = ApRep::parse(framed.message).unwrap().encrypted;
    let ticket_key = accepted.ticket.session_key.key().unwrap();
    let part = EncApRepPart::parse(&ticket_key.decrypt(usage::AP_REP, sealed.cipher).unwrap()).unwrap();
    assert_eq!(part.subkey, None);
    assert!(part.time.distance_seconds(now) <= 1 && part.time.microseconds > 0);
}

#[test]
fn every_changed_bit_of_a_token_of_mit_is_refused() {
    let (keys, acceptor, replays) = (keys(), Acceptor::default(), ReplayCache::new(16));
    let token = mit("aes128-sha256-128.once.token");
    let now = Time::from_seconds(mit_seconds("aes128-sha256-128.once.now"));
    let mut accepted = 0;
    for bit in 0..token.len() * 8 {
        let mut changed = token.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let request = Request { token: &changed, now, random: &[1; 20], bindings: BindingCheck::Ignored };
        if let Ok(still) = acceptor.accept(&request, &keys, &ReplayCache::new(16)) {
            // What is not protected: the name of the service, versions that are hints, the wish for a reply.
            accepted += 1;
            assert_eq!(still.session_key.bytes(), mit("aes128-sha256-128.once.key"));
            acceptor.accept(&request, &keys, &replays).map(drop).unwrap_or_else(|refusal| {
                assert_eq!(refusal.reason, Reason::Replay, "they are one authenticator");
            });
        }
    }
    assert_eq!(replays.len(), 1);
    assert!(accepted < 600, "{accepted} bits are not protected");
}

#[test]
fn a_ticket_for_afs_opens_by_key_table_and_by_key_file_ext() {
    let token = mit("afs.token");
    let ticket = ApReq::parse(Framed::parse(&token).unwrap().unwrap().message).unwrap().ticket;
    let now = Time::from_seconds(mit_seconds("afs.now"));
    let key_table = Keys::new(parse_keytab("rxkad.keytab", &mit("afs.keytab")).unwrap());
    let key_file_ext = Keys::new(parse_key_file_ext("KeyFileExt", &mit("afs.key_file_ext")).unwrap());
    let acceptor = Acceptor::new(Policy::rxkad());
    for (keys, file) in [(&key_table, "rxkad.keytab"), (&key_file_ext, "KeyFileExt")] {
        let whole = acceptor.open_ticket(&ticket.encode(), keys, now).unwrap();
        let part = acceptor.open_encrypted_part(&ticket.encrypted.encode(), keys, now).unwrap();
        assert_eq!(&*whole.opened_by.file, file);
        assert_eq!(whole.client, Client::Principal(Principal::new(&["alice"], "TEST.LOCAL")));
        assert_eq!(whole.client, part.client);
        assert_eq!(whole.session_key, part.session_key);
        assert_eq!(whole.session_key.etype(), 18);
        let late = Time::from_seconds(whole.end_time.seconds + 1);
        assert_eq!(acceptor.open_ticket(&ticket.encode(), keys, late).unwrap_err(), Reason::Expired);
    }
}

#[test]
fn key_files_are_written_as_they_were_read() {
    let table = mit("keytab");
    assert_eq!(*write_keytab(&parse_keytab("k", &table).unwrap()), table);
    let file = mit("afs.key_file_ext");
    assert_eq!(*write_key_file_ext(&parse_key_file_ext("k", &file).unwrap()), file);
    // What akeyconvert makes of a key table: the same keys.
    let mut of_table = parse_keytab("k", &mit("afs.keytab")).unwrap();
    of_table.sort_by_key(|entry| entry.etype);
    assert_eq!(*write_key_file_ext(&of_table), file);
}

#[test]
fn a_listing_names_version_type_and_principal() {
    let lines: Vec<String> = keys().entries().iter().map(ToString::to_string).collect();
    assert_eq!(
        lines[0],
        "kvno 2, aes128-cts-hmac-sha1-96 (17), cifs/aes128-cts-hmac-sha1-96.test.local@TEST.LOCAL"
    );
    assert_eq!(lines.len(), 4);
}
