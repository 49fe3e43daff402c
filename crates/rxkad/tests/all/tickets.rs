//! Which tickets a server takes, and the code that the others get.

use krb::message::{Principal, TicketFlags};
use krb::{Etype, Keys, SessionKey, Time};
use rx::security::{Security, SecurityError};
use rxkad::wire::{KVNO_ENCRYPTED_PART, KVNO_TICKET};
use rxkad::{Code, DesKey, LOCAL_AUTH, Level, Policy, RxkadServer, ServiceKeys, Token, TokenRefused};

use crate::forge::{Forge, NOW, key};
use crate::proofs::{HERE, Verdict, answer, ask, check, check_at, proof, refused};

fn verdict(forge: &Forge) -> Verdict {
    proof(forge, Policy::default(), &forge.any_token(), Level::Crypt).1
}

fn who(forge: &Forge, policy: Policy, token: &Token) -> Result<String, SecurityError> {
    let (server, verdict) = proof(forge, policy, token, Level::Crypt);
    verdict.map(|_| server.principal().expect("proved").name.clone())
}

#[test]
fn both_forms_of_a_ticket_are_taken_and_others_are_of_kerberos_4() {
    let forge = Forge::new();
    let (ticket, part) = (forge.ticket(), forge.encrypted_part());
    for (kvno, bytes, expected) in [
        (KVNO_TICKET, &ticket, Ok("alice@TEST.LOCAL".to_owned())),
        (KVNO_ENCRYPTED_PART, &part, Ok("alice@TEST.LOCAL".to_owned())),
        (KVNO_TICKET, &part, Err(Code::BadTicket)),
        (KVNO_ENCRYPTED_PART, &ticket, Err(Code::BadTicket)),
        (0, &ticket, Err(Code::UnknownKey)),
        (3, &part, Err(Code::UnknownKey)),
        (255, &ticket, Err(Code::UnknownKey)),
        (257, &ticket, Err(Code::UnknownKey)),
    ] {
        let found = who(&forge, Policy::default(), &forge.token_of(kvno, bytes));
        assert_eq!(found, expected.map_err(SecurityError::from), "{kvno}");
    }
}

#[test]
fn every_encryption_type_of_the_cells_key_and_of_the_session_works() {
    for etype in Etype::ALL {
        for session in Etype::ALL {
            let forge = Forge {
                key: key(etype, 1),
                etype: etype.number(),
                session: SessionKey::from(&key(session, 2)),
                ..Forge::new()
            };
            assert!(verdict(&forge).is_ok(), "{etype}, {session}");
        }
    }
}

#[test]
fn tickets_are_taken_in_their_time() {
    let times = |auth_time, end_time| Forge { auth_time, end_time, ..Forge::new() };
    for (forge, expected) in [
        (times(NOW - 10, NOW + 1), Ok([1, 0, 7, 0])),
        (times(NOW - 10, NOW - 1), refused(Code::Expired)),
        (times(NOW + 899, NOW + 3_600), Ok([1, 0, 7, 0])),
        (times(NOW + 901, NOW + 3_600), refused(Code::NoAuth)),
        (Forge { flags: TicketFlags::INVALID, ..Forge::new() }, refused(Code::NoAuth)),
        (times(NOW - 10, NOW - 10 + 30 * 86_400), Ok([1, 0, 7, 0])),
        (times(NOW - 10, NOW - 9 + 30 * 86_400), refused(Code::BadTicket)),
        // As servers' own tickets are.
        (times(0, NOW + 90 * 86_400), Ok([1, 0, 7, 0])),
    ] {
        assert_eq!(verdict(&forge), expected, "{} to {}", forge.auth_time, forge.end_time);
    }
}

#[test]
fn a_server_without_the_time_takes_no_ticket_and_costs_no_client_its_token() {
    let forge = Forge::new();
    let mut server = RxkadServer::new(forge.keys(), Policy::default()).connection();
    let response = answer(&forge.token(), Level::Clear, HERE, &ask(&mut server, 1)).unwrap();
    let found = check_at(&mut server, None, HERE, &response);
    assert_eq!(found, Err(SecurityError { code: rx::abort::RESTARTING }));
}

#[test]
fn trap_1_names_that_read_as_others_are_refused() {
    for components in
        [&["root.admin"][..], &["a", "b", "c"], &["al\0ice"], &["a@b"], &["AD\\root"], &["a/b"], &[""], &[]]
    {
        let forge = Forge::of(components, "TEST.LOCAL");
        assert_eq!(verdict(&forge), refused(Code::BadTicket), "{components:?}");
    }
    for realm in ["", "A@B", "A\0"] {
        assert_eq!(verdict(&Forge::of(&["alice"], realm)), refused(Code::BadTicket), "{realm:?}");
    }
    let slash = Forge::of(&["root", "admin"], "TEST.LOCAL");
    assert_eq!(who(&slash, Policy::default(), &slash.token()).unwrap(), "root/admin@TEST.LOCAL");
    let dotted = Forge::of(&["root.admin"], "TEST.LOCAL");
    let allowed = Policy { has_dotted_principals: true, ..Policy::default() };
    assert_eq!(who(&dotted, allowed, &dotted.token()).unwrap(), "root.admin@TEST.LOCAL");
}

#[test]
fn trap_2_realms_stay_as_they_are() {
    for realm in ["EVIL.REALM", "test.local"] {
        let forge = Forge::of(&["alice"], realm);
        assert_eq!(who(&forge, Policy::default(), &forge.token()).unwrap(), format!("alice@{realm}"));
    }
}

