//! Precompressed siblings and entity tags: which bytes stand for a name, and what tells their versions apart.

use std::time::{Duration, UNIX_EPOCH};

use http::limits::Limits;
use http::service::{Role, Site};
use lane::backend::sim::{Config, Fs, seeds};
use lane::fs::Timestamp;

use crate::sim::SEEDS;
use crate::sim::client::{Client, request};
use crate::sim::server::{ADDRESS, Pair, mount};

const GZIP: &str = "Accept-Encoding: gzip\r\n";
const FILES: [(&str, &[u8]); 2] = [("a.txt", b"plain"), ("a.txt.gz", b"zipped")];

#[test]
fn sibling_older_than_its_file_is_not_served() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &FILES);
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            stamp(&fs, "a.txt.gz", 1_000_000_000, 0);
            for (plain, is_older) in [((1_000_000_000, 0), false), ((999_999_999, 999_999_999), false)] {
                stamp(&fs, "a.txt", plain.0, plain.1);
                assert_eq!(coding(&mut client, GZIP).await.is_none(), is_older, "{plain:?}");
            }
            for plain in [(1_000_000_000, 1), (1_000_000_001, 0)] {
                stamp(&fs, "a.txt", plain.0, plain.1);
                let response = client.get("/a.txt", GZIP).await.unwrap();
                assert_eq!((response.field("Content-Encoding"), &response.body[..]), (None, &b"plain"[..]));
                assert_eq!(response.field("Vary"), None, "there is no other variant");
            }
        });
        pair.end();
    });
}

#[test]
fn stale_sibling_leaves_the_choice_to_the_next_coding() {
    let files = [("a.txt", &b"plain"[..]), ("a.txt.gz", b"zipped"), ("a.txt.br", b"brotli")];
    let pair = Pair::new(1, Config::default(), Limits::default(), &files);
    let fs = pair.server.fs();
    pair.run(async move {
        let mut client = Client::connect(ADDRESS).await.unwrap();
        let both = "Accept-Encoding: br, gzip\r\n";
        assert_eq!(coding(&mut client, both).await.as_deref(), Some("br"));
        stamp(&fs, "a.txt.br", 1_000_000_000, 0);
        assert_eq!(coding(&mut client, both).await.as_deref(), Some("gzip"));
    });
    pair.end();
}

#[test]
fn types_that_do_not_shrink_have_no_siblings() {
    let files = [("a.png", &b"image"[..]), ("a.png.gz", b"zipped"), ("a", b"any"), ("a.gz", b"zipped")];
    let pair = Pair::new(1, Config::default(), Limits::default(), &files);
    pair.run(async move {
        let mut client = Client::connect(ADDRESS).await.unwrap();
        for (path, body) in [("/a.png", &b"image"[..]), ("/a", b"any")] {
            let response = client.get(path, GZIP).await.unwrap();
            assert_eq!(&response.body[..], body);
            assert_eq!((response.field("Content-Encoding"), response.field("Vary")), (None, None), "{path}");
        }
    });
    pair.end();
}

#[test]
fn volume_without_precompressed_files_serves_what_the_name_says() {
    let site = || {
        let mut mount = mount("/", "/srv");
        mount.precompressed = false;
        Site::new(vec![mount])
    };
    let pair = Pair::serving(1, Config::default(), Limits::default(), &FILES, Role::Plain, site);
    pair.run(async move {
        let mut client = Client::connect(ADDRESS).await.unwrap();
        let response = client.get("/a.txt", GZIP).await.unwrap();
        assert_eq!((&response.body[..], response.field("Vary")), (&b"plain"[..], None));
    });
    pair.end();
}

#[test]
fn every_answer_of_a_negotiated_name_says_vary() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &FILES);
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            for accept in ["", GZIP, "Accept-Encoding: identity\r\n"] {
                let first = client.get("/a.txt", accept).await.unwrap();
                let tag = first.field("ETag").unwrap().to_owned();
                for (lines, status) in [
                    (String::new(), 200),
                    ("Range: bytes=1-2\r\n".into(), 206),
                    (format!("If-None-Match: {tag}\r\n"), 304),
                    ("If-Match: \"other\"\r\n".into(), 412),
                    ("Range: bytes=99-\r\n".into(), 416),
                ] {
                    let response = client.get("/a.txt", &format!("{accept}{lines}")).await.unwrap();
                    assert_eq!(response.status, status);
                    let vary = response.field("Vary").unwrap_or_default();
                    assert!(vary.contains("Accept-Encoding"), "{status} for {accept:?}: {vary:?}");
                }
            }
        });
        pair.end();
    });
}

