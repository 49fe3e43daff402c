//! Connections that give way when a lane's places or the process's descriptors are short: the address that
//! holds most.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use http::limits::Limits;
use lane::backend::sim::{Config, Host, seeds};
use lane::time::{now, sleep};
use service::counters::ConnectionCounters;

use crate::sim::SEEDS;
use crate::sim::client::Client;
use crate::sim::server::{ADDRESS, Pair, noise};

/// Limits of which no time is over within a test.
fn places(max: usize) -> Limits {
    let long = Duration::from_secs(3600);
    Limits { connections_max: max, idle_timeout: long, header_timeout: long, ..Limits::default() }
}

/// `count` connections from `host`, one every 10 ms, that send `bytes` and then only hold their places. The second
/// half of the answer: how many it has opened.
fn crowd(host: &Host, count: usize, bytes: &'static str, hold: Duration) -> Rc<Cell<usize>> {
    let opened = Rc::new(Cell::new(0));
    let count_opened = Rc::clone(&opened);
    host.spawn(async move {
        let mut held = Vec::new();
        for _ in 0..count {
            if let Ok(client) = Client::connect(ADDRESS).await {
                // The server may have closed it already.
                let _ = client.send(bytes).await;
                held.push(client);
            }
            count_opened.set(count_opened.get() + 1);
            sleep(Duration::from_millis(10)).await;
        }
        sleep(hold).await;
    });
    opened
}

fn gave_way(counters: &ConnectionCounters) -> [u64; 3] {
    [counters.evicted_idle.get(), counters.evicted_opening.get(), counters.evicted_busy.get()]
}

#[test]
fn half_heads_from_one_address_cost_no_other_its_place_or_its_time() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), places(20), &[("f", b"file")]);
        let attacker = pair.world.host("10.0.0.3");
        let opened = crowd(&attacker, 120, "GET /f HTTP/1.1\r\nHost: a\r\nX:", Duration::from_secs(30));
        pair.run(async move {
            let mut kept = Client::connect(ADDRESS).await.unwrap();
            assert_eq!(kept.get("/f", "").await.unwrap().body, b"file");
            while opened.get() < 120 {
                let begun = now();
                let mut newcomer = Client::connect(ADDRESS).await.unwrap();
                assert_eq!(newcomer.get("/f", "").await.unwrap().body, b"file");
                assert!(now().duration_since(begun) < Duration::from_secs(1));
                drop(newcomer);
                sleep(Duration::from_millis(100)).await;
            }
            assert_eq!(
                kept.get("/f", "").await.unwrap().body,
                b"file",
                "an idle connection keeps its place too"
            );
        });
        let [idle, opening, busy] = gave_way(&pair.connections);
        assert!(opening > 70 && idle + busy == 0, "{idle} {opening} {busy}");
        assert_eq!(pair.connections.connections_refused.get(), 0);
        assert!(pair.connections.connections.get() <= 20);
        drop(attacker);
        pair.world.run_for(Duration::from_secs(60));
        pair.end();
    });
}

#[test]
fn thousands_who_never_ask_for_anything_cost_nobody_a_connection_that_he_uses() {
    seeds(SEEDS.div_ceil(10), |seed| {
        let pair = Pair::new(seed, Config::default(), places(100), &[("f", b"file")]);
        let hosts: Vec<_> = (0..60).map(|n| pair.world.host(&format!("10.0.1.{n}"))).collect();
        let opened: Vec<_> = hosts.iter().map(|host| crowd(host, 10, "", Duration::from_secs(10))).collect();
        pair.run(async move {
            // Two of an address, as no other has.
            let mut kept = Client::connect(ADDRESS).await.unwrap();
            assert_eq!(kept.get("/f", "").await.unwrap().body, b"file");
            while opened.iter().map(|opened| opened.get()).sum::<usize>() < 600 {
                let mut newcomer = Client::connect(ADDRESS).await.unwrap();
                assert_eq!(newcomer.get("/f", "").await.unwrap().body, b"file");
                drop(newcomer);
                assert_eq!(kept.get("/f", "").await.unwrap().body, b"file");
                sleep(Duration::from_millis(3)).await;
            }
        });
        let [idle, opening, busy] = gave_way(&pair.connections);
        assert!(opening > 400 && idle + busy == 0, "{idle} {opening} {busy}");
        drop(hosts);
        pair.world.run_for(Duration::from_secs(60));
        pair.end();
    });
}

