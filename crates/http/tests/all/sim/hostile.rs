//! Clients that mean harm or do not care: each gets a clear answer or an end, and others are unharmed.

use std::time::Duration;

use http::limits::Limits;
use lane::backend::sim::{Config, seeds};
use lane::time::{now, sleep};

use crate::sim::SEEDS;
use crate::sim::client::{Client, request};
use crate::sim::server::{ADDRESS, Pair, noise};
use crate::sim::tls_client::{SUITES, TlsClient};

#[test]
fn smuggled_request_is_never_answered() {
    let shapes = [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    ];
    seeds(SEEDS, |seed| {
        let shape = shapes[seed as usize % shapes.len()];
        let pair = Pair::new(seed, Config::default(), Limits::default(), &[("secret", b"s")]);
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            client.send(format!("{shape}{}", request("GET", "/secret", ""))).await.unwrap();
            let response = client.response().await.unwrap();
            assert!(matches!(response.status, 400 | 501), "{shape:?}: {}", response.status);
            assert_eq!(response.field("Connection"), Some("close"));
            client.expect_end().await;
        });
        pair.end();
    });
}

#[test]
fn bodies_of_requests_are_skipped_and_the_connection_goes_on() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::rough(), Limits::default(), &[("f", b"file")]);
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            let chunked = "Transfer-Encoding: chunked\r\n";
            client.send(request("GET", "/f", chunked) + "5;x\r\nGET /\r\n0\r\nT: v\r\n\r\n").await.unwrap();
            client.send(request("POST", "/f", "Content-Length: 5\r\n") + "GET /").await.unwrap();
            client.send(request("GET", "/f", "")).await.unwrap();
            assert_eq!(client.response().await.unwrap().body, b"file");
            let refused = client.response().await.unwrap();
            assert_eq!((refused.status, refused.field("Allow")), (405, Some("GET, HEAD, OPTIONS")));
            assert_eq!(client.response().await.unwrap().body, b"file");
        });
        pair.end();
    });
}

#[test]
fn expectation_of_a_body_is_answered_at_once_and_closed() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &[("f", b"file")]);
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            let response = client.get("/f", "Expect: 100-continue\r\nContent-Length: 9\r\n").await.unwrap();
            assert_eq!(response.field("Connection"), Some("close"));
            client.expect_end().await;
        });
        pair.end();
    });
}

#[test]
fn slow_head_is_refused_when_its_time_is_over() {
    seeds(SEEDS, |seed| {
        let limits = Limits { header_timeout: Duration::from_secs(3), ..Limits::default() };
        let pair = Pair::new(seed, Config::default(), limits, &[]);
        pair.run(async {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            let begun = now();
            for byte in b"GET / HTTP/1.1\r\nHost: a\r\nA: b" {
                if client.send([*byte]).await.is_err() || now().duration_since(begun) > Duration::from_secs(4)
                {
                    break;
                }
                sleep(Duration::from_millis(250)).await;
            }
            assert_eq!(client.response().await.unwrap().status, 408);
            let took = now().duration_since(begun);
            assert!((Duration::from_secs(3)..Duration::from_secs(10)).contains(&took), "{took:?}");
            client.expect_end().await;
        });
        assert_eq!(pair.counters.refused_header_timeout.get(), 1);
        pair.end();
    });
}

#[test]
fn client_that_never_reads_is_let_go_and_others_are_served() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 600_000);
        let limits = Limits { write_stall_timeout: Duration::from_secs(5), ..Limits::default() };
        let mut config = Config::default();
        config.net.tcp.send_buffer = 64 << 10;
        config.net.tcp.recv_buffer = 64 << 10;
        let pair = Pair::new(seed, config, limits, &[("f", &content)]);
        pair.run(async move {
            let mute = Client::connect(ADDRESS).await.unwrap();
            mute.send(request("GET", "/f", "")).await.unwrap();
            let mut client = Client::connect(ADDRESS).await.unwrap();
            assert!(client.get("/f", "").await.unwrap().body == content);
            sleep(Duration::from_secs(11)).await;
        });
        assert_eq!(pair.counters.aborted_stalled.get(), 1);
        assert_eq!(pair.connections.connections.get(), 1, "the reader's connection is still open");
        pair.end();
    });
}

#[test]
fn hellos_that_never_end_are_on_the_books_and_their_address_leaves_some_to_others() {
    let pair = Pair::tls(1, Config::default(), Limits::default(), &[("f", b"content")]);
    let (counters, connections) = (pair.counters.clone(), pair.connections.clone());
    pair.run(async move {
        // A ClientHello that announces 16,000 bytes, of which 15,000 come.
        let hello = [&[22, 3, 1, 0x3e, 0x80, 1, 0, 0x3e, 0x7c, 3, 3][..], &[7; 15_000]].concat();
        let mut held = Vec::new();
        for _ in 0..400 {
            let client = Client::connect(ADDRESS).await.unwrap();
            client.send(&hello).await.unwrap();
            held.push(client);
        }
        sleep(Duration::from_secs(1)).await;
        let on_the_books = connections.reply_memory_bytes.get();
        // Three quarters of what a simulated lane has.
        assert!((1 << 20..3 << 19).contains(&on_the_books), "{on_the_books}");
        assert!(counters.aborted_evicted.get() > 200, "{}", counters.aborted_evicted.get());
        let mut client = Client::connect_tls(ADDRESS, TlsClient::new(SUITES[0])).await.unwrap();
        assert_eq!(client.get("/f", "").await.unwrap().body, b"content");
        sleep(Duration::from_secs(11)).await;
        assert_eq!(connections.reply_memory_bytes.get(), 0, "none had the time to finish");
    });
    pair.world.run_for(Duration::from_secs(70));
    pair.end();
}

#[test]
fn head_flood_is_cut_at_the_limit() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &[]);
        pair.run(async {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            client.send("GET / HTTP/1.1\r\nHost: a\r\n").await.unwrap();
            for _ in 0..100 {
                if client.send(format!("X: {}\r\n", "y".repeat(500))).await.is_err() {
                    break;
                }
            }
            assert_eq!(client.response().await.unwrap().status, 431);
        });
        assert_eq!(pair.counters.refused_head_too_large.get(), 1);
        pair.end();
    });
}