#[test]
fn mirrors_that_keep_time_stamps_give_the_same_tags() {
    // The worlds differ in inode numbers (the first has other files before), the hosts in devices.
    let tags =
        [&[("x", &b"x"[..]), ("y", b"y"), ("a.txt", b"plain")][..], &[("a.txt", b"plain")]].map(|files| {
            let pair = Pair::new(1, Config::default(), Limits::default(), files);
            let fs = pair.server.fs();
            let tag = pair.run(async move {
                stamp(&fs, "a.txt", 1_000_000_000, 123_456_789);
                // Until the clock's next tick the stamp proves nothing.
                lane::time::sleep(Duration::from_secs(1)).await;
                let mut client = Client::connect(ADDRESS).await.unwrap();
                client.get("/a.txt", "").await.unwrap().field("ETag").unwrap().to_owned()
            });
            let ino = pair.server.fs().stat("/srv/a.txt").unwrap().ino;
            pair.end();
            (tag, ino)
        });
    assert_ne!(tags[0].1, tags[1].1, "else this proves nothing");
    assert_eq!(tags[0].0, tags[1].0);
    assert!(tags[0].0.starts_with('"'), "a strong one: {}", tags[0].0);
}

#[test]
fn variants_of_one_size_and_time_have_tags_of_their_own() {
    let files = [("a.txt", &b"plain"[..]), ("a.txt.gz", b"five!"), ("a.txt.br", b"FIVE!")];
    let pair = Pair::new(1, Config::default(), Limits::default(), &files);
    let fs = pair.server.fs();
    pair.run(async move {
        let mut client = Client::connect(ADDRESS).await.unwrap();
        let mut tags = std::collections::HashSet::new();
        for (name, _) in files {
            stamp(&fs, name, 1_000_000_000, 5);
        }
        for accept in ["identity", "gzip", "br"] {
            let response = client.get("/a.txt", &format!("Accept-Encoding: {accept}\r\n")).await.unwrap();
            tags.insert(response.field("ETag").unwrap().to_owned());
        }
        assert_eq!(tags.len(), 3);
    });
    pair.end();
}

/// Two contents of one size within one tick of the clock, which leaves no trace in the attributes: a client
/// with the first must get the second.
#[test]
fn file_written_twice_within_a_tick_is_never_held_for_unchanged() {
    seeds(SEEDS, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &[("a.bin", b"zero")]);
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            for is_coarse in [true, false] {
                // The name is in the cache from here on, so the next answer comes at once.
                assert_eq!(client.get("/a.bin", "").await.unwrap().status, 200);
                let now = lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap();
                let nanos = if is_coarse { 0 } else { now.subsec_nanos() };
                let write = |content: &[u8]| {
                    fs.write("/srv/a.bin", content).unwrap();
                    stamp(&fs, "a.bin", now.as_secs() as i64, nanos);
                };
                write(b"one!");
                client.send(request("GET", "/a.bin", "")).await.unwrap();
                if !is_coarse {
                    // Within a fine clock's tick the answer waits for the next.
                    lane::time::sleep(Duration::from_millis(2)).await;
                    write(b"two!");
                }
                let first = client.response().await.unwrap();
                let tag = first.field("ETag").unwrap().to_owned();
                if is_coarse {
                    assert_eq!(first.body, b"one!");
                    write(b"two!");
                } else if first.body == b"two!" {
                    assert!(tag.starts_with('"'), "{tag}");
                    continue;
                }
                for pause in [Duration::ZERO, Duration::from_secs(5)] {
                    lane::time::sleep(pause).await;
                    let again = client.get("/a.bin", &format!("If-None-Match: {tag}\r\n")).await.unwrap();
                    assert_eq!((again.status, &again.body[..]), (200, &b"two!"[..]), "{tag} after {pause:?}");
                    let range = format!("Range: bytes=1-\r\nIf-Range: {tag}\r\n");
                    assert_eq!(client.get("/a.bin", &range).await.unwrap().status, 200);
                    let matched = client.get("/a.bin", &format!("If-Match: {tag}\r\n")).await.unwrap();
                    assert_eq!(matched.status, 412);
                }
                let settled = client.get("/a.bin", "").await.unwrap();
                assert!(settled.field("ETag").unwrap().starts_with('"'), "strong once it has settled");
            }
        });
        pair.end();
    });
}

async fn coding(client: &mut Client, lines: &str) -> Option<String> {
    client.get("/a.txt", lines).await.unwrap().field("Content-Encoding").map(str::to_owned)
}

fn stamp(fs: &Fs, name: &str, secs: i64, nanos: u32) {
    fs.set_mtime(&format!("/srv/{name}"), Timestamp { secs, nanos }).unwrap();
}
