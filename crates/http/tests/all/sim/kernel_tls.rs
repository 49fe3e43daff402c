//! HTTPS over simulated kernel TLS: whatever comes between, a body is right or the connection visibly cut.

use std::time::Duration;

use http::limits::Limits;
use lane::backend::sim::{Config, KernelTls, RecordLayer, seeds};
use lane::socket::ktls::KtlsRefusal;
use lane::time::{now, sleep};
use rustls::CipherSuite;

use crate::sim::client::{Client, Failure, request};
use crate::sim::fake_kernel::FakeKernel;
use crate::sim::server::{ADDRESS, Pair, noise};
use crate::sim::tls_client::{SUITES, TlsClient, is_tls13};

/// Fewer than elsewhere: handshakes cost more than the simulation.
const SEEDS: u64 = 60;

/// A kernel with this cipher suite set; nothing is sealed before the first key.
struct Records {
    kernel: Option<FakeKernel>,
    lacks: Option<u16>,
}

impl RecordLayer for Records {
    fn set_key(&mut self, crypto_info: &[u8]) -> Result<(), KtlsRefusal> {
        if self.lacks == Some(u16::from_ne_bytes([crypto_info[2], crypto_info[3]])) {
            return Err(KtlsRefusal::NoCipher);
        }
        self.kernel = Some(FakeKernel::set_tx(crypto_info));
        Ok(())
    }

    fn seal(&mut self, record_type: u8, plain: &[u8]) -> Vec<u8> {
        self.kernel.as_mut().expect("a key").send(record_type, plain)
    }
}

pub(crate) fn with_kernel(mut config: Config, can_change_key: bool, lacks: Option<u16>) -> Config {
    let make = move || Box::new(Records { kernel: None, lacks }) as Box<dyn RecordLayer>;
    config.net.tcp.kernel_tls = Some(KernelTls::new(can_change_key, make));
    config
}

/// 10 MB/s and small buffers: a transfer lasts long enough for something to happen to it.
fn slow_link() -> Config {
    let mut config = Config::default();
    config.net.link.bandwidth = Some(10_000_000);
    config.net.tcp.send_buffer = 32 << 10;
    config.net.tcp.recv_buffer = 32 << 10;
    config
}

fn suite(seed: u64) -> CipherSuite {
    SUITES[seed as usize % SUITES.len()]
}

fn tls13_suite(seed: u64) -> CipherSuite {
    SUITES[seed as usize % 3]
}

/// Some clients of one request send both at once: what came before close_notify is to be answered, even where
/// the same segment ends the handshake.
#[test]
fn requests_with_close_notify_in_one_segment_are_answered() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 150_000);
        let pair = Pair::tls(
            seed,
            with_kernel(Config::default(), true, None),
            Limits::default(),
            &[("f", &content)],
        );
        pair.run(async move {
            for asked_before in 0..2 {
                let mut client = Client::connect_tls(ADDRESS, TlsClient::new(suite(seed))).await.unwrap();
                for _ in 0..asked_before {
                    assert!(client.get("/f", "").await.unwrap().body == content);
                }
                let both = [request("GET", "/f", ""), request("GET", "/absent", "")].concat();
                client.tls().write(both.as_bytes());
                client.tls().close();
                client.send_sealed("").await.unwrap();
                assert!(client.response().await.unwrap().body == content);
                assert_eq!(client.response().await.unwrap().status, 404);
                let (end, more) = client.end().await;
                assert!(matches!(end, Failure::Closed(0)) && more.is_empty(), "{end:?}");
            }
        });
        pair.end();
    });
}

