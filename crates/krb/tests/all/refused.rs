//! Tokens that are refused, each for its reason. Numbers are those of the traps in `docs/design/realms.md`.

use krb::gss::{GssChecksum, Mechanism};
use krb::keytab::UnopenedTicket;
use krb::message::TicketFlags;
use krb::{Acceptor, Etype, EtypeRefused, GssFlags, Keys, Principal, Reason, ReplayCache, SessionKey};

use crate::forge::{Forge, NOW, key, request};

/// Trap 1.
#[test]
fn ambiguous_clients_are_refused() {
    for (components, realm) in [
        (&["alice"][..], ""),
        (&[][..], "TEST.LOCAL"),
        (&["alice", ""], "TEST.LOCAL"),
        (&["alice\0"], "TEST.LOCAL"),
        (&["alice@OTHER"], "TEST.LOCAL"),
        (&["AD\\root"], "TEST.LOCAL"),
        (&["root/admin"], "TEST.LOCAL"),
        (&["afs"], ""),
    ] {
        let forge = Forge { client: Principal::new(components, realm), ..Forge::new(Etype::Aes256Sha1) };
        assert_eq!(forge.reason(), Reason::Client, "{components:?} of {realm:?}");
    }
}

/// Trap 5.
#[test]
fn weak_tickets_and_session_keys_are_refused_with_what_to_do() {
    for number in [1, 3, 16, 23] {
        let weak = EtypeRefused { number };
        let forge = Forge { ticket_etype: number, ..Forge::new(Etype::Aes256Sha1) };
        let refusal = forge.accept().unwrap_err();
        assert_eq!(refusal.reason, Reason::Ticket(UnopenedTicket::Etype(weak)));
        assert_eq!(refusal.reason.code().0, 14);
        assert!(refusal.to_string().contains("AES types"), "{refusal}");
        let session = SessionKey::new(number, &[5; 16]);
        let forge = Forge { session: session.clone(), ..Forge::new(Etype::Aes256Sha1) };
        assert_eq!(forge.reason().code().0, 14);
        let forge = Forge { subkey: Some(session), ..Forge::new(Etype::Aes256Sha1) };
        assert_eq!(forge.reason().code().0, 14);
    }
}

/// Trap 14: a newer key at the KDC, an older one in a ticket, keys by another version's number.
#[test]
fn keys_are_found_by_type_and_version_or_by_what_they_open() {
    let forge = Forge::new(Etype::Aes256Sha1);
    let (token, replays) = (forge.token(), ReplayCache::new(64));
    let reason = |keys: &Keys, token: &[u8]| {
        Acceptor::default().accept(&request(token), keys, &replays).map_err(|refusal| refusal.reason).err()
    };
    let entry = forge.entry();
    let other =
        |kvno, byte| krb::keytab::KeyEntry { kvno, key: Ok(key(Etype::Aes256Sha1, byte)), ..entry.clone() };
    let none = Keys::new([]);
    assert_eq!(reason(&none, &token), Some(Reason::Ticket(UnopenedTicket::NoKey(Etype::Aes256Sha1))));
    let old = Keys::new([other(2, 0x99)]);
    let expected = UnopenedTicket::NoVersion { etype: Etype::Aes256Sha1, kvno: 3 };
    assert_eq!(reason(&old, &token), Some(Reason::Ticket(expected)));
    assert_eq!(Reason::Ticket(expected).code().0, 44);
    let wrong = Keys::new([other(3, 0x99)]);
    assert_eq!(reason(&wrong, &token), Some(Reason::Ticket(UnopenedTicket::Integrity)));
    // Old and new beside each other, the new one first.
    let both = Keys::new([other(4, 0x99), entry.clone()]);
    assert_eq!(reason(&both, &token), None);
    // Another host's entry, or a version that ktpass made up: what opens it is the key.
    let renamed = Keys::new([krb::keytab::KeyEntry {
        kvno: 1,
        principal: Some(Principal::new(&["host", "alias"], "TEST.LOCAL")),
        ..entry.clone()
    }]);
    assert_eq!(reason(&renamed, &Forge { confounder: 1, ..forge.clone() }.token()), None);
    // Version 0x103 of which an old file has 8 bits.
    assert_eq!(reason(&both, &Forge { confounder: 2, kvno: Some(0x103), ..forge.clone() }.token()), None);
    assert_eq!(reason(&both, &Forge { confounder: 3, kvno: None, ..forge }.token()), None);
}

