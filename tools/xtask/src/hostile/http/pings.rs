//! Acknowledgements of pings that were never sent: each one is worth a warning to an HTTP/2 library. The
//! server's standard error is not read for half of the time, and what is written to it is counted in the
//! other half.

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::http2::Http2;
use crate::hostile::net::source;
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::Wishes;

pub(crate) struct Pings;

impl Scenario for Pings {
    fn name(&self) -> &'static str {
        "http2-pings"
    }

    fn about(&self) -> &'static str {
        "HTTP/2 PING acknowledgements nobody asked for, and a log that nobody reads"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn prepare(&self, _work: &Path) -> anyhow::Result<Wishes> {
        Ok(Wishes { stderr_piped: true, ..Wishes::default() })
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let half = Instant::now() + field.end.saturating_duration_since(Instant::now()) / 2;
        let stderr = field.stderr.lock().expect("nobody panics while he holds it").take();
        let mut stderr = stderr.context("it was wished for")?;
        rustix::io::ioctl_fionbio(&stderr, true)?;
        let mut clients: [Option<Http2>; CONNECTIONS] = std::array::from_fn(|_| None);
        let (mut frames, mut connections, mut logged) = (0, 0, 0);
        while !field.is_over() {
            let began = Instant::now();
            for client in &mut clients {
                if client.is_none() {
                    connections += 1;
                    *client = Some(Http2::connect(source(connections))?);
                }
                let open = client.as_mut().expect("it was made");
                (0..FRAMES_A_TURN).for_each(|_| open.ping_ack());
                frames += FRAMES_A_TURN;
                if open.flush().and_then(|()| open.discard()).is_err() {
                    *client = None;
                }
            }
            if began > half {
                let mut part = [0; 64 << 10];
                while let Ok(n @ 1..) = stderr.read(&mut part) {
                    logged += n;
                }
            }
            field.sleep(TURN.saturating_sub(began.elapsed()));
        }
        // The pipe stays open, and is not read again: the server must end all the same.
        *field.stderr.lock().expect("nobody panics while he holds it") = Some(stderr);
        Ok(Findings::default()
            .with("frames", frames)
            .with("connections", connections)
            .with("bytes of log", logged)
            .expect(logged <= LOG_BYTES_MAX, || format!("{logged} bytes of log")))
    }
}

const CONNECTIONS: usize = 2;
const TURN: Duration = Duration::from_millis(20);
const FRAMES_A_TURN: usize = 200;
/// Twice what a pipe holds.
const LOG_BYTES_MAX: usize = 128 << 10;
