//! Tests of key updates, key limits, closing and ends that come too soon.

use rustls::AlertDescription;

use super::*;

#[test]
fn client_key_update_is_answered_and_data_goes_on() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    for _ in 0..40 {
        pair.client.refresh_traffic_keys().unwrap();
        pair.assert_alive();
    }
}

#[test]
fn own_key_update_reaches_the_client_with_and_without_asking() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    for ask_peer in [false, true, true, false] {
        pair.server.update_key(ask_peer).unwrap();
        pair.assert_alive();
    }
}

#[test]
fn key_updates_in_every_suite_keep_the_streams_whole() {
    for (versions, suite) in SUITES.into_iter().filter(|(versions, _)| *versions == Versions::Tls13Only) {
        let mut pair = Pair::new(client_with_suite(versions, suite));
        pair.server.update_key(true).unwrap();
        pair.client.refresh_traffic_keys().unwrap();
        pair.assert_alive();
    }
}

#[test]
fn tls12_has_no_key_update() {
    let mut pair = Pair::new(any_client(Versions::Tls12Only));
    assert!(matches!(pair.server.update_key(false), Err(TlsError::NotOpen)));
    pair.assert_alive();
}

#[test]
fn requests_that_come_before_the_answer_left_share_one_answer() {
    let mut pair = OwnPair::new(Versions::Tls13Only);
    for _ in 0..10 {
        pair.client.update_key(true).unwrap();
    }
    pair.pump_to_server().unwrap();
    let answers = pair.server.take_output();
    assert_eq!(answers.len(), HEADER_LEN + 5 + 1 + 16);
    received(&mut pair.client, answers).unwrap();
    pair.server.write(b"on").unwrap();
    pair.pump().unwrap();
    assert_eq!(pair.at_client, b"on");
}

#[test]
fn tls13_changes_its_key_before_the_limit_and_the_client_follows() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    pair.server.set_record_limit(5);
    let mut updates = 0;
    for round in 0..4 {
        let layout = pair.server.layout().unwrap();
        let plain = pattern(PLAINTEXT_MAX + 10);
        let mut buf = vec![0; layout.sealed_len(plain.len())];
        layout.copy_in(&mut buf, 0, &plain);
        let control = pair.server.seal(&mut buf, plain.len()).unwrap();
        updates += usize::from(!control.is_empty());
        pair.at_client.clear();
        pair.deliver_to_client(&control).unwrap();
        pair.deliver_to_client(&buf).unwrap();
        assert!(pair.at_client == plain, "round {round}");
    }
    assert_eq!(updates, 1);
}

#[test]
fn tls12_refuses_more_records_than_the_limit_and_can_still_close() {
    let mut pair = Pair::new(any_client(Versions::Tls12Only));
    pair.server.set_record_limit(4); // one was the Finished message, one is kept for close_notify
    pair.server_sends(b"one");
    pair.server_sends(b"two");
    assert!(matches!(pair.server.write(b"three"), Err(TlsError::KeyExhausted)));
    assert_eq!(pair.at_client, b"onetwo");
    pair.server.close();
    pair.pump();
    assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn close_notify_from_the_client_leaves_our_side_open() {
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        let mut pair = Pair::new(any_client(versions));
        pair.client.send_close_notify();
        pair.pump();
        assert!(pair.server_saw_close);
        pair.server_sends(b"the rest of the answer");
        assert_eq!(pair.at_client, b"the rest of the answer");
        pair.server.close();
        pair.pump();
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn data_behind_close_notify_is_ignored() {
    let mut pair = OwnPair::new(Versions::Tls13Only);
    pair.client.write(b"before").unwrap();
    pair.client.close();
    pair.client.write_record(rustls::ContentType::ApplicationData, b"after");
    pair.pump_to_server().unwrap();
    received(&mut pair.server, b"not even a record".to_vec()).unwrap();
    assert_eq!(pair.at_server, b"before");
}

#[test]
fn close_is_sent_once_and_nothing_may_follow() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    pair.server.close();
    let first = pair.server.take_output();
    assert_eq!(first.len(), HEADER_LEN + 2 + 1 + 16);
    pair.server.close();
    assert!(!pair.server.has_output());
    assert!(matches!(pair.server.write(b"late"), Err(TlsError::NotOpen)));
}

#[test]
fn fatal_alert_from_the_client_ends_the_session_without_an_answer() {
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        let mut pair = OwnPair::new(versions);
        let alert = [2, u8::from(AlertDescription::InternalError)];
        pair.client.write_record(rustls::ContentType::Alert, &alert);
        let error = pair.pump_to_server().unwrap_err();
        assert!(matches!(error, TlsError::PeerAlert(AlertDescription::InternalError)));
        assert!(!pair.server.has_output());
        assert!(matches!(received(&mut pair.server, vec![0; 9]), Err(TlsError::NotOpen)));
    }
}
