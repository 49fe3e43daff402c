//! Uploads of 1 GB each that come by one byte in 50 ms, and uploads that break off after 64 KiB, again and again: each takes
//! a staged file and a place.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::hostile::net::{connect_from, connections_possible, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{HTTP, Wishes};

/// Scenario of slow uploads: half are from one address, the others each from its own.
pub(crate) struct SlowUploads;

impl Scenario for SlowUploads {
    fn name(&self) -> &'static str {
        "http-slow-uploads"
    }

    fn about(&self) -> &'static str {
        "5,000 uploads that come by 20 bytes/s, and 20 a second that break off"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, work: &Path) -> anyhow::Result<Wishes> {
        let drop = work.join("drop");
        std::fs::create_dir_all(&drop)?;
        let config = format!(
            "[http.limits]\nstall_seconds = 5\n[[volume]]\nname = 'drop'\npath = '{}'\nmount = '/drop'\nwritable = 'anyone'",
            drop.display()
        );
        Ok(Wishes { config, ..Wishes::default() })
    }

    fn seconds_least(&self) -> u64 {
        10
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let wanted = connections_possible(UPLOADS);
        let mut open: Vec<TcpStream> = Vec::with_capacity(wanted);
        let (mut made, mut ended, mut most, mut broken_off) = (0, 0u64, 0, 0u64);
        while !field.is_over() {
            let began = Instant::now();
            let missing = (wanted - open.len()).min(CONNECTS_A_TURN);
            open.extend((made..made + missing).filter_map(begin));
            made += missing;
            let before = open.len();
            open.retain_mut(|upload| match upload.write_all(b"x") {
                Ok(()) => true,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            });
            ended += (before - open.len()) as u64;
            most = most.max(open.len());
            if let Some(mut upload) = begin(made) {
                // What it sends is on its way when it goes.
                let _ = upload.write_all(&[b'y'; 64 << 10]);
                broken_off += 1;
            }
            made += 1;
            field.sleep(GAP.saturating_sub(began.elapsed()));
        }
        Ok(Findings::default()
            .with("uploads at once", most)
            .with("ended by the server", ended)
            .with("broken off", broken_off))
    }
}

fn begin(n: usize) -> Option<TcpStream> {
    let mut stream = connect_from(source(n), HTTP).ok()?;
    let head = format!("PUT /drop/{n} HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

const UPLOADS: usize = 5000;
const CONNECTS_A_TURN: usize = 200;
const GAP: Duration = Duration::from_millis(50);
