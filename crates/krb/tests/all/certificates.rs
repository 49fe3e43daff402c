//! Privilege attribute certificates: what Samba makes, and what nobody may make.

use krb::crypto::usage;
use krb::pac::{LogonInfo, PacRefused, Sid};
use krb::{Etype, Key, Pac, Principal, Reason, Time};

use crate::forge::{Forge, NOW, key};
use crate::vectors::samba;

fn alice() -> Principal {
    Principal::new(&["alice"], "TEST.LOCAL")
}

/// Where the parts of a type lie: offset and length.
fn part(pac: &[u8], kind: u32) -> (usize, usize) {
    let entry = pac[8..].as_chunks::<16>().0.iter().find(|entry| entry[..4] == kind.to_le_bytes()).unwrap();
    let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap()) as usize;
    (number(8), number(4))
}

/// Signs as a KDC does; its own signature is some bytes.
pub(crate) fn sign(pac: &mut [u8], key: &Key) {
    let ((server, _), (kdc, kdc_len)) = (part(pac, 6), part(pac, 7));
    let len = key.etype().checksum_len();
    pac[server..server + 4].copy_from_slice(&key.etype().checksum_type().to_le_bytes());
    pac[server + 4..server + 4 + len].fill(0);
    pac[kdc..kdc + 4].copy_from_slice(&16u32.to_le_bytes());
    pac[kdc + 4..kdc + kdc_len].fill(0);
    let sum = key.checksum(usage::PAC_SIGNATURE, &[pac]);
    pac[server + 4..server + 4 + len].copy_from_slice(&sum);
    pac[kdc + 4..kdc + kdc_len].fill(0x5a);
}

