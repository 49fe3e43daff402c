//! Honest readers on slow lines: they take 10 kB a second without a pause, so they must not be cut as
//! stalled.

use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::http2::tls_over;
use crate::hostile::net::{connect_with, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{HTTP, HTTPS, Wishes};

pub(crate) struct Readers;

impl Scenario for Readers {
    fn name(&self) -> &'static str {
        "http-slow-readers"
    }

    fn about(&self) -> &'static str {
        "readers of 10 kB/s, which must not be cut as stalled"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    /// Scales the default patience of 30 s down to the time there is.
    fn prepare(&self, _work: &Path) -> anyhow::Result<Wishes> {
        Ok(Wishes { config: format!("[http.limits]\nstall_seconds = {STALL_SECONDS}"), ..Wishes::default() })
    }

    fn seconds_least(&self) -> u64 {
        STALL_SECONDS * 5 / 2
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let outcomes = std::thread::scope(|scope| {
            let read = |n| scope.spawn(move || read(n, field));
            let readers: Vec<_> = (0..READERS).map(read).collect();
            let join =
                |reader: std::thread::ScopedJoinHandle<'_, _>| reader.join().expect("readers do not panic");
            readers.into_iter().map(join).collect::<Vec<_>>()
        });
        let mut findings = Findings::default().with("readers", READERS);
        let mut bytes = 0;
        for (n, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                Ok(taken) => bytes += taken,
                Err(error) => findings.failures.push(format!("reader {n} was cut: {error:#}")),
            }
        }
        Ok(findings.with("bytes taken", bytes))
    }
}

/// Reads slowly until the attack ends; every second reader comes over TLS.
fn read(n: usize, field: &Field<'_>) -> anyhow::Result<u64> {
    trait Both: Read + Write {}
    impl<T: Read + Write> Both for T {}
    let mut stream: Box<dyn Both> = match n % 2 {
        0 => Box::new(connect_with(source(n), HTTP, Some(RECEIVE_BUFFER))?),
        _ => Box::new(tls_over(connect_with(source(n), HTTPS, Some(RECEIVE_BUFFER))?)?),
    };
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let (began, mut taken) = (Instant::now(), 0);
    let mut part = [0; BYTES_A_TURN];
    while !field.is_over() {
        stream.read_exact(&mut part).map_err(|error| {
            anyhow::anyhow!("{error} after {taken} bytes and {:.1} s", began.elapsed().as_secs_f64())
        })?;
        taken += BYTES_A_TURN as u64;
        field.sleep(TURN);
    }
    Ok(taken)
}

const READERS: usize = 16;
const STALL_SECONDS: u64 = 6;
/// Systems hand windows back in leaps, of up to 64 KiB where they received as much at once. At this pace that would be
/// more than the patience; on a slow line it does not happen.
const RECEIVE_BUFFER: usize = 8 << 10;
const BYTES_A_TURN: usize = 1000;
const TURN: Duration = Duration::from_millis(100);
