use super::*;
use crate::crypto::Key;
use crate::message::Principal;
use crate::{Etype, Time};

fn entry(components: &[&str], kvno: u32, byte: u8) -> KeyEntry {
    KeyEntry {
        file: "made".into(),
        number: 1,
        principal: Some(Principal::new(components, "R")),
        kvno,
        etype: 18,
        written: Some(Time::from_seconds(1_000)),
        key_use: KeyUse::Service,
        key: Ok(Key::new(Etype::Aes256Sha1, &[byte; 32]).unwrap()),
    }
}

/// A record by hand: a version of 8 bits, a type and a key, then `tail`.
fn record(kvno: u8, etype: u16, key: &[u8], tail: &[u8]) -> Vec<u8> {
    let body = [
        &[0, 2, 0, 1, b'R', 0, 4, b'c', b'i', b'f', b's', 0, 1, b'h', 0, 0, 0, 3, 0, 0, 0, 9, kvno][..],
        &etype.to_be_bytes(),
        &(key.len() as u16).to_be_bytes(),
        key,
        tail,
    ]
    .concat();
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

fn table(records: &[Vec<u8>]) -> Vec<u8> {
    [&[5, 2][..], &records.concat()].concat()
}

fn parse(bytes: &[u8]) -> Result<Vec<KeyEntry>, KeyFileError> {
    parse_keytab("/etc/k", bytes)
}

#[test]
fn versions_have_8_or_32_bits() {
    let kvno = |low, tail: &[u8]| parse(&table(&[record(low, 17, &[1; 16], tail)])).unwrap()[0].kvno;
    assert_eq!(kvno(7, &[]), 7);
    assert_eq!(kvno(7, &[0, 0, 1, 7]), 263);
    assert_eq!(kvno(7, &[0, 0, 0, 0]), 7, "not there");
    assert_eq!(kvno(7, &[0, 0]), 7, "no room");
    assert_eq!(kvno(7, &[0, 0, 2, 1, 9, 9, 9, 9, 9]), 513, "what a later format adds is skipped");
}

#[test]
fn holes_and_what_follows_the_end_are_skipped() {
    let good = record(1, 17, &[1; 16], &[]);
    let mut hole = record(2, 17, &[2; 16], &[]);
    let len = -i32::from_be_bytes(*hole.first_chunk().unwrap());
    hole[..4].copy_from_slice(&len.to_be_bytes());
    let entries = parse(&table(&[good.clone(), hole.clone(), hole.clone(), good.clone()])).unwrap();
    assert_eq!(entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 2]);
    let filled = table(&[good.clone(), vec![0; 64]]);
    assert_eq!(parse(&filled).unwrap().len(), 1);
    assert_eq!(parse(&[5, 2]).unwrap().len(), 0);
    let mut long = hole;
    long[..4].copy_from_slice(&i32::MIN.to_be_bytes());
    assert_eq!(parse(&table(&[good, long])).unwrap_err().problem, KeyFileProblem::Short);
}

#[test]
fn damage_is_told_with_the_entry_and_its_principal() {
    let good = record(1, 17, &[1; 16], &[]);
    let text = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
    assert_eq!(text(b""), "/etc/k, header: not a key table of format 0x0502");
    assert_eq!(text(&[5, 1, 0, 0]), "/etc/k, header: not a key table of format 0x0502");
    assert_eq!(text(&vec![5; Keys::FILE_BYTES_MAX + 1]), "/etc/k, header: longer than a file of keys can be");
    let short_key = table(&[good.clone(), record(1, 18, &[1; 16], &[])]);
    let expected = format!(
        "/etc/k, entry 2 (offset {}, cifs/h@R): the key has 16 bytes, which its type's keys have not",
        2 + good.len()
    );
    assert_eq!(text(&short_key), expected);
    let mut name = table(std::slice::from_ref(&good));
    name[13] = 0xff;
    assert_eq!(text(&name), "/etc/k, entry 1 (offset 2): a name is not UTF-8");
    // A length within the record that is longer than it.
    let mut lengths = table(std::slice::from_ref(&good));
    lengths[8] = 0xff;
    assert_eq!(text(&lengths), "/etc/k, entry 1 (offset 2): lengths within the entry do not fit it");
    let whole = table(&[good.clone(), good.clone()]);
    for len in 3..whole.len() {
        let is_first = len < 2 + good.len();
        match parse(&whole[..len]) {
            Ok(entries) => assert_eq!((entries.len(), len), (1, 2 + good.len())),
            Err(error) => {
                let entry = if is_first { "entry 1 (offset 2)" } else { "entry 2 (offset " };
                assert!(error.at.starts_with(entry), "{len} bytes: {error}");
                assert_eq!(error.problem, KeyFileProblem::Short);
            }
        }
    }
}

