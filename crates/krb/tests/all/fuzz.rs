//! Anything at all: parsers read it or refuse it, believe nothing that is not there, and let nobody in.

use krb::crypto::usage;
use krb::gss::{Framed, GssChecksum, MessageIntegrity, Role};
use krb::keytab::{parse_key_file_ext, parse_keytab, write_key_file_ext, write_keytab};
use krb::message::{
    ApRep, ApReq, Authenticator, EncApRepPart, EncTicketPart, EncryptedData, KrbError, Ticket,
};
use krb::{Acceptor, Etype, Pac, Policy, Principal, ReplayCache, Time};
use proptest::prelude::*;

use crate::certificates::{build, client_info, logon_info, sign};
use crate::forge::{Forge, NOW, key, request};
use crate::vectors::{mit, samba};

/// Every parser that reads bytes as they lie there. What one reads, it writes so that it is read the same.
fn parse_all(bytes: &[u8]) {
    if let Ok(ticket) = Ticket::parse(bytes) {
        assert_eq!(Ticket::parse(&ticket.encode()), Ok(ticket));
    }
    if let Ok(ap_req) = ApReq::parse(bytes) {
        assert_eq!(ApReq::parse(&ap_req.encode()), Ok(ap_req));
    }
    if let Ok(data) = EncryptedData::parse(bytes) {
        assert_eq!(EncryptedData::parse(&data.encode()), Ok(data));
    }
    if let Ok(ap_rep) = ApRep::parse(bytes) {
        assert_eq!(ApRep::parse(&ap_rep.encode()), Ok(ap_rep));
    }
    if let Ok(part) = EncApRepPart::parse(bytes) {
        assert_eq!(EncApRepPart::parse(&part.encode()), Ok(part));
    }
    if let Ok(error) = KrbError::parse(bytes) {
        assert_eq!(KrbError::parse(&error.encode()), Ok(error));
    }
    if let Ok(part) = EncTicketPart::parse(bytes) {
        assert_eq!(EncTicketPart::parse(&part.encode()), Ok(part.clone()));
    }
    if let Ok(authenticator) = Authenticator::parse(bytes) {
        assert_eq!(Authenticator::parse(&authenticator.encode()), Ok(authenticator.clone()));
    }
    if let Ok(Some(framed)) = Framed::parse(bytes) {
        assert_eq!(Framed::parse(&framed.encode()), Ok(Some(framed)));
    }
    let _ = GssChecksum::parse(bytes);
    if let Ok(entries) = parse_keytab("k", bytes) {
        assert!(entries.len() <= bytes.len() / 20);
        parse_keytab("k", &write_keytab(&entries)).unwrap();
    }
    if let Ok(entries) = parse_key_file_ext("k", bytes) {
        assert!(entries.len() <= bytes.len() / 20);
        parse_key_file_ext("k", &write_key_file_ext(&entries)).unwrap();
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(principal) = text.parse::<Principal>()
    {
        assert_eq!(principal.to_string().parse(), Ok(principal));
    }
    let mut messages = MessageIntegrity::new(key(Etype::Aes128Sha256, 1), Role::Acceptor, false, 0, 0);
    messages.verify(b"message", bytes).unwrap_err();
    let _ = Pac::verify(bytes, &key(Etype::Aes128Sha256, 1), &alice(), Time::from_seconds(NOW)).unwrap_err();
}

/// Whatever is changed, nobody but who the ticket is for gets in.
fn accept_nobody_else(bytes: &[u8]) {
    let forge = Forge::new(Etype::Aes128Sha256);
    let keys = forge.keys();
    Acceptor::default().accept(&request(bytes), &keys, &ReplayCache::new(4)).unwrap_err();
    let (acceptor, now) = (Acceptor::new(Policy::rxkad()), Time::from_seconds(NOW));
    let opened = [acceptor.open_ticket(bytes, &keys, now), acceptor.open_encrypted_part(bytes, &keys, now)];
    for ticket in opened.into_iter().flatten() {
        assert_eq!(ticket.client, krb::Client::Principal(alice()));
        assert_eq!(ticket.session_key, forge.session);
    }
}

/// What comes with a right checksum: a KDC or a client that is mad.
fn accept_sealed(bytes: &[u8]) {
    let forge = Forge::new(Etype::Aes128Sha256);
    let keys = forge.keys();
    let cipher = forge.key.encrypt(usage::TICKET, bytes, &[1; 16]);
    let part = EncryptedData { etype: 19, kvno: None, cipher: &cipher }.encode();
    let _ = Acceptor::new(Policy::rxkad()).open_encrypted_part(&part, &keys, Time::from_seconds(NOW));
    let session = forge.session.key().unwrap();
    let sealed = session.encrypt(usage::AP_REQ_AUTHENTICATOR, bytes, &[1; 16]);
    let cipher = forge.encrypted_part();
    let ap_req = ApReq {
        use_session_key: false,
        mutual_required: true,
        ticket: Ticket {
            service: forge.service.clone(),
            encrypted: EncryptedData { etype: 19, kvno: None, cipher: &cipher },
        },
        authenticator: EncryptedData { etype: 19, kvno: None, cipher: &sealed },
    };
    let _ = Acceptor::default().accept(&request(&ap_req.encode()), &keys, &ReplayCache::new(4));
}

/// Each part of a certificate, under a right signature.
fn verify_parts(bytes: &[u8]) {
    let key = key(Etype::Aes256Sha1, 0x11);
    for kind in [1, 11, 12, 18] {
        let pac = build(&[client_info("alice", NOW), (kind, bytes.to_vec())], &key);
        if let Ok(Pac { logon: Some(logon), .. }) = Pac::verify(&pac, &key, &alice(), Time::from_seconds(NOW))
        {
            assert!(logon.groups.len() * 8 <= bytes.len());
        }
    }
}

fn alice() -> Principal {
    Principal::new(&["alice"], "TEST.LOCAL")
}

/// Messages that are right, to be changed.
fn right() -> Vec<Vec<u8>> {
    let forge = Forge { seq_number: None, ..Forge::new(Etype::Aes128Sha256) };
    let logon = logon_info(1103, &[(1, 7), (2, 7)], &[krb::Sid::new(18, &[1]).unwrap()]).1;
    let refusal =
        Forge { authenticator_time: NOW + 999, mechanism: None, ..forge.clone() }.accept().unwrap_err();
    let ticket = EncTicketPart::parse(&forge.key.decrypt(usage::TICKET, &forge.encrypted_part()).unwrap())
        .unwrap()
        .encode()
        .to_vec();
    let mut samba = samba("pac");
    sign(&mut samba, &key(Etype::Aes256Sha1, 0x11));
    let authenticator = Authenticator {
        client: alice(),
        checksum: None,
        time: Time::from_seconds(NOW),
        subkey: forge.subkey.clone(),
        seq_number: Some(1),
        authorization_data: Default::default(),
    };
    vec![
        mit("aes128-sha256-128.mutual.token"),
        mit("keytab"),
        mit("afs.key_file_ext"),
        forge.ticket(),
        ticket,
        authenticator.encode().to_vec(),
        refusal.reply.unwrap(),
        logon,
        samba,
        b"cifs/host\\@x@REALM".to_vec(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn anything_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        parse_all(&bytes);
        accept_nobody_else(&bytes);
        accept_sealed(&bytes);
        verify_parts(&bytes);
    }

    #[test]
    fn changed_messages_are_read_or_refused(
        which in 0usize..10,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = right().swap_remove(which);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        parse_all(&bytes);
        accept_nobody_else(&bytes);
        accept_sealed(&bytes);
        verify_parts(&bytes);
    }
}

/// The same for a fuzzer: the first byte says which message of those that are right is changed, or that none is.
#[test]
fn any_changes_are_read_or_refused() {
    let right = right();
    bolero::check!().for_each(|input: &[u8]| {
        let Some((which, script)) = input.split_first() else { return };
        let mut bytes = match right.get(usize::from(*which)) {
            Some(message) => {
                let mut message = message.clone();
                for [low, high, value] in script.as_chunks::<3>().0 {
                    let at = usize::from(u16::from_le_bytes([*low, *high])) % message.len();
                    message[at] ^= value;
                }
                message
            }
            None => script.to_vec(),
        };
        bytes.truncate(8 << 10);
        parse_all(&bytes);
        accept_nobody_else(&bytes);
        accept_sealed(&bytes);
        verify_parts(&bytes);
    });
}