/// A certificate of these parts, signed.
pub(crate) fn build(parts: &[(u32, Vec<u8>)], key: &Key) -> Vec<u8> {
    let signature = vec![0; 4 + key.etype().checksum_len()];
    let parts = [parts, &[(6, signature), (7, vec![0; 16])]].concat();
    let mut out = [(parts.len() as u32).to_le_bytes(), [0; 4]].concat();
    let mut at = 8 + 16 * parts.len();
    for (kind, bytes) in &parts {
        out.extend(kind.to_le_bytes());
        out.extend((bytes.len() as u32).to_le_bytes());
        out.extend((at as u64).to_le_bytes());
        at = (at + bytes.len()).next_multiple_of(8);
    }
    for (_, bytes) in &parts {
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    sign(&mut out, key);
    out
}

pub(crate) fn client_info(name: &str, auth_time: i64) -> (u32, Vec<u8>) {
    let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let time = Time::from_seconds(auth_time).to_filetime().to_le_bytes();
    (10, [&time[..], &(name.len() as u16).to_le_bytes(), &name].concat())
}

/// KERB_VALIDATION_INFO of a user in the domain S-1-5-21-1-2-3, without names.
pub(crate) fn logon_info(user: u32, groups: &[(u32, u32)], extra: &[Sid]) -> (u32, Vec<u8>) {
    let mut out = vec![1, 0x10, 8, 0, 0xcc, 0xcc, 0xcc, 0xcc];
    let word = |out: &mut Vec<u8>, word: u32| out.extend(word.to_le_bytes());
    let sid = |out: &mut Vec<u8>, sid: &Sid| {
        let subs = sid.sub_authorities();
        out.extend((subs.len() as u32).to_le_bytes());
        out.extend([1, subs.len() as u8]);
        out.extend(&sid.authority().to_be_bytes()[2..]);
        subs.iter().for_each(|sub| out.extend(sub.to_le_bytes()));
    };
    out.extend([0; 8]);
    word(&mut out, 0x20000);
    out.extend([0; 48 + 6 * 8 + 4]);
    [user, 513, groups.len() as u32, 0x20004, 0x20].into_iter().for_each(|value| word(&mut out, value));
    out.extend([0; 16 + 2 * 8]);
    word(&mut out, 0x20008);
    out.extend([0; 8]);
    word(&mut out, 0x10);
    out.extend([0; 28]);
    [extra.len() as u32, 0x2000c, 0, 0, 0].into_iter().for_each(|value| word(&mut out, value));
    word(&mut out, groups.len() as u32);
    groups.iter().for_each(|(rid, attributes)| {
        word(&mut out, *rid);
        word(&mut out, *attributes);
    });
    sid(&mut out, &Sid::new(5, &[21, 1, 2, 3]).unwrap());
    word(&mut out, extra.len() as u32);
    extra.iter().for_each(|_| out.extend([1, 0, 2, 0, 7, 0, 0, 0]));
    extra.iter().for_each(|extra| sid(&mut out, extra));
    let len = (out.len() - 16) as u32;
    out[8..12].copy_from_slice(&len.to_le_bytes());
    (1, out)
}

fn verify(pac: &[u8]) -> Result<Pac, PacRefused> {
    Pac::verify(pac, &key(Etype::Aes256Sha1, 0x11), &alice(), Time::from_seconds(NOW))
}

fn of_samba() -> Vec<u8> {
    let mut pac = samba("pac");
    sign(&mut pac, &key(Etype::Aes256Sha1, 0x11));
    pac
}

#[test]
fn sambas_certificate_names_user_groups_domain_and_proxies() {
    let forge = Forge {
        auth_time: NOW,
        ticket_data: vec![(128, false, of_samba())],
        ..Forge::new(Etype::Aes256Sha1)
    };
    let pac = forge.accept().unwrap().ticket.pac.unwrap();
    let logon = pac.logon.unwrap();
    assert_eq!((logon.account.as_str(), logon.full_name.as_str()), ("alice", "Alice Ädams"));
    assert_eq!((logon.domain.as_str(), logon.server.as_str()), ("AD", "DC1"));
    assert_eq!(logon.user_sid.to_string(), "S-1-5-21-1111111111-2222222222-3333333333-1103");
    assert_eq!((logon.user_flags, logon.account_control), (0x220, 0x10));
    let groups: Vec<String> = logon.group_sids().map(|sid| sid.to_string()).collect();
    assert_eq!(
        groups,
        [
            "S-1-5-21-1111111111-2222222222-3333333333-513",
            "S-1-5-21-1111111111-2222222222-3333333333-1104",
            "S-1-18-1",
            "S-1-5-21-9-8-7-500",
            "S-1-5-21-4-5-6-1200",
        ]
    );
    let upn = pac.upn.unwrap();
    assert_eq!((upn.upn.as_str(), upn.dns_domain.as_str()), ("alice@ad.test", "AD.TEST"));
    assert!(upn.is_constructed);
    assert_eq!(upn.account.as_deref(), Some("alice"));
    assert_eq!(upn.sid, Some(logon.user_sid));
    let delegation = pac.delegation.unwrap();
    assert_eq!(delegation.target, "cifs/fs1.ad.test");
    assert_eq!(delegation.services, ["HTTP/web.ad.test@AD.TEST"]);
    assert_eq!(pac.bytes, of_samba());
}

/// Trap 4.
#[test]
fn every_changed_bit_is_noticed() {
    let pac = of_samba();
    let (kdc, _) = part(&pac, 7);
    for bit in 0..pac.len() * 8 {
        let mut changed = pac.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let is_kdc_signature = (kdc + 4..kdc + 16).contains(&(bit / 8));
        assert_eq!(verify(&changed).is_ok(), is_kdc_signature, "bit {bit}");
    }
    for len in 0..pac.len() {
        assert!(verify(&pac[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn the_signature_is_by_the_key_that_opened_the_ticket() {
    for etype in Etype::ALL {
        let key = key(etype, 0x11);
        let pac = build(&[client_info("alice", NOW)], &key);
        let check =
            |pac: &[u8], key: &Key| Pac::verify(pac, key, &alice(), Time::from_seconds(NOW)).map(drop);
        check(&pac, &key).unwrap();
        let other = crate::forge::key(etype, 0x12);
        assert_eq!(check(&pac, &other), Err(PacRefused::Signature));
        for others in Etype::ALL.into_iter().filter(|other| *other != etype) {
            let refused = check(&pac, &crate::forge::key(others, 0x11));
            assert_eq!(refused, Err(PacRefused::SignatureType(etype.checksum_type())));
        }
        // RC4's, which needs no AES key.
        let mut weak = pac.clone();
        let (server, _) = part(&pac, 6);
        weak[server..server + 4].copy_from_slice(&(-138i32).to_le_bytes());
        assert_eq!(check(&weak, &key), Err(PacRefused::SignatureType(-138)));
    }
}

#[test]
fn parts_that_must_be_there_are_there_once() {
    let key = key(Etype::Aes256Sha1, 0x11);
    assert_eq!(verify(&build(&[], &key)), Err(PacRefused::Missing("PAC_CLIENT_INFO")));
    let twice = build(&[client_info("alice", NOW), client_info("alice", NOW)], &key);
    assert_eq!(verify(&twice), Err(PacRefused::Duplicate(10)));
    for (kind, name) in [(6, "the server's signature"), (7, "the KDC's signature")] {
        let mut without = build(&[client_info("alice", NOW)], &key);
        let entry =
            without[8..].chunks_exact(16).position(|entry| entry[..4] == u32::to_le_bytes(kind)).unwrap();
        without[8 + 16 * entry] = 99;
        assert_eq!(verify(&without), Err(PacRefused::Missing(name)));
        let mut short = build(&[client_info("alice", NOW)], &key);
        short[8 + 16 * entry + 4] = 3;
        assert_eq!(verify(&short), Err(PacRefused::Malformed(name)));
    }
    let mut short = build(&[client_info("alice", NOW)], &key);
    let entry = short[8..].chunks_exact(16).position(|entry| entry[..4] == 6u32.to_le_bytes()).unwrap();
    short[8 + 16 * entry + 4] = 15;
    assert_eq!(verify(&short), Err(PacRefused::Signature));
}

#[test]
fn a_certificate_belongs_to_its_ticket_and_one_user() {
    let key = key(Etype::Aes256Sha1, 0x11);
    for name in ["alice", "alice@TEST.LOCAL"] {
        verify(&build(&[client_info(name, NOW)], &key)).unwrap();
    }
    for (name, time) in [("Alice", NOW), ("bob", NOW), ("alice@OTHER", NOW), ("", NOW), ("alice", NOW + 1)] {
        assert_eq!(verify(&build(&[client_info(name, time)], &key)), Err(PacRefused::OtherTicket));
    }
    let sid = |rid: u32| {
        [&[1, 5, 0, 0, 0, 0, 0, 5][..], &[21, 1, 2, 3, rid].map(u32::to_le_bytes).concat()].concat()
    };
    let of = |rid| build(&[client_info("alice", NOW), logon_info(1103, &[], &[]), (18, sid(rid))], &key);
    verify(&of(1103)).unwrap();
    assert_eq!(verify(&of(1104)), Err(PacRefused::OtherUser));
    // The reason reaches the caller, and the client gets a code.
    let data = vec![(128, false, of(1104))];
    let refusal =
        Forge { auth_time: NOW, ticket_data: data, ..Forge::new(Etype::Aes256Sha1) }.accept().unwrap_err();
    assert_eq!(refusal.reason, Reason::Pac(PacRefused::OtherUser));
    assert_eq!(refusal.reason.code().0, 41);
}

#[test]
fn groups_count_where_they_are_enabled() {
    let key = key(Etype::Aes256Sha1, 0x11);
    let logon = |user, groups: &[(u32, u32)], extra: &[Sid]| {
        verify(&build(&[client_info("alice", NOW), logon_info(user, groups, extra)], &key))
            .map(|pac| pac.logon.unwrap())
    };
    let info = logon(1103, &[(513, 7), (1, 7), (2, 3), (3, 0x14)], &[]).unwrap();
    let rids: Vec<u32> = info.group_sids().map(|sid| sid.sub_authorities()[4]).collect();
    assert_eq!(rids, [513, 1], "not those that are disabled or only deny");
    assert_eq!(info.groups.len(), 4);
    // A user of no domain is the first of the other identifiers.
    let other = Sid::new(18, &[7, 8]).unwrap();
    let info = logon(0, &[], &[other, Sid::new(18, &[1]).unwrap()]).unwrap();
    assert_eq!(info.user_sid, other);
    assert_eq!(info.groups.len(), 2);
    assert!(logon(0, &[], &[]).is_err());
    let many: Vec<_> = (0..LogonInfo::GROUPS_MAX as u32).map(|rid| (10_000 + rid, 7)).collect();
    assert_eq!(logon(1103, &many[1..], &[]).unwrap().groups.len(), LogonInfo::GROUPS_MAX);
    assert_eq!(logon(1103, &many, &[]), Err(PacRefused::TooManyGroups));
}

/// Trap 4 (CVE-2022-42898): counts, lengths and offsets at their limits, under a right signature.
#[test]
fn numbers_at_their_limits_are_refused_or_harmless() {
    let key = key(Etype::Aes256Sha1, 0x11);
    let pac = of_samba();
    for kind in [1, 10, 11, 12, 18] {
        let (start, len) = part(&pac, kind);
        for at in start..start + len.saturating_sub(3) {
            for value in [0, 1, 0xffff, 1_000_000, 0x2000_0001, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
                let mut changed = pac.clone();
                changed[at..at + 4].copy_from_slice(&value.to_le_bytes());
                sign(&mut changed, &key);
                if let Ok(pac) = verify(&changed)
                    && let Some(logon) = pac.logon
                {
                    assert!(logon.groups.len() <= 6, "no more than there are bytes for");
                }
            }
        }
    }
}
