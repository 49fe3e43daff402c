//! One address at every edge of HTTP at once: heads and bodies that are too long, changes of one name, a volume that is full, bodies that
//! are taken too slowly, header blocks that do not end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::http2::Http2;
use crate::hostile::arena::ATTACKER;
use crate::hostile::load;
use crate::hostile::net::connect_from;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{HTTP, Wishes};

pub(crate) struct Edges;

impl Scenario for Edges {
    fn name(&self) -> &'static str {
        "http-edges"
    }

    fn about(&self) -> &'static str {
        "heads, bodies and header blocks that are too long, uploads to one name and to a full volume, by one address"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let drop = work.join("drop");
        std::fs::create_dir_all(&drop)?;
        let config = format!(
            "[http.limits]\nstall_seconds = 2\nsend_rate_min = 1000000\n[[volume]]\nname = 'drop'\npath = '{}'\nmount = '/drop'\n\
             writable = 'anyone'\nquota = '8M'",
            drop.display()
        );
        Ok(Wishes { config, ..Wishes::default() })
    }

    fn seconds_least(&self) -> u64 {
        6
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let counts = [const { AtomicU64::new(0) }; 4];
        let [refused, changed, full, cut] = &counts;
        let attackers: [Box<dyn Fn() + Sync>; 4] = [
            Box::new(|| until_over(field, || refused.fetch_add(refusals(), Ordering::Relaxed))),
            Box::new(|| change_one_name(field, changed)),
            Box::new(|| until_over(field, || full.fetch_add(fill(), Ordering::Relaxed))),
            Box::new(|| until_over(field, || cut.fetch_add(u64::from(flood()), Ordering::Relaxed))),
        ];
        std::thread::scope(|scope| {
            for attacker in &attackers {
                scope.spawn(|| {
                    load::become_attacker();
                    attacker();
                });
            }
            take_slowly(field);
        });
        drop(attackers);
        let [refused, changed, full, cut] = counts.map(AtomicU64::into_inner);
        Ok(Findings::default()
            .with("requests refused for their length", refused)
            .with("uploads to one name", changed)
            .with("uploads to a full volume refused", full)
            .with("connections cut for header blocks", cut)
            .expect(refused > 0 && changed > 0 && full > 0 && cut > 0, || {
                "an edge was not reached".to_owned()
            }))
    }
}

fn until_over(field: &Field<'_>, act: impl Fn() -> u64) {
    while !field.is_over() {
        act();
        field.sleep(PAUSE);
    }
}

/// Returns what a request of its own connection is answered; empty where it is not.
fn ask(head: &str, body: &[u8]) -> Vec<u8> {
    let answer = || -> std::io::Result<Vec<u8>> {
        let mut stream = connect_from(ATTACKER, HTTP)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(head.as_bytes())?;
        // A server that has refused it takes no more.
        let _ = stream.write_all(body).and_then(|()| stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.take(64 << 10).read_to_end(&mut answer);
        Ok(answer)
    };
    answer().unwrap_or_default()
}

/// Requests that are too long in each of their parts; how many were refused.
fn refusals() -> u64 {
    let requests = [
        format!("GET /small HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(20_000)),
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9_000)),
        format!("GET /small HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(110)),
        format!("PUT /drop/long HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 1u64 << 40),
        "POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n".to_owned(),
        "PUT /drop/extended HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;".to_owned(),
    ];
    let body = vec![b'x'; 256 << 10];
    let answers = requests.iter().map(|request| {
        let body = if request.starts_with("GET") { &[][..] } else { &body[..] };
        ask(request, body)
    });
    answers.filter(|answer| answer.starts_with(b"HTTP/1.1 4")).count() as u64
}

/// Uploads to one name, again and again, over as many connections as wait for each other.
fn change_one_name(field: &Field<'_>, changed: &AtomicU64) {
    const REQUEST: &[u8] = b"PUT /drop/one HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    let connect = |_| {
        let stream = connect_from(ATTACKER, HTTP).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(stream)
    };
    let mut streams: Vec<TcpStream> = (0..CHANGERS).filter_map(connect).collect();
    while !field.is_over() && !streams.is_empty() {
        streams.retain_mut(|stream| stream.write_all(REQUEST).is_ok());
        streams.retain_mut(|stream| {
            let mut part = [0; 4096];
            let answered = stream.read(&mut part).is_ok_and(|n| n > 0);
            changed.fetch_add(u64::from(answered), Ordering::Relaxed);
            answered
        });
        field.sleep(PAUSE);
    }
}

/// Uploads of more than the volume takes; how many were refused as it is full.
fn fill() -> u64 {
    let head = |n: usize| {
        format!("PUT /drop/part-{n} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n300000\r\n")
    };
    let body = [&vec![b'x'; 3 << 20][..], b"\r\n0\r\n\r\n"].concat();
    (0..4).filter(|n| ask(&head(*n), &body).starts_with(b"HTTP/1.1 507")).count() as u64
}

/// Sends a header block that does not end, and frames that bring nothing; returns whether the server has cut the
/// connection.
fn flood() -> bool {
    let Ok(mut client) = Http2::connect(ATTACKER) else { return false };
    client.endless_block(FRAGMENTS);
    let _ = client.flush();
    (0..100).any(|_| client.discard().is_err())
}

/// Takes a long file by a few bytes at a time, slower than the server allows.
fn take_slowly(field: &Field<'_>) {
    let connect = |_| {
        let mut stream = connect_from(ATTACKER, HTTP).ok()?;
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
        Some(stream)
    };
    let mut streams: Vec<TcpStream> = (0..TAKERS).filter_map(connect).collect();
    while !field.is_over() {
        let mut part = [0; 4 << 10];
        streams.retain_mut(|stream| stream.read(&mut part).is_ok_and(|n| n > 0));
        field.sleep(PAUSE * 5);
    }
}

const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(5);
const CHANGERS: usize = 64;
const TAKERS: usize = 16;
/// Frames of the header block that does not end: they have more bytes than the 32 KiB that a block may have.
const FRAGMENTS: usize = 8;
