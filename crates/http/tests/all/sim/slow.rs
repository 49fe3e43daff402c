//! Clients on slow lines: one that takes bytes is served to the end, one that takes none is let go, and a
//! floor counts what was taken, not what lies in a socket's buffer.

use std::time::Duration;

use http::limits::Limits;
use lane::backend::sim::{Config, seeds};
use lane::time::now;

use crate::sim::client::{Client, Failure, request};
use crate::sim::kernel_tls::with_kernel;
use crate::sim::server::{ADDRESS, Pair, noise};
use crate::sim::tls_client::{SUITES, TlsClient};

/// Fewer than elsewhere: each takes minutes of its world and megabytes.
const SEEDS: u64 = 6;

/// Send buffer of Linux after a while: a third of it is free again after 40 s at 30 kB/s, or 120 s at 10
/// kB/s.
const SEND_BUFFER: usize = 3_600_000;

fn config() -> Config {
    let mut config = Config::default();
    config.net.tcp.send_buffer = SEND_BUFFER;
    config.net.tcp.recv_buffer = 128 << 10;
    config
}

/// The side that seals the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    UserTls,
    KernelTls,
}

impl Way {
    fn pair(self, seed: u64, limits: Limits, content: &[u8]) -> Pair {
        match self {
            Self::Plain => Pair::new(seed, config(), limits, &[("f", content)]),
            Self::UserTls => Pair::tls(seed, config(), limits, &[("f", content)]),
            Self::KernelTls => Pair::tls(seed, with_kernel(config(), true, None), limits, &[("f", content)]),
        }
    }

    async fn connect(self) -> Client {
        match self {
            Self::Plain => Client::connect(ADDRESS).await.unwrap(),
            _ => Client::connect_tls(ADDRESS, TlsClient::new(SUITES[0])).await.unwrap(),
        }
    }

    async fn ask(self, client: &mut Client) {
        let request = request("GET", "/f", "");
        match self {
            Self::Plain => client.send(request).await.unwrap(),
            _ => client.send_sealed(request).await.unwrap(),
        }
    }
}

#[test]
fn client_that_takes_little_but_takes_it_is_served_to_the_end() {
    for (way, rate) in [(Way::Plain, 10_000), (Way::UserTls, 30_000), (Way::KernelTls, 30_000)] {
        seeds(SEEDS, |seed| {
            let content = noise(seed, SEND_BUFFER + 1_500_000);
            let pair = way.pair(seed, Limits::default(), &content);
            pair.run(async move {
                let mut client = way.connect().await;
                client.slow_down(rate);
                way.ask(&mut client).await;
                let begun = now();
                assert!(client.response().await.unwrap().body == content, "{way:?}");
                let took = now().duration_since(begun);
                assert!(took > Duration::from_secs(150), "{way:?}: {took:?}");
            });
            assert_eq!(pair.counters.aborted_stalled.get(), 0);
            pair.world.run_for(Duration::from_secs(70));
            pair.end();
        });
    }
}

#[test]
fn client_that_takes_nothing_is_let_go_in_time() {
    for way in [Way::Plain, Way::UserTls, Way::KernelTls] {
        seeds(SEEDS, |seed| {
            let content = noise(seed, SEND_BUFFER + 1_500_000);
            let pair = way.pair(seed, Limits::default(), &content);
            let counters = pair.counters.clone();
            pair.run(async move {
                let mut client = way.connect().await;
                way.ask(&mut client).await;
                let begun = now();
                while counters.aborted_stalled.get() == 0 {
                    lane::time::sleep(Duration::from_millis(100)).await;
                }
                let patience = now().duration_since(begun);
                let expected = Duration::from_secs(30)..Duration::from_secs(33);
                assert!(expected.contains(&patience), "{way:?}: {patience:?}");
            });
            pair.world.run_for(Duration::from_secs(70));
            pair.end();
        });
    }
}

#[test]
fn floor_counts_what_the_client_has_and_not_what_waits_for_it() {
    for way in [Way::Plain, Way::UserTls, Way::KernelTls] {
        seeds(SEEDS, |seed| {
            for (rate, is_served) in [(10_000, false), (40_000, true)] {
                let limits = Limits { send_rate_min: 20_000, ..Limits::default() };
                let content = noise(seed, SEND_BUFFER + 500_000);
                let pair = way.pair(seed, limits, &content);
                pair.run(async move {
                    let mut client = way.connect().await;
                    client.slow_down(rate);
                    way.ask(&mut client).await;
                    let begun = now();
                    match client.response().await {
                        Ok(response) => assert!(is_served && response.body == content, "{way:?} at {rate}"),
                        Err(Failure::Closed(_) | Failure::Cut | Failure::Reset(_)) => {
                            let took = now().duration_since(begun);
                            assert!(
                                !is_served && took < Duration::from_secs(60),
                                "{way:?} at {rate}: {took:?}"
                            );
                        }
                    }
                });
                assert_eq!(pair.counters.aborted_slow.get(), u64::from(!is_served), "{way:?} at {rate}");
                pair.world.run_for(Duration::from_secs(70));
                pair.end();
            }
        });
    }
}

#[test]
fn client_that_takes_next_to_nothing_is_let_go_without_a_setting() {
    let way = Way::Plain;
    for (rate, is_served) in [(700, false), (3_000, true)] {
        // So that it takes a little every few seconds.
        let mut config = config();
        config.net.tcp.recv_buffer = 4 << 10;
        let content = noise(1, SEND_BUFFER);
        let pair = Pair::new(1, config, Limits::default(), &[("f", &content)]);
        let counters = pair.counters.clone();
        pair.run(async move {
            let mut client = way.connect().await;
            client.slow_down(rate);
            way.ask(&mut client).await;
            let begun = now();
            let ends = lane::spawn(async move { client.response().await.is_ok() });
            while counters.aborted_slow.get() == 0 && now() < begun + Duration::from_secs(120) {
                lane::time::sleep(Duration::from_secs(1)).await;
            }
            let took = now().duration_since(begun);
            assert_eq!(took > Duration::from_secs(100), is_served, "{way:?} at {rate}: {took:?}");
            drop(ends);
        });
        assert_eq!(pair.counters.aborted_slow.get(), u64::from(!is_served), "{way:?} at {rate}");
        pair.world.run_for(Duration::from_secs(70));
        pair.end();
    }
}