#[test]
fn a_ticket_costs_a_bounded_number_of_tries() {
    let forge = Forge::new(Etype::Aes128Sha1);
    let many = (0..200).map(|byte| krb::keytab::KeyEntry {
        principal: Some(Principal::new(&["cifs", &byte.to_string()], "TEST.LOCAL")),
        key: Ok(key(Etype::Aes128Sha1, byte)),
        ..forge.entry()
    });
    let others: Vec<_> = many.filter(|entry| entry.key != Ok(forge.key.clone())).collect();
    let at_end =
        Keys::new(others.iter().cloned().chain([krb::keytab::KeyEntry { principal: None, ..forge.entry() }]));
    let accept =
        |keys: &Keys| Acceptor::default().accept(&request(&forge.token()), keys, &ReplayCache::new(8));
    assert_eq!(accept(&at_end).unwrap_err().reason, Reason::Ticket(UnopenedTicket::Integrity));
    // A key with many names is tried once, and does not stand before others.
    let alias = |number: u32| krb::keytab::KeyEntry {
        principal: Some(Principal::new(&["cifs", &number.to_string()], "TEST.LOCAL")),
        kvno: 4,
        key: Ok(key(Etype::Aes128Sha1, 0x99)),
        ..forge.entry()
    };
    let unnamed = krb::keytab::KeyEntry { principal: None, kvno: 2, ..forge.entry() };
    accept(&Keys::new((0..100).map(alias).chain([unnamed]))).unwrap();
    // The named service's key comes first.
    let named = Keys::new(others.into_iter().chain([forge.entry()]));
    accept(&named).unwrap();
}

#[test]
fn each_odd_field_has_its_reason() {
    let forge = || Forge::new(Etype::Aes256Sha1);
    let checksum = |flags| Some((GssChecksum::TYPE, GssChecksum { bindings: [0; 16], flags }.encode()));
    let cases = [
        (Forge { user_to_user: true, ..forge() }, Reason::UserToUser),
        (Forge { ticket_flags: TicketFlags::INVALID, ..forge() }, Reason::NotYetValid),
        (
            Forge { authenticator_client: Some(Principal::new(&["bob"], "TEST.LOCAL")), ..forge() },
            Reason::ClientMismatch,
        ),
        (
            Forge { authenticator_client: Some(Principal::new(&["alice"], "test.local")), ..forge() },
            Reason::ClientMismatch,
        ),
        (Forge { checksum: None, ..forge() }, Reason::NoGssChecksum),
        (Forge { checksum: Some((16, vec![0; 12])), ..forge() }, Reason::NoGssChecksum),
        (Forge { checksum: checksum(GssFlags(0x1002)), ..forge() }, Reason::DceStyle),
        (Forge { ticket_data: vec![(77, true, vec![1])], ..forge() }, Reason::AuthorizationData(77)),
        (Forge { end_time: NOW - 301, ..forge() }, Reason::Expired),
    ];
    for (forge, reason) in cases {
        let refusal = forge.accept().unwrap_err();
        assert_eq!(refusal.reason, reason);
        assert!(refusal.reply.is_some());
    }
    Forge { ticket_data: vec![(77, false, vec![1])], ..forge() }.accept().unwrap();
    let malformed = Forge { checksum: Some((GssChecksum::TYPE, vec![16, 0, 0])), ..forge() };
    assert!(matches!(malformed.reason(), Reason::Malformed(_)));
}

#[test]
fn a_sealed_authenticator_belongs_to_its_ticket() {
    let forge = Forge::new(Etype::Aes256Sha1);
    let token = forge.token();
    let other = Forge { session: SessionKey::from(&key(Etype::Aes256Sha1, 0x44)), ..forge.clone() }.token();
    // The ticket of one, the authenticator of the other: both have the same length.
    assert_eq!(token.len(), other.len());
    let mut swapped = token.clone();
    let at = token.len() - 100;
    swapped[at..].copy_from_slice(&other[at..]);
    let refusal =
        Acceptor::default().accept(&request(&swapped), &forge.keys(), &ReplayCache::new(8)).unwrap_err();
    assert_eq!(refusal.reason, Reason::AuthenticatorIntegrity);
    assert_eq!(refusal.client, Some(forge.client));
}

#[test]
fn what_is_no_token_gets_no_answer() {
    let forge = Forge::new(Etype::Aes256Sha1);
    let refused = |token: &[u8]| {
        let refusal =
            Acceptor::default().accept(&request(token), &forge.keys(), &ReplayCache::new(8)).unwrap_err();
        assert_eq!(refusal.reply, None);
        refusal.reason
    };
    assert_eq!(refused(&vec![0x60; Acceptor::TOKEN_BYTES_MAX + 1]), Reason::TooLong);
    assert!(matches!(refused(b""), Reason::Malformed(_)));
    assert!(matches!(refused(b"NTLMSSP\0"), Reason::Malformed(_)));
    let mut other = forge.token();
    let at = other.windows(9).position(|oid| oid == Mechanism::Krb5.oid()).unwrap();
    other[at + 8] = 9;
    assert_eq!(refused(&other), Reason::Mechanism);
    let token = forge.token();
    for len in 0..token.len() {
        refused(&token[..len]);
    }
}

/// Trap 17.
#[test]
fn nothing_that_is_shown_has_a_key_in_it() {
    let forge =
        Forge { session: SessionKey::from(&key(Etype::Aes256Sha1, 0xab)), ..Forge::new(Etype::Aes256Sha1) };
    let accepted = forge.accept().unwrap();
    let shown = format!("{accepted:?} {:?} {:?} {}", forge.keys(), forge.session, forge.entry());
    for byte in [0x11, 0x33, 0xab] {
        for bytes in [format!("{byte}, {byte}, {byte}"), format!("{byte:02x}{byte:02x}{byte:02x}")] {
            assert!(!shown.contains(&bytes), "{shown}");
        }
    }
}