#[test]
fn keys_that_are_not_used_are_listed_with_what_to_do() {
    let entries = parse(&table(&[record(4, 23, &[1; 16], &[]), record(4, 3, &[1; 8], &[])])).unwrap();
    assert!(entries.iter().all(|entry| entry.key.is_err()));
    let line = entries[0].to_string();
    assert!(line.starts_with("kvno 4, arcfour-hmac (23), cifs/h@R: "), "{line}");
    assert!(line.contains("msDS-SupportedEncryptionTypes"), "{line}");
    assert!(Keys::new(entries).is_empty());
}

#[test]
fn files_are_merged_and_keys_found() {
    let one = [entry(&["cifs", "h"], 1, 1), entry(&["cifs", "h"], 2, 2), entry(&["HTTP", "h"], 9, 3)];
    let other = [entry(&["cifs", "h"], 2, 2), entry(&["cifs", "h"], 3, 4)];
    let keys = Keys::new(one.into_iter().chain(other));
    assert_eq!(keys.entries().len(), 4, "one is there twice");
    let cifs = Principal::new(&["cifs", "h"], "R");
    let kvno = |principal, kvno| keys.find(principal, kvno, Etype::Aes256Sha1).map(|entry| entry.kvno);
    assert_eq!(kvno(Some(&cifs), None), Some(3));
    assert_eq!(kvno(Some(&cifs), Some(1)), Some(1));
    assert_eq!(kvno(Some(&cifs), Some(9)), None);
    assert_eq!(kvno(None, None), Some(9));
    assert_eq!(keys.find(None, None, Etype::Aes128Sha1).map(|entry| entry.kvno), None);
    assert_eq!(
        kvno(Some(&Principal::new(&["cifs", "h"], "r")), None),
        None,
        "realms are compared byte by byte"
    );
}

#[test]
fn key_file_ext_has_kinds_and_headers_that_may_grow() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let key = words(&[1, 2, 3, 4]);
    let file = [
        words(&[4, 16, 2, 5, 17, 16]),
        key.clone(),
        words(&[24, 1, 6, 17, 0xdead, 0xbeef, 16]),
        key.clone(),
        words(&[16, 0, 7, 1, 8, 1, 2]),
        words(&[16, 2, 8, 23, 16]),
        key.clone(),
    ]
    .concat();
    let entries = parse_key_file_ext("KeyFileExt", &file).unwrap();
    let found: Vec<_> =
        entries.iter().map(|entry| (entry.key_use, entry.kvno, entry.etype, entry.key.is_ok())).collect();
    assert_eq!(
        found,
        [
            (KeyUse::RxkadKrb5, 5, 17, true),
            (KeyUse::Rxgk, 6, 17, true),
            (KeyUse::Rxkad, 7, 1, false),
            (KeyUse::RxkadKrb5, 8, 23, false)
        ]
    );
    let lines: Vec<_> = entries.iter().map(ToString::to_string).collect();
    assert_eq!(lines[0], "kvno 5, aes128-cts-hmac-sha1-96 (17), any principal of the AFS service");
    assert_eq!(lines[1], "kvno 6, aes128-cts-hmac-sha1-96 (17), rxgk");
    assert_eq!(lines[2], "kvno 7, des-cbc-crc (1), rxkad of krb4, not used");
    // A key of rxgk opens no tickets.
    let sealed = entries[1].key.as_ref().unwrap().encrypt(2, b"x", &[0; 16]);
    let ticket = crate::message::EncryptedData { etype: 17, kvno: Some(6), cipher: &sealed };
    let only = |at: usize| Keys::new([entries[at].clone()]);
    assert_eq!(only(1).open(&ticket, None).unwrap_err(), UnopenedTicket::NoKey(Etype::Aes128Sha1));
    assert_eq!(**only(0).open(&ticket, None).unwrap().plain, *b"x");
    let refused = |bytes: &[u8]| {
        let error = parse_key_file_ext("KeyFileExt", bytes).unwrap_err();
        (error.at, error.problem)
    };
    for len in 4..file.len() {
        assert_eq!(refused(&file[..len]).1, KeyFileProblem::Short, "{len} bytes");
    }
    assert_eq!(refused(&[0; 3]).1, KeyFileProblem::Short);
    assert_eq!(refused(&words(&[u32::MAX])).1, KeyFileProblem::TooMany);
    assert_eq!(refused(&words(&[1, 15, 2, 5, 17, 16])).1, KeyFileProblem::Lengths);
    assert_eq!(refused(&words(&[1, 16, 3, 5, 17, 0])).1, KeyFileProblem::KeyKind(3));
    assert_eq!(
        refused(&words(&[1, 16, 2, 5, 17, 0])),
        ("entry 1 (offset 4)".into(), KeyFileProblem::KeyLength { len: 0 })
    );
    assert_eq!(refused(&words(&[0, 1])).1, KeyFileProblem::Trailing);
}
