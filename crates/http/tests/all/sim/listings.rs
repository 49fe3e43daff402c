//! Listings are made as the client takes them: whole and right over any network, at no cost while no client
//! takes them.

use std::time::Duration;

use http::limits::Limits;
use lane::backend::sim::{Config, seeds};
use lane::time::now;

use crate::sim::SEEDS;
use crate::sim::client::{Client, Failure, request};
use crate::sim::server::{ADDRESS, Pair};

/// Enough for several pieces of a page.
const FILES: usize = 300;

fn names() -> Vec<String> {
    (0..FILES).map(|i| format!("file-{}", (i * 7919) % FILES)).collect()
}

fn pair(seed: u64, config: Config) -> Pair {
    limited(seed, config, Limits::default())
}

fn limited(seed: u64, config: Config, limits: Limits) -> Pair {
    let names = names();
    let files: Vec<(&str, &[u8])> = names.iter().map(|name| (&name[..], &b"x"[..])).collect();
    Pair::new(seed, config, limits, &files)
}

/// Names in the order in which a JSON listing shows them.
fn shown(body: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(body).unwrap();
    assert!(text.ends_with("]}\n"), "cut: {}", &text[text.len() - 40..]);
    let names = text.split("{\"name\":\"").skip(1);
    names.map(|rest| rest[..rest.find('"').unwrap()].to_owned()).collect()
}

#[test]
fn listing_is_whole_in_its_order_and_the_connection_goes_on() {
    seeds(SEEDS, |seed| {
        let pair = pair(seed, Config::rough());
        pair.run(async {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            let accept = "Accept: application/json\r\n";
            let mut expected: Vec<_> = (0..FILES).map(|i| format!("file-{i}")).collect();
            let upwards = client.get("/", accept).await.unwrap();
            assert_eq!((upwards.status, upwards.field("Transfer-Encoding")), (200, Some("chunked")));
            assert_eq!(shown(&upwards.body), expected);
            client.send(request("HEAD", "/", accept)).await.unwrap();
            let head = client.response_to("HEAD").await.unwrap();
            assert_eq!(
                (head.field("Transfer-Encoding"), head.field("Content-Length")),
                (Some("chunked"), None)
            );
            expected.reverse();
            let downwards = client.get("/?sort=name&order=desc", accept).await.unwrap();
            assert_eq!(shown(&downwards.body), expected);
        });
        pair.end();
    });
}

#[test]
fn listing_for_http_1_0_ends_with_the_connection() {
    seeds(SEEDS, |seed| {
        let pair = pair(seed, Config::rough());
        pair.run(async {
            let client = Client::connect(ADDRESS).await.unwrap();
            let lines = "Connection: keep-alive\r\nAccept: application/json\r\n";
            client.send(request("GET", "/", lines).replace("HTTP/1.1", "HTTP/1.0")).await.unwrap();
            let (end, bytes) = client.end().await;
            assert!(matches!(end, Failure::Closed(_)), "{end:?}");
            let body = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            let head = String::from_utf8_lossy(&bytes[..body]);
            assert!(head.contains("\r\nConnection: close\r\n"), "{head}");
            assert!(!head.contains("Transfer-Encoding") && !head.contains("Content-Length"), "{head}");
            assert_eq!(shown(&bytes[body..]).len(), FILES);
        });
        pair.end();
    });
}

#[test]
fn crowd_that_asks_for_one_order_at_once_gets_it() {
    seeds(SEEDS / 10, |seed| {
        let pair = pair(seed, Config::default());
        pair.run(async {
            let begun = now();
            let crowd: Vec<_> = (0..20)
                .map(|number| {
                    lane::spawn(async move {
                        let mut client = Client::connect(ADDRESS).await.unwrap();
                        if number % 5 == 0 {
                            // It asks and leaves: a request that waited for its sorting goes on.
                            client.send(request("GET", "/?sort=size", "")).await.unwrap();
                            return;
                        }
                        let lines = "Accept: application/json\r\n";
                        let listing = client.get("/?sort=size", lines).await.unwrap();
                        assert_eq!(shown(&listing.body).len(), FILES);
                    })
                })
                .collect();
            for one in crowd {
                one.await;
            }
            assert!(now().duration_since(begun) < Duration::from_secs(20));
        });
        pair.end();
    });
}

#[test]
fn directory_that_is_too_large_to_be_sorted_is_listed_whole_as_it_is_read() {
    seeds(SEEDS / 2, |seed| {
        let pair =
            limited(seed, Config::rough(), Limits { listing_sorted_max: FILES - 1, ..Limits::default() });
        pair.run(async {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            let listing = client.get("/?sort=size", "Accept: application/json\r\n").await.unwrap();
            assert_eq!(listing.status, 200);
            assert!(listing.body.starts_with(b"{\"path\":\"/\",\"sorted\":false,\"entries\":["));
            let mut shown = shown(&listing.body);
            shown.sort();
            let mut expected = names();
            expected.sort();
            assert_eq!(shown, expected);
            let page = client.get("/", "Accept: text/html\r\n").await.unwrap();
            let page = String::from_utf8(page.body).unwrap();
            assert_eq!(page.matches("<tr class=\"entry\"").count(), FILES);
            assert!(
                page.contains("too large to be sorted")
                    && !page.contains("name=\"sort\"")
                    && !page.contains("?after=")
            );
            assert!(page.contains("300 files, 300 B."), "{page}");
        });
        assert_eq!(pair.counters.aborted_listing.get(), 0);
        pair.end();
    });
}

#[test]
fn listing_goes_on_at_any_position_that_the_file_system_knows() {
    seeds(SEEDS / 5, |seed| {
        let pair = pair(seed, Config::default());
        pair.run(async {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            let accept = "Accept: application/json\r\n";
            let whole = client.get("/?after=0", accept).await.unwrap();
            assert_eq!(shown(&whole.body).len(), FILES);
            let middle = client.get("/?after=2305843009213693952", accept).await.unwrap();
            let rest = shown(&middle.body);
            assert!(!rest.is_empty() && rest.len() < FILES, "{} names", rest.len());
            assert_eq!(client.get("/?after=9223372036854775808", accept).await.unwrap().status, 404);
        });
        pair.end();
    });
}

#[test]
fn directory_with_more_entries_than_may_be_listed_is_refused_or_cut_and_never_looks_whole() {
    seeds(SEEDS / 5, |seed| {
        let limits = Limits { listing_entries_max: 299, listing_sorted_max: 1000, ..Limits::default() };
        let refusing = limited(seed, Config::default(), limits.clone());
        refusing.run(async {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            assert_eq!(client.get("/", "").await.unwrap().status, 403);
        });
        refusing.end();
        let cutting = limited(seed, Config::default(), Limits { listing_sorted_max: 10, ..limits });
        cutting.run(async {
            let client = Client::connect(ADDRESS).await.unwrap();
            client.send(request("GET", "/", "Accept: application/json\r\n")).await.unwrap();
            let (_, bytes) = client.end().await;
            // The reset may overtake what was sent.
            let text = String::from_utf8(bytes).unwrap();
            assert!(!text.contains("]}\n"), "{text}");
        });
        assert_eq!(cutting.counters.aborted_listing.get(), 1);
        cutting.end();
    });
}
