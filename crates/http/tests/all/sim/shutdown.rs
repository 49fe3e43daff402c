//! Shutdown and reload drop no transfer.

use std::time::Duration;

use http::limits::Limits;
use lane::backend::sim::{Config, seeds};
use lane::time::{now, sleep};

use crate::sim::SEEDS;
use crate::sim::client::{Client, request};
use crate::sim::server::{ADDRESS, Pair, noise};

#[test]
fn shutdown_finishes_transfers_closes_idle_connections_and_takes_no_new_ones() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 500_000);
        let mut config = Config::default();
        config.net.link.bandwidth = Some(2_000_000);
        config.net.tcp.send_buffer = 32 << 10;
        config.net.tcp.recv_buffer = 32 << 10;
        let pair = Pair::new(seed, config, Limits::default(), &[("f", &content)]);
        let service = pair.service();
        let drained = pair.server.start_on(0, async move {
            sleep(Duration::from_millis(100)).await;
            service.drain(now() + Duration::from_secs(60)).await
        });
        pair.run(async move {
            let idle = Client::connect(ADDRESS).await.unwrap();
            let mut busy = Client::connect(ADDRESS).await.unwrap();
            busy.send(request("GET", "/f", "")).await.unwrap();
            idle.expect_end().await;
            assert!(busy.response().await.unwrap().body == content);
            busy.expect_end().await;
            assert!(Client::connect(ADDRESS).await.is_err(), "the listener is gone");
            assert_eq!(drained.await, 0);
        });
        pair.end();
    });
}

#[test]
fn dismissed_connections_leave_when_they_are_idle_and_later_ones_stay() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 500_000);
        let mut config = Config::default();
        config.net.link.bandwidth = Some(2_000_000);
        config.net.tcp.send_buffer = 32 << 10;
        config.net.tcp.recv_buffer = 32 << 10;
        let pair = Pair::new(seed, config, Limits::default(), &[("f", &content), ("small", b"small")]);
        let service = pair.service();
        let dismissed = pair.server.start_on(0, async move {
            sleep(Duration::from_millis(100)).await;
            service.dismiss();
        });
        pair.run(async move {
            let fresh = Client::connect(ADDRESS).await.unwrap();
            let mut idle = Client::connect(ADDRESS).await.unwrap();
            assert_eq!(idle.get("/small", "").await.unwrap().body, b"small");
            let mut busy = Client::connect(ADDRESS).await.unwrap();
            busy.send(request("GET", "/f", "")).await.unwrap();
            dismissed.await;
            fresh.expect_end().await;
            idle.expect_end().await;
            assert!(busy.response().await.unwrap().body == content);
            busy.expect_end().await;
            let mut later = Client::connect(ADDRESS).await.unwrap();
            for _ in 0..2 {
                assert_eq!(later.get("/small", "").await.unwrap().body, b"small");
                sleep(Duration::from_secs(5)).await;
            }
        });
        pair.world.run_for(Duration::from_secs(10));
        assert_eq!(pair.counters.closed_drain.get(), 3);
        pair.end();
    });
}

#[test]
fn drain_gives_up_at_its_deadline() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 500_000);
        let mut config = Config::default();
        config.net.tcp.send_buffer = 32 << 10;
        config.net.tcp.recv_buffer = 32 << 10;
        let pair = Pair::new(seed, config, Limits::default(), &[("f", &content)]);
        let service = pair.service();
        let drained = pair.server.start_on(0, async move {
            sleep(Duration::from_millis(100)).await;
            service.drain(now() + Duration::from_secs(2)).await
        });
        pair.run(async move {
            let mute = Client::connect(ADDRESS).await.unwrap();
            mute.send(request("GET", "/f", "")).await.unwrap();
            assert_eq!(drained.await, 1);
        });
        pair.end();
    });
}
