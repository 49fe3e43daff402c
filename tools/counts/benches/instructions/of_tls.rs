//! Instructions that one TLS record takes.

use std::hint::black_box;
use std::sync::Arc;

use gungraun::{library_benchmark, library_benchmark_group};
use tls::{
    ClientTrust, PLAINTEXT_MAX, TicketKeys, TlsConfig, TlsEvent, TlsSession, TlsVersion, Versions,
    client_config,
};

// One full record, in place, with the suite that both sides prefer.
#[library_benchmark]
#[bench::tls13(established())]
fn seal_16_kib_record(input: (TlsSession, Vec<u8>)) -> (TlsSession, Vec<u8>) {
    let (mut session, mut buf) = input;
    let control = session.seal(&mut buf, PLAINTEXT_MAX).expect("an open session");
    assert!(black_box(control).is_empty());
    (session, buf)
}

#[library_benchmark]
#[bench::tls13(sealed())]
fn open_16_kib_record(input: (TlsSession, Vec<u8>)) -> (TlsSession, Vec<u8>) {
    let (mut session, mut buf) = input;
    let mut receive = session.receive(&mut buf);
    match receive.next().expect("an authentic record") {
        Some(TlsEvent::Data(plain)) => assert_eq!(black_box(plain).len(), PLAINTEXT_MAX),
        other => panic!("a record of data gave {other:?}"),
    }
    assert!(receive.next().expect("no more").is_none());
    (session, buf)
}

/// Returns the server's session of a connection that has sealed its first record, and a buffer for the next.
fn established() -> (TlsSession, Vec<u8>) {
    let (_, mut server) = pair();
    let layout = server.layout().expect("established");
    let mut buf = vec![0; layout.sealed_len(PLAINTEXT_MAX)];
    let control = server.seal(&mut buf, PLAINTEXT_MAX).expect("an open session");
    assert!(control.is_empty());
    (server, buf)
}

/// Returns the client's session, which has opened a record, and the next record.
fn sealed() -> (TlsSession, Vec<u8>) {
    let (mut client, mut server) = pair();
    for _ in 0..2 {
        server.write(&[7; PLAINTEXT_MAX]).expect("an open session");
    }
    let mut first = server.take_output();
    let second = first.split_off(first.len() / 2);
    let mut receive = client.receive(&mut first);
    while receive.next().expect("valid records").is_some() {}
    (client, second)
}

/// Returns the client's and the server's session of an established connection.
fn pair() -> (TlsSession, TlsSession) {
    let dir = tempfile::tempdir().expect("a directory for the certificate");
    let tickets = Arc::new(TicketKeys::new().expect("random bytes"));
    let config = TlsConfig::new(dir.path()).load(tickets).expect("a self-signed certificate").config;
    let trust = client_config(&ClientTrust::AnyCertificate, Versions::Tls13Only, &[]).expect("no files");
    let name = "localhost".try_into().expect("a name");
    let mut client = TlsSession::client(Arc::new(trust), name).expect("a valid configuration");
    let mut server = TlsSession::server(config).expect("a valid configuration");
    while client.has_output() || server.has_output() {
        deliver(&mut client, &mut server);
        deliver(&mut server, &mut client);
    }
    assert_eq!(server.info().expect("established").version, TlsVersion::Tls13);
    (client, server)
}

fn deliver(from: &mut TlsSession, to: &mut TlsSession) {
    let mut bytes = from.take_output();
    let mut receive = to.receive(&mut bytes);
    while receive.next().expect("valid records").is_some() {}
}

library_benchmark_group!(name = in_tls, benchmarks = [seal_16_kib_record, open_16_kib_record]);
