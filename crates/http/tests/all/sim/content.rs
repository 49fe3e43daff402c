//! Content that arrives is what was asked for, whatever the network and the disk do.

use std::time::Duration;

use http::limits::Limits;
use lane::backend::sim::{Config, seeds};
use lane::fs::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::sim::SEEDS;
use crate::sim::client::{Client, Failure, request};
use crate::sim::server::{ADDRESS, Pair, noise};
use crate::sim::tls_client::{SUITES, TlsClient};

/// Sizes around the places where the server changes its way of sending.
const SIZES: [usize; 8] = [0, 1, 1000, 16_383, 16_384, 16_385, 70_000, 300_000];

#[test]
fn pipelined_requests_are_answered_whole_and_in_order() {
    seeds(SEEDS, |seed| {
        let files: Vec<(String, Vec<u8>)> =
            SIZES.iter().map(|size| (format!("{size}.bin"), noise(seed, *size))).collect();
        let named: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&name[..], &bytes[..])).collect();
        let pair = Pair::new(seed, Config::rough(), Limits::default(), &named);
        pair.run(async move {
            let mut random = StdRng::seed_from_u64(seed);
            let mut client = Client::connect(ADDRESS).await.unwrap();
            for _ in 0..4 {
                let asked: Vec<_> =
                    (0..random.random_range(1..4)).map(|_| Ask::random(&mut random)).collect();
                let requests: String = asked.iter().map(Ask::request).collect();
                client.send(requests).await.unwrap();
                for ask in asked {
                    ask.check(&mut client, &files[ask.file].1).await;
                }
            }
        });
        pair.end();
    });
}

/// One request and what must come of it.
struct Ask {
    method: &'static str,
    file: usize,
    range: Option<(usize, usize)>,
}

impl Ask {
    fn random(random: &mut StdRng) -> Self {
        let file = random.random_range(0..SIZES.len());
        let method = if random.random_bool(0.2) { "HEAD" } else { "GET" };
        let size = SIZES[file];
        let range = (method == "GET" && size > 0 && random.random_bool(0.4)).then(|| {
            let start = random.random_range(0..size);
            (start, random.random_range(start..size))
        });
        Self { method, file, range }
    }

    fn request(&self) -> String {
        let line = self.range.map(|(first, last)| format!("Range: bytes={first}-{last}\r\n"));
        request(self.method, &format!("/{}.bin", SIZES[self.file]), &line.unwrap_or_default())
    }

    async fn check(&self, client: &mut Client, content: &[u8]) {
        let response = client.response_to(self.method).await.unwrap();
        assert_eq!(response.field("ETag").map(str::len), Some(18));
        match (self.method, self.range) {
            ("HEAD", _) => {
                assert_eq!(response.field("Content-Length"), Some(&content.len().to_string()[..]));
            }
            (_, None) => {
                assert_eq!(response.status, 200);
                assert!(response.body == content, "{} bytes differ", content.len());
            }
            (_, Some((first, last))) => {
                assert_eq!(response.status, 206);
                let range = format!("bytes {first}-{last}/{}", content.len());
                assert_eq!(response.field("Content-Range"), Some(&range[..]));
                assert!(response.body == content[first..=last], "{range} differs");
            }
        }
    }
}

#[test]
fn many_ranges_come_as_parts_of_the_announced_length() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 100_000);
        let pair = Pair::new(seed, Config::rough(), Limits::default(), &[("f", &content)]);
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            let response = client.get("/f", "Range: bytes=90000-,5-9,20000-60000\r\n").await.unwrap();
            assert_eq!(response.status, 206);
            let media_type = response.field("Content-Type").unwrap();
            let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
            let mut expected = Vec::new();
            for (first, last) in [(90_000, 99_999), (5, 9), (20_000, 60_000)] {
                let head = format!(
                    "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\
                     Content-Range: bytes {first}-{last}/100000\r\n\r\n"
                );
                expected.extend_from_slice(head.as_bytes());
                expected.extend_from_slice(&content[first..=last]);
            }
            expected.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
            assert!(response.body == expected);
        });
        pair.end();
    });
}

