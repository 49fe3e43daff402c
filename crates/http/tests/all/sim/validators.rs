//! Validators (docs/design/http.md, "Versions"): what names a version, and that no client joins or keeps what
//! they do not name.

use std::time::{Duration, UNIX_EPOCH};

use http::limits::Limits;
use lane::backend::sim::{Config, seeds};
use lane::fs::Timestamp;
use lane::time::sleep;

use crate::sim::SEEDS;
use crate::sim::client::Client;
use crate::sim::server::{ADDRESS, Pair};

/// 1 January 2100: a time in the future.
const FUTURE_S: i64 = 4_102_444_800;
const DATES: [&str; 4] = [
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Thu, 01 Jan 1970 00:00:01 GMT",
    "Fri, 01 Jan 2100 00:00:00 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
];

#[test]
fn stamps_that_say_nothing_give_no_date_and_tags_that_follow_the_content() {
    for secs in [-5_000_000_000, -1, 0, 1, FUTURE_S] {
        for nanos in [0, 5] {
            seeds(SEEDS / 20, |seed| {
                let pair = Pair::new(seed, Config::default(), Limits::default(), &[]);
                let fs = pair.server.fs();
                let write = move |content: &[u8]| {
                    fs.write("/srv/f", content).unwrap();
                    fs.set_mtime("/srv/f", Timestamp { secs, nanos }).unwrap();
                };
                pair.run(async move {
                    write(b"one");
                    sleep(Duration::from_secs(3)).await;
                    let mut client = Client::connect(ADDRESS).await.unwrap();
                    let first = client.get("/f", "").await.unwrap();
                    assert_eq!(first.field("Last-Modified"), None, "{secs}");
                    let tag = first.field("ETag").unwrap().to_owned();
                    assert!(tag.starts_with('"'), "{secs}: {tag}");
                    let kept = client.get("/f", &format!("If-None-Match: {tag}\r\n")).await.unwrap();
                    assert_eq!(kept.status, 304, "{secs}");
                    let part = format!("Range: bytes=1-\r\nIf-Range: {tag}\r\n");
                    assert_eq!(client.get("/f", &part).await.unwrap().body, b"ne");
                    write(b"two");
                    sleep(Duration::from_secs(3)).await;
                    let mut lines = vec![
                        format!("If-None-Match: {tag}\r\n"),
                        format!("If-None-Match: W/{tag}\r\n"),
                        part,
                    ];
                    for date in DATES {
                        lines.push(format!("If-Modified-Since: {date}\r\n"));
                        lines.push(format!("If-Unmodified-Since: {date}\r\n"));
                        lines.push(format!("Range: bytes=1-\r\nIf-Range: {date}\r\n"));
                    }
                    for line in lines {
                        let whole = client.get("/f", &line).await.unwrap();
                        assert_eq!((whole.status, &whole.body[..]), (200, &b"two"[..]), "{secs} {line}");
                    }
                });
                pair.end();
            });
        }
    }
}

/// Way in which a file comes to its time stamp.
#[derive(Clone, Copy, Debug)]
enum Stamped {
    ByTheFileSystem,
    To(i64, u32),
    /// To the second in which it is made.
    ToThisSecond,
}

/// A cache in front that joins parts (nginx's slice module) compares tags byte by byte and keeps each part for long.
#[test]
fn whoever_was_given_a_part_finds_its_tag_on_every_later_part_of_the_version() {
    use Stamped::*;
    let kinds = [
        ByTheFileSystem,
        ToThisSecond,
        To(1_000_000_000, 0),
        To(1_000_000_000, 5),
        To(0, 0),
        To(FUTURE_S, 0),
    ];
    for step in [Duration::from_millis(4), Duration::from_secs(2)] {
        for kind in kinds {
            seeds(SEEDS / 20, |seed| {
                let mut config = Config::default();
                config.fs.timestamp_step = step;
                let pair = Pair::new(seed, config, Limits::default(), &[]);
                let fs = pair.server.fs();
                pair.run(async move {
                    let mut client = Client::connect(ADDRESS).await.unwrap();
                    sleep(Duration::from_millis(seed * 37 % 1000)).await;
                    for content in [b"one of these", b"another file"] {
                        fs.write("/srv/f", *content).unwrap();
                        let now = lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap();
                        match kind {
                            ByTheFileSystem => {}
                            To(secs, nanos) => fs.set_mtime("/srv/f", Timestamp { secs, nanos }).unwrap(),
                            ToThisSecond => {
                                let secs = now.as_secs() as i64;
                                fs.set_mtime("/srv/f", Timestamp { secs, nanos: 0 }).unwrap();
                            }
                        }
                        let mut tag = None;
                        for _ in 0..20 {
                            let part = client.get("/f", "Range: bytes=4-\r\n").await.unwrap();
                            if part.status == 206 {
                                assert_eq!(part.body, content[4..]);
                                let found = part.field("ETag").unwrap().to_owned();
                                assert_eq!(*tag.get_or_insert_with(|| found.clone()), found, "{kind:?}");
                            } else {
                                assert_eq!((part.status, &part.body[..]), (200, &content[..]), "{kind:?}");
                                assert_eq!(
                                    part.field("Last-Modified"),
                                    None,
                                    "{kind:?}: nothing is sure yet"
                                );
                            }
                            sleep(Duration::from_millis(150)).await;
                        }
                        assert!(tag.expect("parts in the end").starts_with('"'), "{kind:?}");
                    }
                });
                pair.end();
            });
        }
    }
}

