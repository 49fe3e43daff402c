//! Tests of peers that break the protocol: the alerts that they get, and no other effect.

use rustls::{AlertDescription, ContentType};

use super::*;

#[test]
fn every_corrupted_bit_ends_the_session_with_the_right_alert() {
    for (versions, suite) in [SUITES[0], SUITES[3], SUITES[5]] {
        let record_len = record_of(&mut Pair::new(client_with_suite(versions, suite))).len();
        for byte in 0..record_len {
            let mut pair = Pair::new(client_with_suite(versions, suite));
            let mut record = record_of(&mut pair);
            record[byte] ^= 1 << (byte % 8);
            // A length that grew leaves the record unfinished; more bytes then finish it.
            record.extend([0; 3000]);
            let error = pair.deliver_to_server(&record).unwrap_err();
            let is_expected = match byte {
                0 => matches!(error, TlsError::Unexpected(_) | TlsError::BadRecordMac),
                1 | 2 if versions == Versions::Tls12Only => matches!(error, TlsError::RecordVersion(_)),
                3 => matches!(error, TlsError::RecordOverflow(_) | TlsError::BadRecordMac),
                _ => matches!(error, TlsError::BadRecordMac),
            };
            assert!(is_expected, "{suite:?} byte {byte}: {error}");
            let alert = error.alert().unwrap();
            let downward = pair.server.take_output();
            let at_client = pair.deliver_to_client(&downward).unwrap_err();
            assert_eq!(at_client, rustls::Error::AlertReceived(alert), "{suite:?} byte {byte}");
            assert!(pair.at_server.is_empty());
        }
    }
}

fn record_of(pair: &mut Pair) -> Vec<u8> {
    pair.client.writer().write_all(b"GET").unwrap();
    pair.client_output()
}

#[test]
fn replayed_and_reordered_records_are_refused() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    let first = record_of(&mut pair);
    pair.deliver_to_server(&first).unwrap();
    assert!(matches!(pair.deliver_to_server(&first), Err(TlsError::BadRecordMac)));

    let mut pair = Pair::new(any_client(Versions::Tls12Only));
    let (_first, second) = (record_of(&mut pair), record_of(&mut pair));
    assert!(matches!(pair.deliver_to_server(&second), Err(TlsError::BadRecordMac)));
}

#[test]
fn renegotiation_is_refused_by_a_warning_then_ended() {
    let mut pair = OwnPair::new(Versions::Tls12Only);
    let client_hello = [&[1, 0, 0, 100][..], &[0; 100]].concat();
    pair.client.write_record(ContentType::Handshake, &client_hello);
    pair.pump().unwrap();
    pair.client.write(b"then without").unwrap();
    pair.pump().unwrap();
    assert_eq!(pair.at_server, b"then without");
    pair.client.write_record(ContentType::Handshake, &client_hello);
    assert!(matches!(pair.pump_to_server(), Err(TlsError::Unexpected(_))));
    let error = received(&mut pair.client, pair.server.take_output()).unwrap_err();
    assert!(matches!(error, TlsError::PeerAlert(AlertDescription::UnexpectedMessage)));
}

