//! Cost of TLS: sealing and opening by our record layer and by rustls, and memory of an idle session.
//!
//! `cargo run --release -p tls --example records`

use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use rustls::crypto::aws_lc_rs;
use rustls::{CipherSuite, ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use tls::*;

const BODY_LEN: usize = 1 << 20;
const ROUNDS: usize = 300;
const IDLE_SESSIONS: usize = 10_000;

fn main() {
    let dir = std::env::temp_dir().join(format!("linerate-tls-bench-{}", std::process::id()));
    let tls = TlsConfig::new(&dir).load(Arc::new(TicketKeys::new().expect("random bytes")));
    let server = tls.expect("a self-signed certificate").config;

    println!("copy of 1 MiB into 256 KiB: {:.0} ns\n", copy_only());
    println!("| suite | operation | ours ns | ours GB/s | rustls ns | rustls GB/s |");
    println!("|---|---|---|---|---|---|");
    for suite in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ] {
        let client = Arc::new(client_with_suite(suite));
        report(
            suite,
            "seal 1 MiB",
            BODY_LEN,
            seal_ours(&client, &server),
            seal_rustls(&client, &server, BODY_LEN),
        );
        let in_place = seal_in_place(&client, &server);
        println!(
            "| {suite:?} | seal 1 MiB, no copy | {in_place:.0} | {:.1} | | |",
            BODY_LEN as f64 / in_place
        );
        report(
            suite,
            "seal 1 KiB",
            1024,
            seal_small_ours(&client, &server),
            seal_rustls(&client, &server, 1024),
        );
        report(suite, "open 1 MiB", BODY_LEN, open_ours(&client, &server), open_rustls(&client, &server));
    }
    handshake(&server);
    idle_memory(&server);
    let _ = std::fs::remove_dir_all(dir);
}

fn report(suite: CipherSuite, operation: &str, len: usize, ours_ns: f64, rustls_ns: f64) {
    let rate = |ns: f64| len as f64 / ns;
    let name = format!("{suite:?}");
    println!(
        "| {name} | {operation} | {ours_ns:.0} | {:.1} | {rustls_ns:.0} | {:.1} |",
        rate(ours_ns),
        rate(rustls_ns)
    );
}

/// Returns the median time of single rounds, in nanoseconds.
fn median_ns(mut round: impl FnMut()) -> f64 {
    let mut times: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2] as f64
}

