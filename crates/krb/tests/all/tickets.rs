//! Tickets alone, as rxkad has them.

use krb::message::EncryptedData;
use krb::{Acceptor, Client, Etype, Policy, Principal, Reason, SessionKey, Time};

use crate::forge::{Forge, NOW};

/// What `-localauth` makes: no realm, `afs`, from 0 to the end of time, a DES session key.
fn local_auth() -> Forge {
    Forge {
        client: Principal::new(&["afs"], ""),
        session: SessionKey::new(1, &[1, 2, 4, 7, 8, 11, 13, 14]),
        auth_time: 0,
        end_time: 0x7fff_ffff,
        ..Forge::new(Etype::Aes256Sha1)
    }
}

fn open(forge: &Forge, policy: Policy) -> Result<krb::OpenTicket, Reason> {
    let sealed = forge.encrypted_part();
    let part = EncryptedData { etype: forge.ticket_etype, kvno: forge.kvno, cipher: &sealed }.encode();
    let (acceptor, now) = (Acceptor::new(policy), Time::from_seconds(NOW));
    let alone = acceptor.open_encrypted_part(&part, &forge.keys(), now);
    let whole = acceptor.open_ticket(&forge.ticket(), &forge.keys(), now);
    assert_eq!(
        alone.as_ref().map(|ticket| &ticket.client).map_err(Clone::clone),
        whole.as_ref().map(|ticket| &ticket.client).map_err(Clone::clone)
    );
    alone
}

/// Trap 12.
#[test]
fn who_has_the_cells_key_is_its_superuser_unless_that_is_off() {
    let opened = open(&local_auth(), Policy::rxkad()).unwrap();
    assert_eq!(opened.client, Client::LocalAuth);
    assert_eq!((opened.session_key.etype(), opened.session_key.bytes().len()), (1, 8));
    assert_eq!(
        open(&local_auth(), Policy { has_local_auth: false, ..Policy::rxkad() }).unwrap_err(),
        Reason::Client
    );
    // A real principal of that name is none.
    let afs = Principal::new(&["afs"], "TEST.LOCAL");
    let real = Forge { client: afs.clone(), auth_time: NOW, end_time: NOW + 10, ..local_auth() };
    assert_eq!(open(&real, Policy::rxkad()).unwrap().client, Client::Principal(afs));
    let two = Forge { client: Principal::new(&["afs", "x"], ""), ..local_auth() };
    assert_eq!(open(&two, Policy::rxkad()).unwrap_err(), Reason::Client);
}

#[test]
fn a_local_superuser_signs_in_by_no_ap_req() {
    let forge = Forge { session: SessionKey::from(&crate::forge::key(Etype::Aes256Sha1, 1)), ..local_auth() };
    let refusal = forge.accept_by(Policy::rxkad(), krb::BindingCheck::Ignored).unwrap_err();
    assert_eq!(refusal.reason, Reason::Client);
}

#[test]
fn times_are_those_of_rxkad() {
    let of = |start_time, end_time| Forge { start_time, end_time, ..Forge::new(Etype::Aes128Sha1) };
    let check = |start, end| open(&of(start, end), Policy::rxkad()).err();
    assert_eq!(check(None, NOW), None);
    assert_eq!(check(None, NOW - 1), Some(Reason::Expired));
    assert_eq!(check(Some(NOW + 900), NOW + 1_000), None);
    assert_eq!(check(Some(NOW + 901), NOW + 1_000), Some(Reason::NotYetValid));
    assert_eq!(check(Some(NOW), NOW + 30 * 86_400), None);
    assert_eq!(check(Some(NOW), NOW + 30 * 86_400 + 1), Some(Reason::Lifetime));
    assert_eq!(check(Some(0), 0x7fff_ffff), None);
}

#[test]
fn long_and_broken_tickets_are_refused() {
    let (forge, acceptor, now) =
        (Forge::new(Etype::Aes128Sha1), Acceptor::new(Policy::rxkad()), Time::from_seconds(NOW));
    let (keys, ticket) = (forge.keys(), forge.ticket());
    let long = vec![0x61; Acceptor::TOKEN_BYTES_MAX + 1];
    assert_eq!(acceptor.open_ticket(&long, &keys, now).unwrap_err(), Reason::TooLong);
    assert_eq!(acceptor.open_encrypted_part(&long, &keys, now).unwrap_err(), Reason::TooLong);
    for len in 0..ticket.len() {
        assert!(acceptor.open_ticket(&ticket[..len], &keys, now).is_err());
    }
    let sealed = [&[0x22; 12][..], b"not a ticket at all"].concat();
    let cipher = forge.key.encrypt(2, &sealed, &[0; 16]);
    let part = EncryptedData { etype: forge.ticket_etype, kvno: None, cipher: &cipher }.encode();
    assert!(matches!(acceptor.open_encrypted_part(&part, &keys, now), Err(Reason::Malformed(_))));
}