#[test]
fn validators_spare_the_body_until_the_file_changes() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &[("f", b"one")]);
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            let first = client.get("/f", "").await.unwrap();
            let tag = first.field("ETag").unwrap().to_owned();
            let date = first.field("Last-Modified").unwrap();
            let since = client.get("/f", &format!("If-Modified-Since: {date}\r\n")).await.unwrap();
            assert_eq!(since.status, 304);
            assert_eq!(client.get("/f", &format!("If-None-Match: {tag}\r\n")).await.unwrap().status, 304);
            assert_eq!(client.get("/f", "If-Match: \"other\"\r\n").await.unwrap().status, 412);
            let range = format!("Range: bytes=1-\r\nIf-Range: {tag}\r\n");
            assert_eq!(client.get("/f", &range).await.unwrap().body, b"ne");
            lane::time::sleep(Duration::from_secs(1)).await;
            fs.write("/srv/f", *b"two").unwrap();
            let changed = client.get("/f", &format!("If-None-Match: {tag}\r\n")).await.unwrap();
            assert_eq!((changed.status, &changed.body[..]), (200, &b"two"[..]));
            assert_ne!(changed.field("ETag"), Some(&tag[..]));
            let whole = client.get("/f", &range).await.unwrap();
            assert_eq!((whole.status, &whole.body[..]), (200, &b"two"[..]));
        });
        pair.end();
    });
}

#[test]
fn content_written_under_an_old_time_stamp_is_not_taken_for_the_one_before() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &[("f", b"one")]);
        let fs = pair.server.fs();
        // By a client whose clock is behind, or that keeps times.
        let stamp = Timestamp { secs: 1_000_000_000, nanos: (seed % 2) as u32 };
        let write = move |content: [u8; 3]| {
            fs.write("/srv/f", content).unwrap();
            fs.set_mtime("/srv/f", stamp).unwrap();
        };
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            // At the full second it would be told as by a clock that knows no parts.
            lane::time::sleep(Duration::from_millis(20)).await;
            write(*b"two");
            client.send(request("GET", "/f", "")).await.unwrap();
            // The answer waits until the clock has moved on, and the next is written before.
            lane::time::sleep(Duration::from_millis(2)).await;
            write(*b"six");
            let young = client.response().await.unwrap();
            let tag = young.field("ETag").unwrap().to_owned();
            let next = client.get("/f", &format!("If-None-Match: {tag}\r\n")).await.unwrap();
            match &young.body[..] {
                b"six" => assert_eq!(next.status, 304),
                _ => assert_eq!((next.status, &next.body[..]), (200, &b"six"[..])),
            }
            lane::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(client.get("/f", "").await.unwrap().body, b"six", "it is kept for a moment");
            write(*b"ten");
            assert_eq!(client.get("/f", "").await.unwrap().body, b"ten");
        });
        pair.end();
    });
}

#[test]
fn file_written_while_it_is_sent_is_never_passed_off_as_one_version() {
    seeds(SEEDS, |seed| {
        let (old, new) = (noise(seed, 400_000), noise(seed + 1, 400_000));
        let pair = Pair::new(seed, slow_link(), Limits::default(), &[("f", &old)]);
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            client.send(request("GET", "/f", "")).await.unwrap();
            lane::time::sleep(Duration::from_millis(seed % 50)).await;
            fs.write("/srv/f", new.clone()).unwrap();
            match client.response().await {
                Ok(response) => assert!(response.body == old || response.body == new, "versions are mixed"),
                Err(Failure::Closed(_) | Failure::Cut | Failure::Reset(_)) => {}
            }
        });
        pair.end();
    });
}

#[test]
fn file_that_is_appended_to_arrives_with_the_length_it_had() {
    seeds(SEEDS / 10, |seed| {
        let content = noise(seed, 1_000_000);
        let expected = content.clone();
        let pair = Pair::new(seed, slow_link(), Limits::default(), &[("log", &content)]);
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            client.send(request("GET", "/log", "Range: bytes=1000-\r\n")).await.unwrap();
            let writer = lane::spawn(async move {
                for line in 0..30 {
                    lane::time::sleep(Duration::from_millis(3 + seed % 10)).await;
                    fs.append("/srv/log", format!("line {line}\n").as_bytes()).unwrap();
                }
            });
            let part = client.response().await.unwrap();
            assert_eq!((part.status, part.field("Content-Range")), (206, Some("bytes 1000-999999/1000000")));
            assert!(part.body == expected[1000..]);
            writer.await;
            let whole = client.get("/log", "").await.unwrap();
            assert!(whole.body.starts_with(&expected) && whole.body.ends_with(b"line 29\n"));
        });
        assert_eq!(pair.counters.aborted_changed.get(), 0);
        pair.end();
    });
}