#[test]
fn every_body_is_right_in_every_suite_over_a_rough_link() {
    seeds(SEEDS, |seed| {
        let (long, short) = (noise(seed, 150_000), noise(seed + 1, 700));
        let config = with_kernel(Config::rough(), seed % 2 == 0, None);
        let pair = Pair::tls(seed, config, Limits::default(), &[("long", &long), ("short", &short)]);
        pair.run(async move {
            let mut client = Client::connect_tls(ADDRESS, TlsClient::new(suite(seed))).await.unwrap();
            for _ in 0..2 {
                assert!(client.get("/long", "").await.unwrap().body == long);
                assert!(client.get("/short", "").await.unwrap().body == short);
                let range = client.get("/long", "Range: bytes=16383-99999\r\n").await.unwrap();
                assert!(range.body == long[16_383..100_000]);
            }
            let requests = [request("GET", "/long", ""), request("GET", "/short", "Connection: close\r\n")];
            client.send_sealed(requests.concat()).await.unwrap();
            assert!(client.response().await.unwrap().body == long);
            assert!(client.response().await.unwrap().body == short);
            let (end, more) = client.end().await;
            assert!(matches!(end, Failure::Closed(_)) && more.is_empty(), "{end:?}");
        });
        pair.world.run_for(LINGER);
        assert_eq!((pair.counters.kernel_tls.get(), pair.counters.tls_kernel.get()), (1, 0));
        pair.end();
    });
}

#[test]
fn new_kernel_changes_its_key_as_often_as_the_client_asks() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 400_000);
        let pair =
            Pair::tls(seed, with_kernel(slow_link(), true, None), Limits::default(), &[("f", &content)]);
        pair.run(async move {
            let mut client = Client::connect_tls(ADDRESS, TlsClient::new(tls13_suite(seed))).await.unwrap();
            for round in 0..6 {
                client.send_sealed(request("GET", "/f", "")).await.unwrap();
                // Before the answer, in its middle, and behind it.
                sleep(Duration::from_millis((seed * 7 + round * 11) % 60)).await;
                client.tls().update_keys();
                client.send_sealed(b"").await.unwrap();
                assert!(client.response().await.unwrap().body == content);
            }
        });
        assert_eq!(pair.counters.closed_key_update.get(), 0);
        pair.end();
    });
}

#[test]
fn old_kernel_finishes_the_answer_and_ends_cleanly_when_the_client_asks_for_its_key() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 400_000);
        let pair =
            Pair::tls(seed, with_kernel(slow_link(), false, None), Limits::default(), &[("f", &content)]);
        pair.run(async move {
            let mut client = Client::connect_tls(ADDRESS, TlsClient::new(tls13_suite(seed))).await.unwrap();
            client.send_sealed(request("GET", "/f", "")).await.unwrap();
            sleep(Duration::from_millis(seed % 60)).await;
            client.tls().update_keys();
            client.send_sealed(b"").await.unwrap();
            assert!(client.response().await.unwrap().body == content);
            let (end, more) = client.end().await;
            assert!(matches!(end, Failure::Closed(_)) && more.is_empty(), "{end:?}");
        });
        pair.world.run_for(LINGER);
        assert_eq!((pair.counters.closed_key_update.get(), pair.counters.tls_kernel.get()), (1, 0));
        pair.end();
    });
}

#[test]
fn truncated_file_ends_without_close_notify() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 2_000_000);
        let pair = Pair::tls(
            seed,
            with_kernel(slow_link(), seed % 2 == 0, None),
            Limits::default(),
            &[("f", &content)],
        );
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect_tls(ADDRESS, TlsClient::new(suite(seed))).await.unwrap();
            client.send_sealed(request("GET", "/f", "")).await.unwrap();
            sleep(Duration::from_millis(20 + seed % 100)).await;
            fs.truncate("/srv/f", 1000).unwrap();
            let (end, bytes) = client.end().await;
            assert!(matches!(end, Failure::Cut | Failure::Reset(_)), "{end:?}");
            let body = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            assert!(content.starts_with(&bytes[body..]) && bytes.len() - body < content.len());
        });
        assert_eq!(pair.counters.aborted_changed.get(), 1);
        pair.end();
    });
}

