//! A file to which is appended while it is sent, as to a log: what was promised must arrive, byte for byte.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustls::{ClientConnection, StreamOwned};

use super::http2::tls_over;
use crate::hostile::net::{connect_from, source};
use crate::hostile::scenario::{Field, Findings, Scenario, Service};
use crate::hostile::server::{GROWING_BYTES, HTTP, HTTPS};

pub(crate) struct Growing;

impl Scenario for Growing {
    fn name(&self) -> &'static str {
        "http-growing-file"
    }

    fn about(&self) -> &'static str {
        "a file of 20 MB that grows every 0.2 s while readers of 10 MB/s take it"
    }

    fn service(&self) -> Service {
        Service::Http
    }

    fn attack(&self, field: &Field<'_>) -> anyhow::Result<Findings> {
        let path = field.tree.join("growing");
        File::options().write(true).open(&path)?.set_len(GROWING_BYTES)?;
        let readers: [Connect; 2] = [
            |from| Ok(Box::new(connect_from(from, HTTP)?)),
            |from| Ok(Box::new(tls_over(connect_from(from, HTTPS)?)?)),
        ];
        std::thread::scope(|scope| {
            let appending = scope.spawn(|| append(&path, field));
            let reading = readers.map(|connect| {
                scope.spawn(move || {
                    let mut whole = 0u64;
                    let mut failures = Vec::new();
                    // At least once, and again while a whole one is sure to fit.
                    while whole == 0 || field.end.saturating_duration_since(Instant::now()) > TRANSFER * 2 {
                        match connect(source(1)).and_then(|mut stream| read(&mut *stream)) {
                            Ok(()) => whole += 1,
                            Err(error) => {
                                failures.push(format!("{error:#}"));
                                break;
                            }
                        }
                    }
                    (whole, failures)
                })
            });
            let mut findings = Findings::default();
            let mut whole = 0;
            for reader in reading {
                let (bodies, failures) = reader.join().expect("readers do not panic");
                whole += bodies;
                findings.failures.extend(failures);
            }
            let appended = appending.join().expect("appending does not panic")?;
            Ok(findings.with("whole bodies", whole).with("appends", appended))
        })
    }
}

type Connect = fn(Ipv4Addr) -> anyhow::Result<Box<dyn Both>>;

trait Both: Read + Write {}
impl Both for TcpStream {}
impl Both for StreamOwned<ClientConnection, TcpStream> {}

fn append(path: &Path, field: &Field<'_>) -> anyhow::Result<u64> {
    let mut file = File::options().append(true).open(path)?;
    let mut appended = 0;
    while !field.is_over() {
        file.write_all(b"and one line more\n")?;
        appended += 1;
        field.sleep(APPEND_EVERY);
    }
    Ok(appended)
}

/// Reads one body at its pace and compares what is not appended.
fn read(stream: &mut dyn Both) -> anyhow::Result<()> {
    stream.write_all(b"GET /growing HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).context("no head")?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head)?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: u64 = length.with_context(|| format!("no length in {head:?}"))?.parse()?;
    ensure!(length >= GROWING_BYTES, "{length} bytes are promised");
    let (began, mut at) = (Instant::now(), 0);
    let mut part = vec![0; PART_BYTES];
    while at < length {
        let want = part.len().min(usize::try_from(length - at)?);
        stream.read_exact(&mut part[..want]).with_context(|| format!("cut after {at} bytes of {length}"))?;
        let words = part[..want].chunks_exact(8).zip(at / 8..GROWING_BYTES / 8);
        for (word, number) in words {
            ensure!(word == number.to_le_bytes(), "other bytes than the file's from {} on", number * 8);
        }
        at += want as u64;
        std::thread::sleep(TRANSFER.mul_f64(at as f64 / length as f64).saturating_sub(began.elapsed()));
    }
    Ok(())
}

const APPEND_EVERY: Duration = Duration::from_millis(200);
/// Time of one body's transfer.
const TRANSFER: Duration = Duration::from_secs(2);
const PART_BYTES: usize = 64 << 10;