#[test]
fn file_written_anew_in_place_and_longer_is_cut_when_it_was_seen_shorter() {
    seeds(SEEDS / 10, |seed| {
        let (old, new) = (noise(seed, 4_000_000), noise(seed + 1, 6_000_000));
        let pair = Pair::new(seed, slow_link(), Limits::default(), &[("f", &old)]);
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            client.send(request("GET", "/f", "")).await.unwrap();
            lane::time::sleep(Duration::from_millis(100)).await;
            let writer = lane::spawn(async move {
                // Ahead of the reader all the time.
                for end in [3_000_000, 3_500_000, 3_900_000, 6_000_000] {
                    fs.write("/srv/f", &new[..end]).unwrap();
                    lane::time::sleep(Duration::from_millis(60)).await;
                }
            });
            let outcome = client.response().await;
            assert!(outcome.is_err(), "the beginning of one version and the end of another");
            writer.await;
        });
        assert_eq!(pair.counters.aborted_changed.get(), 1);
        pair.end();
    });
}

#[test]
fn truncated_file_ends_the_connection_and_is_not_padded() {
    seeds(SEEDS, |seed| {
        let content = noise(seed, 4_000_000);
        let pair = Pair::new(seed, slow_link(), Limits::default(), &[("f", &content)]);
        let fs = pair.server.fs();
        let outcome = pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            client.send(request("GET", "/f", "")).await.unwrap();
            lane::time::sleep(Duration::from_millis(100)).await;
            fs.truncate("/srv/f", 1000).unwrap();
            client.response().await
        });
        assert!(outcome.is_err(), "the transfer takes longer than the file lived");
        assert_eq!(pair.counters.aborted_changed.get(), 1);
        pair.end();
    });
}

#[test]
fn failing_disk_is_not_held_for_the_peers_fault() {
    seeds(SEEDS / 4, |seed| {
        let content = noise(seed, 1_500_000);
        let config = slow_link();
        let files = [("f", &content[..])];
        let pair = match seed % 2 {
            0 => Pair::new(seed, config, Limits::default(), &files),
            _ => Pair::tls(seed, config, Limits::default(), &files),
        };
        let fs = pair.server.fs();
        let is_tls = seed % 2 == 1;
        let outcome = pair.run(async move {
            let mut client = match is_tls {
                true => Client::connect_tls(ADDRESS, TlsClient::new(SUITES[0])).await.unwrap(),
                false => Client::connect(ADDRESS).await.unwrap(),
            };
            match is_tls {
                true => client.send_sealed(request("GET", "/f", "")).await.unwrap(),
                false => client.send(request("GET", "/f", "")).await.unwrap(),
            }
            lane::time::sleep(Duration::from_millis(50)).await;
            fs.configure(|fs| fs.read_error = 1.0);
            client.response().await
        });
        assert!(outcome.is_err(), "the transfer takes longer than the disk lasted");
        assert_eq!((pair.counters.aborted_disk.get(), pair.counters.aborted_peer.get()), (1, 0));
        pair.end();
    });
}

#[test]
fn file_replaced_by_rename_is_sent_to_its_end() {
    seeds(SEEDS, |seed| {
        let (old, new) = (noise(seed, 400_000), noise(seed + 1, 300_000));
        let pair = Pair::new(seed, slow_link(), Limits::default(), &[("f", &old)]);
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            client.send(request("GET", "/f", "")).await.unwrap();
            lane::time::sleep(Duration::from_millis(100)).await;
            fs.replace("/srv/f", new.clone()).unwrap();
            assert!(client.response().await.unwrap().body == old);
            lane::time::sleep(Duration::from_secs(1)).await;
            assert!(client.get("/f", "").await.unwrap().body == new);
        });
        pair.end();
    });
}

/// 10 MB/s and small socket buffers: a transfer lasts long enough for something to happen to it.
fn slow_link() -> Config {
    let mut config = Config::default();
    config.net.link.bandwidth = Some(10_000_000);
    config.net.tcp.send_buffer = 32 << 10;
    config.net.tcp.recv_buffer = 32 << 10;
    config
}