#[test]
fn client_that_never_reads_is_cut_and_one_that_pauses_gets_all() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 400_000);
        let limits = Limits { write_stall_timeout: Duration::from_secs(5), ..Limits::default() };
        let pair = Pair::tls(seed, with_kernel(slow_link(), false, None), limits, &[("f", &content)]);
        pair.run(async move {
            let mut mute = Client::connect_tls(ADDRESS, TlsClient::new(suite(seed))).await.unwrap();
            mute.send_sealed(request("GET", "/f", "")).await.unwrap();
            let mut client = Client::connect_tls(ADDRESS, TlsClient::new(suite(seed + 1))).await.unwrap();
            client.send_sealed(request("GET", "/f", "Connection: close\r\n")).await.unwrap();
            sleep(Duration::from_secs(4)).await;
            assert!(client.response().await.unwrap().body == content);
            let (end, more) = client.end().await;
            assert!(matches!(end, Failure::Closed(_)) && more.is_empty(), "{end:?}");
            sleep(Duration::from_secs(8)).await;
            let (end, bytes) = mute.end().await;
            assert!(matches!(end, Failure::Cut | Failure::Reset(_)), "{end:?}");
            assert!(bytes.len() < content.len());
        });
        pair.world.run_for(LINGER);
        assert_eq!((pair.counters.aborted_stalled.get(), pair.counters.tls_kernel.get()), (1, 0));
        pair.end();
    });
}

#[test]
fn idle_connection_is_ended_by_close_notify() {
    seeds(SEEDS, |seed| {
        let limits = Limits { idle_timeout: Duration::from_secs(10), ..Limits::default() };
        let pair =
            Pair::tls(seed, with_kernel(Config::rough(), seed % 2 == 0, None), limits, &[("f", b"file")]);
        pair.run(async move {
            let mut client = Client::connect_tls(ADDRESS, TlsClient::new(suite(seed))).await.unwrap();
            assert_eq!(client.get("/f", "").await.unwrap().body, b"file");
            let idle_since = now();
            let (end, _) = client.end().await;
            assert!(matches!(end, Failure::Closed(0)), "{end:?}");
            assert!(now().duration_since(idle_since) >= Duration::from_secs(9));
        });
        pair.end();
    });
}

#[test]
fn kernel_that_refuses_leaves_the_connection_to_user_space_and_the_reason_is_counted() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 100_000);
        let suite = suite(seed);
        // Number 54 is ChaCha20-Poly1305.
        let without_chacha = with_kernel(Config::rough(), true, Some(54));
        for (config, is_kernel) in
            [(Config::rough(), false), (without_chacha, !format!("{suite:?}").contains("CHACHA"))]
        {
            let has_module = config.net.tcp.kernel_tls.is_some();
            let pair = Pair::tls(seed, config, Limits::default(), &[("f", &content)]);
            let expected = content.clone();
            pair.run(async move {
                for _ in 0..2 {
                    let mut client = Client::connect_tls(ADDRESS, TlsClient::new(suite)).await.unwrap();
                    assert!(client.get("/f", "").await.unwrap().body == expected);
                    if is_tls13(suite) && !is_kernel {
                        client.tls().update_keys();
                        assert!(client.get("/f", "").await.unwrap().body == expected);
                    }
                }
            });
            let counters = &pair.counters;
            let counted = (
                counters.kernel_tls.get(),
                counters.user_tls_no_module.get(),
                counters.user_tls_no_cipher.get(),
            );
            let expected = match (is_kernel, has_module) {
                (true, _) => (2, 0, 0),
                (false, true) => (0, 0, 2),
                (false, false) => (0, 2, 0),
            };
            assert_eq!(counted, expected, "{suite:?}");
            pair.end();
        }
    });
}

/// Longer than a server waits for the client's end.
const LINGER: Duration = Duration::from_secs(5);
