//! Tests of the record opener alone, with records that no sealer makes.

use rustls::ConnectionTrafficSecrets as Secrets;
use rustls::ContentType;
use rustls::crypto::cipher::{AeadKey, Iv};

use crate::keys::{RecordCipher, tls12_aad};
use crate::open::{Opened, Place};

use super::*;

pub(super) fn fixed_keys(version: TlsVersion) -> TrafficKeys {
    let secrets = Secrets::Aes256Gcm { key: AeadKey::from([42; 32]), iv: Iv::from([24; 12]) };
    TrafficKeys { version, seq: 0, record_limit: 1 << 24, secrets }
}

/// Seals a TLS 1.3 record around any inner bytes: content, type and padding are the caller's.
pub(super) fn tls13_record(cipher: &mut RecordCipher, inner: &[u8]) -> Vec<u8> {
    let len = (inner.len() + 16) as u16;
    let header = [&[23, 3, 3][..], &len.to_be_bytes()].concat();
    let mut text = inner.to_vec();
    let seq = cipher.next_seq().unwrap();
    let tag = cipher.seal(cipher.nonce_from_seq(seq), &header, &mut text).unwrap();
    [header, text, tag.to_vec()].concat()
}

fn open_one(version: TlsVersion, mut record: Vec<u8>) -> Result<(ContentType, Vec<u8>), TlsError> {
    let mut opener = RecordOpener::new(&fixed_keys(version)).unwrap();
    match opener.open(&mut record)? {
        Opened::Record { content_type, plain: Place::Input(plain), consumed } => {
            assert_eq!(consumed, record.len());
            Ok((content_type, record[plain].to_vec()))
        }
        other => panic!("{other:?}"),
    }
}

fn open_tls13(inner: &[u8]) -> Result<(ContentType, Vec<u8>), TlsError> {
    let mut cipher = RecordCipher::new(&fixed_keys(TlsVersion::Tls13)).unwrap();
    open_one(TlsVersion::Tls13, tls13_record(&mut cipher, inner))
}

#[test]
fn padding_is_removed_up_to_the_longest_record() {
    let padded = [&b"data"[..], &[23], &[0; 1000]].concat();
    assert_eq!(open_tls13(&padded).unwrap(), (ContentType::ApplicationData, b"data".to_vec()));
    let mut longest = pattern(PLAINTEXT_MAX);
    longest.push(23);
    assert_eq!(open_tls13(&longest).unwrap().1.len(), PLAINTEXT_MAX);
}

#[test]
fn one_byte_over_the_plaintext_limit_is_record_overflow() {
    let mut inner = vec![7; PLAINTEXT_MAX + 1];
    inner.push(23);
    assert!(matches!(open_tls13(&inner), Err(TlsError::RecordOverflow(_))));
    // Padding counts too (RFC 8446 section 5.4).
    let padded = [&[7; 10][..], &[23], &[0; PLAINTEXT_MAX]].concat();
    assert!(matches!(open_tls13(&padded), Err(TlsError::RecordOverflow(_))));
}

#[test]
fn record_without_a_content_type_is_unexpected() {
    assert!(matches!(open_tls13(&[0; 50]), Err(TlsError::Unexpected(_))));
    assert!(matches!(open_tls13(&[]), Err(TlsError::Unexpected(_))));
}

#[test]
fn empty_alert_and_handshake_records_are_refused() {
    for content_type in [21, 22] {
        assert!(matches!(open_tls13(&[content_type]), Err(TlsError::Unexpected(_))));
    }
}

#[test]
fn records_too_short_for_a_tag_fail_authentication() {
    for len in 0..16 {
        let record = [vec![23, 3, 3, 0, len], vec![0; usize::from(len)]].concat();
        assert!(matches!(open_one(TlsVersion::Tls13, record.clone()), Err(TlsError::BadRecordMac)));
        assert!(matches!(open_one(TlsVersion::Tls12, record), Err(TlsError::BadRecordMac)));
    }
}

#[test]
fn tls12_peer_may_choose_any_explicit_nonce() {
    let mut cipher = RecordCipher::new(&fixed_keys(TlsVersion::Tls12)).unwrap();
    let explicit = [0xa5; 8];
    let mut text = b"hello".to_vec();
    let aad = tls12_aad(cipher.next_seq().unwrap(), 23, text.len());
    let tag = cipher.seal(cipher.nonce_from_record(explicit), &aad, &mut text).unwrap();
    let len = (8 + text.len() + tag.len()) as u8;
    let record = [&[23, 3, 3, 0, len][..], &explicit, &text, &tag].concat();
    let opened = open_one(TlsVersion::Tls12, record).unwrap();
    assert_eq!(opened, (ContentType::ApplicationData, b"hello".to_vec()));
}

#[test]
fn oversized_length_is_refused_by_the_header_alone() {
    for (version, len) in [(TlsVersion::Tls13, 16_384 + 257_u16), (TlsVersion::Tls12, 16_384 + 2049)] {
        let mut opener = RecordOpener::new(&fixed_keys(version)).unwrap();
        let mut header = [&[23, 3, 3][..], &len.to_be_bytes()].concat();
        let error = opener.open(&mut header).unwrap_err();
        assert!(matches!(error, TlsError::RecordOverflow(found) if found == usize::from(len)));
    }
}

#[test]
fn held_bytes_follow_what_came_and_are_freed_with_the_record() {
    let mut cipher = RecordCipher::new(&fixed_keys(TlsVersion::Tls13)).unwrap();
    let mut inner = pattern(PLAINTEXT_MAX);
    inner.push(23);
    let mut record = tls13_record(&mut cipher, &inner);
    let mut opener = RecordOpener::new(&fixed_keys(TlsVersion::Tls13)).unwrap();
    let (start, end) = record.split_at_mut(100);
    assert_eq!(opener.open(start).unwrap(), Opened::NeedMore);
    assert_eq!(opener.carried_len(), 100);
    assert!(opener.carry_capacity() <= 200, "a header alone reserves no whole record");
    let opened = opener.open(end).unwrap();
    let Opened::Record { plain: Place::Carry(plain), consumed, .. } = opened else { panic!("{opened:?}") };
    assert_eq!(consumed, end.len());
    assert!(opener.carried(plain) == pattern(PLAINTEXT_MAX));
    assert_eq!(opener.open(&mut []).unwrap(), Opened::NeedMore);
    assert_eq!((opener.carried_len(), opener.carry_capacity()), (0, 0));
}

#[test]
fn empty_records_in_a_row_are_bounded() {
    let mut cipher = RecordCipher::new(&fixed_keys(TlsVersion::Tls13)).unwrap();
    let mut opener = RecordOpener::new(&fixed_keys(TlsVersion::Tls13)).unwrap();
    for _ in 0..32 {
        opener.open(&mut tls13_record(&mut cipher, &[23])).unwrap();
    }
    opener.open(&mut tls13_record(&mut cipher, b"useful\x17")).unwrap();
    for _ in 0..32 {
        opener.open(&mut tls13_record(&mut cipher, &[23])).unwrap();
    }
    let error = opener.open(&mut tls13_record(&mut cipher, &[23])).unwrap_err();
    assert!(matches!(error, TlsError::Flood("empty records")));
}