#[test]
fn of_equals_the_one_that_is_idle_longest_gives_way() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), places(3), &[("f", b"file")]);
        pair.run(async {
            let mut clients = Vec::new();
            for _ in 0..3 {
                let mut client = Client::connect(ADDRESS).await.unwrap();
                assert_eq!(client.get("/f", "").await.unwrap().status, 200);
                clients.push(client);
                sleep(Duration::from_secs(1)).await;
            }
            // The first has just spoken: the second has been idle longest.
            assert_eq!(clients[0].get("/f", "").await.unwrap().status, 200);
            let mut newcomer = Client::connect(ADDRESS).await.unwrap();
            assert_eq!(newcomer.get("/f", "").await.unwrap().status, 200);
            clients.remove(1).expect_end().await;
            for client in &mut clients {
                assert_eq!(client.get("/f", "").await.unwrap().status, 200);
            }
        });
        assert_eq!(gave_way(&pair.connections), [1, 0, 0]);
        pair.end();
    });
}

#[test]
fn who_has_all_places_with_answers_he_does_not_take_leaves_room_for_another_but_not_for_himself() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 1 << 20);
        let pair = Pair::new(seed, Config::default(), places(6), &[("big", &content), ("f", b"file")]);
        let greedy = pair.world.host("10.0.0.3");
        let opened = crowd(&greedy, 6, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", Duration::from_secs(20));
        pair.run(async move {
            while opened.get() < 6 {
                sleep(Duration::from_millis(10)).await;
            }
            sleep(Duration::from_secs(1)).await;
            let mut newcomer = Client::connect(ADDRESS).await.unwrap();
            assert_eq!(newcomer.get("/f", "").await.unwrap().body, b"file");
            sleep(Duration::from_secs(2)).await;
            assert_eq!(newcomer.get("/f", "").await.unwrap().body, b"file");
        });
        assert_eq!(gave_way(&pair.connections), [0, 0, 1]);
        let more = crowd(&greedy, 2, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", Duration::from_secs(1));
        pair.world.run_for(Duration::from_secs(3));
        assert_eq!(more.get(), 2);
        assert!(pair.connections.connections_refused.get() >= 1, "nobody gives way to who holds most");
        drop(greedy);
        pair.world.run_for(Duration::from_secs(120));
        pair.end();
    });
}

#[test]
fn where_descriptors_run_out_a_newcomer_is_served_at_once() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), places(1000), &[("f", b"file")]);
        let server = pair.world.host("10.0.0.1");
        server.set_descriptors_max(server.descriptors() + 20);
        let hog = pair.world.host("10.0.0.3");
        let opened = crowd(&hog, 60, "", Duration::from_secs(30));
        pair.run(async move {
            while opened.get() < 60 {
                sleep(Duration::from_millis(10)).await;
            }
            sleep(Duration::from_secs(1)).await;
            for _ in 0..5 {
                let begun = now();
                let mut newcomer = Client::connect(ADDRESS).await.unwrap();
                // A file may be refused for want of a descriptor; it is asked for again.
                while newcomer.get("/f", "").await.unwrap().status != 200 {
                    sleep(Duration::from_millis(100)).await;
                }
                assert!(now().duration_since(begun) < Duration::from_secs(3));
            }
        });
        assert!(pair.connections.accept_pauses.get() > 0 && gave_way(&pair.connections)[1] > 0);
        drop((server, hog));
        pair.world.run_for(Duration::from_secs(60));
        pair.end();
    });
}
