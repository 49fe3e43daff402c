//! Tests of kernel TLS with a stand-in for the kernel.

use super::fake_kernel::FakeKernel;
use super::*;

fn into_kernel(pair: &mut Pair, can_rekey: bool) -> FakeKernel {
    let info = CryptoInfo::new(pair.server.kernel_tx_keys(0, can_rekey).unwrap()).unwrap();
    let kernel = FakeKernel::set_tx(info.as_bytes());
    pair.server.use_kernel_tx(can_rekey);
    kernel
}

/// Sends what the session has queued for the kernel, as the connection's code would.
fn send_control(pair: &mut Pair, kernel: &mut FakeKernel) {
    for control in pair.server.take_kernel_control() {
        let bytes = kernel.send(control.record_type, &control.payload);
        pair.deliver_to_client(&bytes).unwrap();
        if let Some(info) = control.then_rekey {
            *kernel = FakeKernel::set_tx(info.as_bytes());
        }
    }
}

#[test]
fn kernel_goes_on_where_the_handshake_ended_in_every_suite() {
    for (versions, suite) in SUITES {
        let mut pair = Pair::new(client_with_suite(versions, suite));
        let mut kernel = into_kernel(&mut pair, false);
        assert!(pair.server.layout().is_none());
        assert!(matches!(pair.server.write(b"user space"), Err(TlsError::NotOpen)));
        pair.server.count_kernel_tx(100_000).unwrap();
        let bytes = kernel.send(23, &pattern(100_000));
        pair.deliver_to_client(&bytes).unwrap();
        assert!(pair.at_client == pattern(100_000), "{suite:?}");
        pair.client_sends(b"received in user space");
        assert_eq!(pair.at_server, b"received in user space");
        pair.server.close();
        assert!(!pair.server.has_output());
        send_control(&mut pair, &mut kernel);
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
    }
}

#[test]
fn new_kernel_answers_a_key_update() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    let mut kernel = into_kernel(&mut pair, true);
    for round in 0..3 {
        pair.client.refresh_traffic_keys().unwrap();
        pair.client_sends(b"under a new key");
        send_control(&mut pair, &mut kernel);
        let bytes = kernel.send(23, b"so am I");
        pair.deliver_to_client(&bytes).unwrap();
        assert_eq!(pair.at_client, b"so am I".repeat(round + 1));
    }
}

#[test]
fn old_kernel_closes_cleanly_when_the_peer_asks_for_a_new_key() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    let mut kernel = into_kernel(&mut pair, false);
    pair.client.refresh_traffic_keys().unwrap();
    let upward = pair.client_output();
    assert!(matches!(pair.deliver_to_server(&upward), Err(TlsError::KernelRekey)));
    send_control(&mut pair, &mut kernel);
    assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
}

#[test]
fn kernel_key_is_changed_or_given_up_at_its_limit() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    pair.server.set_record_limit(10);
    let mut kernel = into_kernel(&mut pair, true);
    let mut rekeyed_at = Vec::new();
    for _ in 0..40 {
        let seq = kernel.seq;
        pair.server.count_kernel_tx(7).unwrap();
        send_control(&mut pair, &mut kernel);
        if kernel.seq < seq {
            rekeyed_at.push(seq);
        }
        let bytes = kernel.send(23, b"7 bytes");
        pair.deliver_to_client(&bytes).unwrap();
    }
    assert_eq!(rekeyed_at, [9], "record ten of ten is the KeyUpdate");
    let mut pair = Pair::new(any_client(Versions::Tls12Only));
    pair.server.set_record_limit(3);
    into_kernel(&mut pair, true);
    pair.server.count_kernel_tx(1).unwrap();
    assert!(matches!(pair.server.count_kernel_tx(1), Err(TlsError::KeyExhausted)));
}

#[test]
fn keys_are_not_offered_while_output_waits_nor_once_they_are_to_stay() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    assert!(pair.server.kernel_tx_keys(0, false).is_some());
    pair.server.write(b"sealed here").unwrap();
    assert!(pair.server.kernel_tx_keys(0, false).is_none());
    pair.pump();
    assert!(pair.server.kernel_tx_keys(0, false).is_some());
    pair.server.keep_user_tx();
    assert!(pair.server.kernel_tx_keys(0, false).is_none());
    pair.assert_alive();
}

#[test]
fn kernel_goes_on_where_user_space_stopped_in_every_suite() {
    for (versions, suite) in SUITES {
        let mut pair = Pair::new(client_with_suite(versions, suite));
        pair.server_sends(&pattern(50_000));
        if versions == Versions::Tls13Only {
            pair.client.refresh_traffic_keys().unwrap();
            pair.client_sends(b"and a new key");
            pair.server_sends(b"under it");
        }
        pair.at_client.clear();
        let mut kernel = into_kernel(&mut pair, true);
        pair.deliver_to_client(&kernel.send(23, &pattern(70_000))).unwrap();
        assert!(pair.at_client == pattern(70_000), "{suite:?}");
    }
}

#[test]
fn old_kernel_gets_no_key_that_the_peer_will_want_changed_or_that_a_body_would_use_up() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    pair.client.refresh_traffic_keys().unwrap();
    pair.client_sends(b"asks for a new key");
    assert!(pair.server.kernel_tx_keys(0, false).is_none());
    assert!(pair.server.kernel_tx_keys(0, true).is_some());

    let mut pair = Pair::new(client_with_suite(SUITES[0].0, SUITES[0].1));
    assert!(pair.server.kernel_tx_keys(32 << 30, false).is_some());
    assert!(pair.server.kernel_tx_keys(200 << 30, false).is_none());
    assert!(pair.server.kernel_tx_keys(200 << 30, true).is_some());
}

#[test]
fn response_is_begun_only_while_half_of_a_fixed_key_is_left() {
    let mut pair = Pair::new(any_client(Versions::Tls13Only));
    pair.server.set_record_limit(100);
    into_kernel(&mut pair, false);
    let mut begun = 0;
    while pair.server.key_lasts() {
        pair.server.count_kernel_tx(1).unwrap();
        begun += 1;
    }
    assert!((40..=50).contains(&begun), "{begun}");
    pair.server.count_kernel_tx(1).unwrap();
}
