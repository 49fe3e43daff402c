//! `cargo xtask idle`: what an idle keep-alive connection costs the server in resident memory.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::server::{self, Subject};
use crate::{cpu, descriptors, packages};

/// Flags of `cargo xtask idle`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Connections to hold open
    #[arg(long, default_value_t = 10_000)]
    connections: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    packages::install(packages::COMPARE)?;
    descriptors::raise_limit_to(u64::from(args.connections) + 500)?;
    let work = tempfile::tempdir()?;
    let tree = work.path().join("tree");
    std::fs::create_dir(&tree)?;
    std::fs::write(tree.join("1k"), [b'x'; 1024])?;
    let (cert, key) = server::make_certificate(work.path())?;
    for start in [server::linerate, server::nginx] {
        let subject = start(work.path(), &tree, &cert, &key, server::Uploads::Refused)?;
        println!("{}", serde_json::to_string(&measure(&subject, args.connections)?)?);
    }
    Ok(())
}

/// One server's JSON line.
#[derive(serde::Serialize)]
struct Line {
    server: &'static str,
    idle_connections: u32,
    resident_before: u64,
    resident_with: u64,
    bytes_per_connection: u64,
}

fn measure(subject: &Subject, connections: u32) -> anyhow::Result<Line> {
    // Warm-up, so that what the first requests load is not counted as the connections'.
    for _ in 0..200 {
        request(subject)?;
    }
    let before = resident(subject)?;
    let mut held = Vec::new();
    for number in 0..connections {
        let stream = request(subject).with_context(|| format!("connection {number}"))?;
        held.push(stream);
    }
    std::thread::sleep(Duration::from_millis(500));
    let with = resident(subject)?;
    // A connection that the server closed would make the figure a lie.
    for stream in held.iter().step_by(97) {
        ensure!(is_open(stream), "{} closed an idle connection", subject.name);
    }
    Ok(Line {
        server: subject.name,
        idle_connections: connections,
        resident_before: before,
        resident_with: with,
        bytes_per_connection: with.saturating_sub(before) / u64::from(connections),
    })
}

/// Fetches the file and keeps the connection.
fn request(subject: &Subject) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(subject.http)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /1k HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        let n = stream.read(&mut part)?;
        ensure!(n > 0, "{} closed the connection", subject.name);
        answer.extend_from_slice(&part[..n]);
        let head = answer.windows(4).position(|window| window == b"\r\n\r\n");
        if head.is_some_and(|at| answer.len() >= at + 4 + 1024) {
            return Ok(stream);
        }
    }
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).is_ok()
        && matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

/// Of the server's whole process tree: nginx holds connections in its workers.
fn resident(subject: &Subject) -> anyhow::Result<u64> {
    cpu::tree(subject.server.pid())?.into_iter().map(cpu::resident_bytes).sum()
}