#[test]
fn trap_5_rc4_and_des_are_refused() {
    for etype in [1, 3, 16, 23] {
        assert_eq!(verdict(&Forge { etype, ..Forge::new() }), refused(Code::UnknownKey), "ticket of {etype}");
        let session = SessionKey::new(etype, &[3; 8]);
        let forge = Forge { session: session.clone(), ..Forge::new() };
        assert_eq!(verdict(&forge), refused(Code::BadKey), "session of {etype}");
        let token = Token::from_service_ticket(&forge.ticket(), &session, Time::from_seconds(NOW));
        assert!(matches!(token, Err(TokenRefused::SessionKey(_))), "{token:?}");
    }
}

#[test]
fn trap_12_a_superuser_is_who_has_the_cells_key() {
    let forge = Forge::new();
    let token = forge.local_auth();
    assert_eq!((token.kvno(), token.end().seconds), (213, 0x7fff_ffff));
    assert_eq!(who(&forge, Policy::default(), &token).unwrap(), LOCAL_AUTH);
    // A principal afs of a realm is a user.
    let user = Forge::of(&["afs"], "TEST.LOCAL");
    assert_eq!(who(&user, Policy::default(), &user.token()).unwrap(), "afs@TEST.LOCAL");
    for components in [&["afs", "test.local"][..], &["AFS"], &["alice"], &["<LocalAuth>"]] {
        assert_eq!(verdict(&Forge::of(components, "")), refused(Code::BadTicket), "{components:?}");
    }
    // Another cell's key.
    let other = Forge { key: key(Etype::Aes256Sha1, 0x12), ..Forge::new() };
    let found = who(&forge, Policy::default(), &other.local_auth());
    assert_eq!(found, Err(Code::BadTicket.into()));
    // A user's session key may not be one of DES, as a superuser's is.
    let des = Forge { session: SessionKey::new(1, token.key().bytes()), ..Forge::new() };
    let token = Token::new(KVNO_TICKET, &des.ticket(), token.key().clone(), token.end()).unwrap();
    assert_eq!(who(&des, Policy::default(), &token), Err(Code::BadKey.into()));
}

#[test]
fn trap_12_superusers_can_be_switched_off() {
    let forge = Forge::new();
    let tickets = krb::Policy { has_local_auth: false, ..krb::Policy::rxkad() };
    let off = Policy { tickets, ..Policy::default() };
    assert_eq!(who(&forge, off.clone(), &forge.local_auth()), Err(Code::BadTicket.into()));
    assert!(who(&forge, off, &forge.token()).is_ok());
}

#[test]
fn trap_14_keys_roll_without_a_restart() {
    let (old, new) = (Forge::new(), Forge { key: key(Etype::Aes256Sha1, 0x44), kvno: 4, ..Forge::new() });
    let keys = ServiceKeys::new(Keys::new([old.entry()]));
    let mut factory = RxkadServer::new(keys.clone(), Policy::default());
    let ask_and_answer = |factory: &mut RxkadServer, token: &Token| {
        let mut server = factory.connection();
        let response = answer(token, Level::Crypt, HERE, &ask(&mut server, 1)).unwrap();
        check(&mut server, &response)
    };
    assert!(ask_and_answer(&mut factory, &old.token()).is_ok());
    // The KDC rolled first.
    assert_eq!(ask_and_answer(&mut factory, &new.token()), refused(Code::UnknownKey));
    keys.replace(Keys::new([old.entry(), new.entry()]));
    assert!(ask_and_answer(&mut factory, &old.token()).is_ok());
    assert!(ask_and_answer(&mut factory, &new.token()).is_ok());
    keys.replace(Keys::new([new.entry()]));
    assert_eq!(ask_and_answer(&mut factory, &old.token()), refused(Code::UnknownKey));
    keys.replace(Keys::default());
    assert_eq!(ask_and_answer(&mut factory, &new.token()), refused(Code::UnknownKey));
}

#[test]
fn trap_16_a_response_that_is_too_long_costs_no_decryption() {
    let forge = Forge::new();
    let mut server = RxkadServer::new(forge.keys(), Policy::default()).connection();
    let mut response = answer(&forge.token(), Level::Crypt, HERE, &ask(&mut server, 1)).unwrap();
    response.resize(16 << 10, 0);
    response[52..56].copy_from_slice(&12_001u32.to_be_bytes());
    assert_eq!(check(&mut server, &response), refused(Code::TicketLength));
}

#[test]
fn tokens_are_made_of_tickets_alone() {
    let (forge, end) = (Forge::new(), Time::from_seconds(NOW));
    let token = forge.token();
    assert_eq!((token.kvno(), token.ticket(), token.end().seconds), (256, &forge.ticket()[..], NOW + 3_600));
    assert_eq!(*token.key(), DesKey::derive(&forge.session).unwrap());
    for (len, is_right) in [(31, false), (32, true), (12_000, true), (12_001, false)] {
        let token = Token::new(KVNO_TICKET, &vec![1; len], DesKey::from_bytes([1; 8]), end);
        assert_eq!(token.is_ok(), is_right);
    }
    let no_ticket = Token::from_service_ticket(&forge.encrypted_part(), &forge.session, end);
    assert!(matches!(no_ticket, Err(TokenRefused::Malformed(_))));
    assert_eq!(forge.client, Principal::new(&["alice"], "TEST.LOCAL"));
}