/// A program that sets the time back (`cp -p`, `rsync -t`, `touch -r`), a link that is switched, a file that is moved into the place.
#[test]
fn as_many_other_bytes_under_the_same_time_have_another_tag() {
    for stamp in [(1_000_000_000, 0), (1_000_000_000, 5), (0, 0), (FUTURE_S, 0)] {
        let mtime = Timestamp { secs: stamp.0, nanos: stamp.1 };
        for way in ["in place", "moved over", "moved over at once"] {
            seeds(SEEDS / 20, |seed| {
                let pair = Pair::new(seed, Config::default(), Limits::default(), &[]);
                let fs = pair.server.fs();
                let replaced_by = fs.clone();
                let write = move |name: &str, content: &[u8]| {
                    fs.write(name, content).unwrap();
                    fs.set_mtime(name, mtime).unwrap();
                };
                pair.run(async move {
                    write("/srv/f", b"one");
                    if way == "moved over at once" {
                        write("/srv/g", b"two");
                    }
                    sleep(Duration::from_secs(3)).await;
                    let mut client = Client::connect(ADDRESS).await.unwrap();
                    let first = client.get("/f", "").await.unwrap();
                    let (tag, date) = (
                        first.field("ETag").unwrap().to_owned(),
                        first.field("Last-Modified").map(str::to_owned),
                    );
                    match way {
                        "in place" => write("/srv/f", b"two"),
                        "moved over" => {
                            write("/srv/g", b"two");
                            replaced_by.rename("/srv/g", "/srv/f").unwrap();
                        }
                        _ => replaced_by.rename("/srv/g", "/srv/f").unwrap(),
                    }
                    sleep(Duration::from_secs(3)).await;
                    let mut lines = vec![
                        format!("If-None-Match: {tag}\r\n"),
                        format!("If-None-Match: W/{tag}\r\n"),
                        format!("Range: bytes=1-\r\nIf-Range: {tag}\r\n"),
                    ];
                    lines.extend(date.map(|date| format!("Range: bytes=1-\r\nIf-Range: {date}\r\n")));
                    for line in lines {
                        let whole = client.get("/f", &line).await.unwrap();
                        assert_eq!(
                            (whole.status, &whole.body[..]),
                            (200, &b"two"[..]),
                            "{stamp:?} {way} {line}"
                        );
                        assert_ne!(whole.field("ETag"), Some(&tag[..]));
                    }
                    let meant = client.get("/f", &format!("If-Match: {tag}\r\n")).await.unwrap();
                    assert_eq!(meant.status, 412, "{stamp:?} {way}");
                });
                pair.end();
            });
        }
    }
}

#[test]
fn a_part_is_asked_for_by_date_only_where_the_date_is_of_the_change() {
    seeds(SEEDS / 20, |seed| {
        let pair = Pair::new(seed, Config::default(), Limits::default(), &[]);
        let fs = pair.server.fs();
        pair.run(async move {
            for (set, status) in [(None, 206), (Some(1_000_000_000), 200)] {
                fs.write("/srv/f", *b"content").unwrap();
                set.iter()
                    .for_each(|secs| fs.set_mtime("/srv/f", Timestamp { secs: *secs, nanos: 0 }).unwrap());
                sleep(Duration::from_secs(3)).await;
                let mut client = Client::connect(ADDRESS).await.unwrap();
                let date = client.get("/f", "").await.unwrap().field("Last-Modified").unwrap().to_owned();
                let part = format!("Range: bytes=1-\r\nIf-Range: {date}\r\n");
                assert_eq!(client.get("/f", &part).await.unwrap().status, status, "{set:?}");
                let kept = client.get("/f", &format!("If-Modified-Since: {date}\r\n")).await.unwrap();
                assert_eq!(kept.status, 304, "{set:?}");
            }
        });
        pair.end();
    });
}

#[test]
fn a_file_of_a_fine_clock_has_its_lasting_tag_from_the_first_answer_on() {
    seeds(SEEDS, |seed| {
        let mut config = Config::default();
        config.fs.timestamp_step = Duration::from_millis(4);
        let pair = Pair::new(seed, config, Limits::default(), &[]);
        let fs = pair.server.fs();
        pair.run(async move {
            let mut client = Client::connect(ADDRESS).await.unwrap();
            sleep(Duration::from_millis(seed * 37 % 1000 + 1)).await;
            // As the file system stamps it, and as programs do that keep times.
            for mtime in
                [None, Some((1_000_000_000, 0)), Some((1_000_000_000, 5)), Some((0, 0)), Some((FUTURE_S, 0))]
            {
                // At the full second it is as by a clock that knows no parts.
                let now = lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap();
                if now.subsec_millis() < 4 {
                    sleep(Duration::from_millis(10)).await;
                }
                fs.write("/srv/f", *b"content").unwrap();
                if let Some((secs, nanos)) = mtime {
                    fs.set_mtime("/srv/f", Timestamp { secs, nanos }).unwrap();
                }
                let first = client.get("/f", "").await.unwrap().field("ETag").unwrap().to_owned();
                assert!(first.starts_with('"'), "{mtime:?}: {first}");
                for wait in [1, 30, 2000, 3000] {
                    sleep(Duration::from_millis(wait)).await;
                    let later = client.get("/f", "").await.unwrap();
                    assert_eq!(later.field("ETag"), Some(&first[..]), "{mtime:?}");
                }
            }
        });
        pair.end();
    });
}
