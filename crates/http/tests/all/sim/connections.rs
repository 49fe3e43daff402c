//! Beginning, waiting and failure of connections.

use std::time::Duration;

use http::limits::Limits;
use lane::backend::sim::{Config, seeds};
use lane::time::{now, sleep};

use crate::sim::SEEDS;
use crate::sim::client::Client;
use crate::sim::server::{ADDRESS, Pair, noise};

#[test]
fn idle_connection_is_closed_after_its_time_and_not_before() {
    seeds(SEEDS, |seed| {
        let limits = Limits { idle_timeout: Duration::from_secs(10), ..Limits::default() };
        let pair = Pair::new(seed, Config::default(), limits, &[("f", b"file")]);
        pair.run(async {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            for _ in 0..3 {
                sleep(Duration::from_secs(8)).await;
                assert_eq!(client.get("/f", "").await.unwrap().body, b"file");
            }
            let idle_since = now();
            client.expect_end().await;
            let idle = now().duration_since(idle_since);
            assert!((9_990..10_100).contains(&idle.as_millis()), "{idle:?}");
        });
        assert_eq!(pair.counters.closed_idle.get(), 1);
        pair.end();
    });
}

#[test]
fn connections_over_the_limit_are_told_so() {
    seeds(SEEDS, |seed| {
        let limits = Limits { connections_max: 2, ..Limits::default() };
        let much = noise(seed, 1 << 20);
        let pair = Pair::new(seed, Config::default(), limits, &[("f", b"file"), ("much", &much)]);
        pair.run(async {
            // Two that are being answered, and take nothing: neither gives way to one of the same address.
            let (first, second) = (asking_for_much().await, asking_for_much().await);
            sleep(Duration::from_secs(1)).await;
            let mut third = Client::connect(ADDRESS).await.unwrap();
            let refused = third.response().await.unwrap();
            assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
            drop(second);
            sleep(Duration::from_secs(3)).await;
            let mut fourth = Client::connect(ADDRESS).await.unwrap();
            assert_eq!(fourth.get("/f", "").await.unwrap().status, 200);
            drop(first);
        });
        assert_eq!(pair.connections.connections_refused.get(), 1);
        pair.end();
    });
}

async fn asking_for_much() -> Client {
    let client = Client::connect(ADDRESS).await.unwrap();
    client.send("GET /much HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    client
}

#[test]
fn service_goes_on_after_it_ran_out_of_descriptors() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &[("f", b"file")]);
        let server = pair.world.host("10.0.0.1");
        server.set_descriptors_max(server.descriptors() + 4);
        pair.run(async {
            let mut crowd = Vec::new();
            for _ in 0..8 {
                crowd.push(Client::connect(ADDRESS).await.unwrap());
            }
            sleep(Duration::from_secs(1)).await;
            drop(crowd);
            sleep(Duration::from_secs(5)).await;
            let mut client = Client::connect(ADDRESS).await.unwrap();
            assert_eq!(client.get("/f", "").await.unwrap().body, b"file");
        });
        assert!(pair.connections.accept_pauses.get() > 0);
        drop(server);
        pair.end();
    });
}

#[test]
fn resets_and_read_errors_leak_nothing_and_never_give_wrong_bytes() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 200_000);
        let mut config = Config::rough();
        config.net.tcp.reset = 0.002;
        config.fs.read_error = 0.02;
        let pair = Pair::new(seed, config, Limits::default(), &[("f", &content)]);
        pair.run(async move {
            for _ in 0..10 {
                let Ok(mut client) = Client::connect(ADDRESS).await else { continue };
                for _ in 0..3 {
                    let Ok(response) = client.get("/f", "").await else { break };
                    match response.status {
                        200 => assert!(response.body == content),
                        status => assert_eq!(status, 500),
                    }
                }
            }
        });
        pair.world.run_for(Duration::from_secs(120));
        assert_eq!(pair.connections.connections.get(), 0, "{}", pair.world.report());
        pair.end();
    });
}