#[test]
fn floods_of_records_that_carry_nothing_are_ended() {
    type Flood = (&'static str, fn(&mut TlsSession), usize);
    let floods: [Flood; 3] = [
        ("tiny records", |client| client.write(b"x").unwrap(), 1024),
        ("key updates", |client| client.update_key(true).unwrap(), 32),
        ("warning alerts", |client| client.write_record(ContentType::Alert, &[1, 90]), 4),
    ];
    for (name, send, allowed) in floods {
        let mut pair = OwnPair::new(Versions::Tls13Only);
        for _ in 0..allowed {
            send(&mut pair.client);
        }
        pair.pump_to_server().unwrap_or_else(|error| panic!("{name}: {error}"));
        send(&mut pair.client);
        let error = pair.pump_to_server().unwrap_err();
        assert!(matches!(error, TlsError::Flood(flood) if flood == name), "{name}: {error}");
        let error = received(&mut pair.client, pair.server.take_output()).unwrap_err();
        assert!(matches!(error, TlsError::PeerAlert(AlertDescription::UnexpectedMessage)), "{name}");
    }
}

#[test]
fn http2_window_updates_for_hours_are_no_flood() {
    let mut pair = OwnPair::new(Versions::Tls13Only);
    for _ in 0..10_000 {
        pair.client.write(&[0; 13]).unwrap();
        pair.pump_to_server().unwrap();
    }
}

#[test]
fn messages_that_belong_elsewhere_are_unexpected() {
    for (versions, content_type, payload) in [
        (Versions::Tls13Only, ContentType::ChangeCipherSpec, &[1][..]),
        (Versions::Tls12Only, ContentType::ChangeCipherSpec, &[1]),
        (Versions::Tls13Only, ContentType::Handshake, &[1, 0, 0, 1, 0]),
        (Versions::Tls12Only, ContentType::Handshake, &[20, 0, 0, 1, 0]),
        (Versions::Tls13Only, ContentType::Heartbeat, &[1]),
        (Versions::Tls12Only, ContentType::Heartbeat, &[1]),
        (Versions::Tls13Only, ContentType::Unknown(99), &[1]),
    ] {
        let mut pair = OwnPair::new(versions);
        pair.client.write_record(content_type, payload);
        let error = pair.pump_to_server().unwrap_err();
        assert!(matches!(error, TlsError::Unexpected(_)), "{versions:?} {content_type:?}: {error}");
    }
}

#[test]
fn unprotected_records_after_the_handshake_are_refused() {
    for record in [&[20, 3, 3, 0, 1, 1][..], &[21, 3, 3, 0, 2, 2, 40]] {
        let mut pair = Pair::new(any_client(Versions::Tls13Only));
        assert!(matches!(pair.deliver_to_server(record), Err(TlsError::Unexpected(_))));
    }
    let mut pair = Pair::new(any_client(Versions::Tls12Only));
    assert!(matches!(pair.deliver_to_server(&[21, 3, 3, 0, 2, 2, 40]), Err(TlsError::BadRecordMac)));
}

#[test]
fn plain_http_and_other_protocols_are_told_apart() {
    let server = || TlsSession::server(server_config()).unwrap();
    let get = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut session = server();
    assert!(matches!(received(&mut session, get.to_vec()), Err(TlsError::PlainHttp)));
    assert!(!session.has_output(), "the connection answers in plain text itself");
    let ssh = b"ssh-2.0-nobody\r\n";
    assert!(matches!(received(&mut server(), ssh.to_vec()), Err(TlsError::NotTls(b's'))));
    let sslv2 = [0x80, 0x2e, 1, 0, 2];
    assert!(matches!(received(&mut server(), sslv2.to_vec()), Err(TlsError::NotTls(0x80))));
}

#[test]
fn endless_client_hello_is_cut_off_at_the_limit() {
    let mut session = TlsSession::server(server_config()).unwrap();
    // The message claims 65,535 bytes and comes in small records.
    let mut sent = 0;
    let mut fragment = [&[22, 3, 1, 0, 204, 1, 0, 0xff, 0xff][..], &[0; 200]].concat();
    let error = loop {
        sent += fragment.len();
        match received(&mut session, fragment) {
            Ok(_) => fragment = [&[22, 3, 1, 0, 200][..], &[0; 200]].concat(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, TlsError::HandshakeTooLong(CLIENT_HELLO_LEN_MAX)), "{error}");
    assert!(sent <= CLIENT_HELLO_LEN_MAX + 300);
    assert_eq!(session.handshake_bytes(), 0, "nothing is kept of it");
}

#[test]
fn bad_handshake_records_get_an_unprotected_alert() {
    for (record, expected) in [
        (&[22, 3, 1, 0xff, 0xff][..], AlertDescription::RecordOverflow),
        (&[22, 9, 1, 0, 1], AlertDescription::DecodeError),
        (&[22, 3, 1, 0, 4, 1, 0, 0, 0], AlertDescription::DecodeError),
    ] {
        let mut session = TlsSession::server(server_config()).unwrap();
        received(&mut session, record.to_vec()).unwrap_err();
        assert_eq!(session.take_output(), [21, 3, 3, 0, 2, 2, u8::from(expected)], "{record:?}");
    }
}

#[test]
fn garbage_instead_of_the_finished_message_is_refused_with_an_alert() {
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        let mut client = ClientConnection::new(Arc::new(any_client(versions)), localhost()).unwrap();
        let mut server = TlsSession::server(server_config()).unwrap();
        let mut upward = Vec::new();
        client.write_tls(&mut upward).unwrap();
        received(&mut server, upward).unwrap();
        let hello_len = server.take_output().len();
        assert!(hello_len > 0);
        let garbage = [&[23, 3, 3, 0, 40][..], &[7; 40]].concat();
        assert!(matches!(received(&mut server, garbage), Err(TlsError::Handshake(_))), "{versions:?}");
        assert!(server.has_output(), "{versions:?}");
        assert!(matches!(received(&mut server, vec![23]), Err(TlsError::NotOpen)));
    }
}

#[test]
fn client_hello_with_any_byte_changed_is_answered_or_refused_but_never_finished() {
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        let config = Arc::new(any_client(versions));
        let hello = TlsSession::client(config, localhost()).unwrap().take_output();
        for at in 0..hello.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut hello = hello.clone();
                hello[at] ^= change;
                let mut server = TlsSession::server(server_config()).unwrap();
                let result = received(&mut server, hello);
                assert!(result.is_err() || server.is_handshaking(), "byte {at} ^ {change:#x}");
            }
        }
    }
}