/// Measures our record layer: the body is read into the slots (one copy, as pread makes) and sealed there,
/// ready to be sent.
fn seal_ours(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> f64 {
    let mut session = established(client, server).1;
    let layout = session.layout().expect("established");
    let body = vec![7; BODY_LEN];
    let mut buf = vec![0; 256 << 10];
    median_ns(|| {
        let mut rest = body.as_slice();
        while !rest.is_empty() {
            let plain_len = layout.plain_capacity(buf.len()).min(rest.len());
            let (now, later) = rest.split_at(plain_len);
            layout.copy_in(&mut buf, 0, now);
            black_box(session.seal(&mut buf, plain_len).expect("open"));
            rest = later;
        }
    })
}

/// Measures sealing alone, without the copy.
fn seal_in_place(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> f64 {
    let mut session = established(client, server).1;
    let layout = session.layout().expect("established");
    let plain_len = BODY_LEN / 4;
    let mut buf = vec![0; layout.sealed_len(plain_len)];
    median_ns(|| {
        for _ in 0..4 {
            black_box(session.seal(&mut buf, plain_len).expect("open"));
        }
    })
}

fn copy_only() -> f64 {
    let body = vec![7_u8; BODY_LEN];
    let mut buf = vec![0; 256 << 10];
    median_ns(|| {
        for chunk in body.chunks(256 << 10) {
            buf.copy_from_slice(chunk);
            black_box(&buf);
        }
    })
}

fn seal_small_ours(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> f64 {
    let mut session = established(client, server).1;
    let layout = session.layout().expect("established");
    let body = [7; 1024];
    let mut buf = vec![0; layout.sealed_len(body.len())];
    median_ns(|| {
        layout.copy_in(&mut buf, 0, &body);
        black_box(session.seal(&mut buf, body.len()).expect("open"));
    })
}

/// Measures rustls: the body is read into a buffer (one copy), written, and taken out into the buffer that is
/// sent.
fn seal_rustls(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>, len: usize) -> f64 {
    let mut server = established_rustls(client, server).1;
    server.set_buffer_limit(None);
    let body = vec![7; len];
    let mut read = vec![0; len.min(240 << 10)];
    let mut out = Vec::with_capacity(512 << 10);
    median_ns(|| {
        for chunk in body.chunks(read.len()) {
            let read = &mut read[..chunk.len()];
            read.copy_from_slice(chunk);
            server.writer().write_all(read).expect("no limit");
            out.clear();
            while server.wants_write() {
                server.write_tls(&mut out).expect("a vector takes all");
            }
            black_box(&out);
        }
    })
}

fn open_ours(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> f64 {
    let (mut client, mut server) = established(client, server);
    let (body, mut sum) = (vec![7; BODY_LEN], 0);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        client.write(&body).expect("open");
        let mut bytes = client.take_output();
        let start = Instant::now();
        for input in bytes.chunks_mut(64 << 10) {
            let mut receive = server.receive(input);
            while let Some(event) = receive.next().expect("valid records") {
                if let TlsEvent::Data(plain) = event {
                    sum += plain.len();
                }
            }
        }
        times.push(start.elapsed().as_nanos());
    }
    assert_eq!(sum, ROUNDS * BODY_LEN);
    times.sort_unstable();
    times[ROUNDS / 2] as f64
}

fn open_rustls(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> f64 {
    let (mut client, mut server) = established_rustls(client, server);
    client.set_buffer_limit(None);
    let (body, mut plain, mut sum) = (vec![7; BODY_LEN], vec![0; 64 << 10], 0);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        client.writer().write_all(&body).expect("no limit");
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("a vector takes all");
        }
        let start = Instant::now();
        let mut input = bytes.as_slice();
        while !input.is_empty() {
            server.read_tls(&mut input).expect("a slice gives all");
            server.process_new_packets().expect("valid records");
            while let Ok(len @ 1..) = server.reader().read(&mut plain) {
                sum += len;
            }
        }
        times.push(start.elapsed().as_nanos());
    }
    assert_eq!(sum, ROUNDS * BODY_LEN);
    times.sort_unstable();
    times[ROUNDS / 2] as f64
}

fn handshake(server: &Arc<ServerConfig>) {
    let mut config =
        client_config(&ClientTrust::AnyCertificate, Versions::Tls12And13, &[]).expect("no files");
    let resuming = Arc::new(config.clone());
    config.resumption = rustls::client::Resumption::disabled();
    for (name, config) in [("full", Arc::new(config)), ("resumed", resuming)] {
        let ns = median_ns(|| {
            black_box(established(&config, server));
        });
        println!("\nhandshake, {name}, both sides: {:.0} us", ns / 1000.0);
    }
}

/// Prints the resident memory of established server sessions that wait for the next request.
fn idle_memory(server: &Arc<ServerConfig>) {
    // Kept until the end: freed memory would serve the next sessions and hide what they take.
    let mut kept = Vec::new();
    for versions in [Versions::Tls13Only, Versions::Tls12Only] {
        let config = Arc::new(client_config(&ClientTrust::AnyCertificate, versions, &[]).expect("no files"));
        for _ in 0..100 {
            black_box(established(&config, server));
        }
        let before = resident_bytes();
        let sessions: Vec<TlsSession> = (0..IDLE_SESSIONS)
            .map(|_| {
                let (mut client, mut session) = established(&config, server);
                // One request and one answer, so that both directions are in their final state.
                client.write(b"GET / HTTP/1.1\r\n\r\n").expect("open");
                deliver(&mut client, &mut session);
                session.write(&[0; 1000]).expect("open");
                drop(session.take_output());
                session
            })
            .collect();
        let each = (resident_bytes() - before) / sessions.len();
        println!("\nidle session, {versions:?}: {each} bytes resident, {IDLE_SESSIONS} sessions");
        kept.push(sessions);
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("proc is mounted");
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

fn established(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> (TlsSession, TlsSession) {
    let name = "localhost".try_into().expect("a name");
    let mut client = TlsSession::client(Arc::clone(client), name).expect("a valid configuration");
    let mut server = TlsSession::server(Arc::clone(server)).expect("a valid configuration");
    while client.has_output() || server.has_output() {
        deliver(&mut client, &mut server);
        deliver(&mut server, &mut client);
    }
    (client, server)
}

fn deliver(from: &mut TlsSession, to: &mut TlsSession) {
    let mut bytes = from.take_output();
    let mut receive = to.receive(&mut bytes);
    while let Some(event) = receive.next().expect("valid records") {
        black_box(event);
    }
}

fn established_rustls(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (ClientConnection, ServerConnection) {
    let name = "localhost".try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name).expect("a valid configuration");
    let mut server = ServerConnection::new(Arc::clone(server)).expect("a valid configuration");
    while client.wants_write() || server.wants_write() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).expect("a vector takes all");
        }
        let mut input = bytes.as_slice();
        while !input.is_empty() {
            server.read_tls(&mut input).expect("a slice gives all");
            server.process_new_packets().expect("valid records");
        }
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).expect("a vector takes all");
        }
        let mut input = bytes.as_slice();
        while !input.is_empty() {
            client.read_tls(&mut input).expect("a slice gives all");
            client.process_new_packets().expect("valid records");
        }
    }
    (client, server)
}

fn client_with_suite(suite: CipherSuite) -> ClientConfig {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|offered| offered.suite() == suite);
    let is_tls13 = provider.cipher_suites.iter().any(|offered| offered.tls13().is_some());
    let versions = if is_tls13 { Versions::Tls13Only } else { Versions::Tls12Only };
    client_config_with(provider, &ClientTrust::AnyCertificate, versions, &[]).expect("no files")
}
