//! One run: clients of one server for some seconds, and what both used.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use serde::Deserialize;

use super::row::{FILE, Row};
use super::servers::{Server, VOLUME};
use super::site::Site;
use crate::compare::programs::{BenchReport, CLIENT_CPU, Programs, json};
use crate::compare::stock::run::Counts;
use crate::compare::{gib, median, rounded};
use crate::cpu;
use crate::process::Killed;

/// Result of one run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Run {
    /// Bits of files, both directions together, in Gbit/s.
    pub(super) gbit_per_second: f64,
    pub(super) calls_per_second: f64,
    /// 0 where calls move no bytes.
    pub(super) server_cpu_s_per_gib: f64,
    pub(super) server_cpu_us_per_call: f64,
    /// Seconds of CPU a second.
    pub(super) server_cpu_share: f64,
    pub(super) client_cpu_share: f64,
    /// DATA packets that the server sent again.
    pub(super) resent: f64,
}

/// Report of stock clients.
#[derive(Debug, Deserialize)]
struct StockReport {
    bytes: u64,
    calls: u64,
    seconds: f64,
    cpu_s: f64,
}

/// Outcome of a load, from whatever client.
struct Came {
    bytes: u64,
    calls: u64,
    seconds: f64,
    client_cpu_s: f64,
    server_cpu_s: f64,
}

/// Runs one row's load against `server`.
pub(super) fn run(
    server: &Server,
    row: &Row,
    site: &Site,
    programs: &Programs<'_>,
    seconds: u32,
) -> anyhow::Result<Run> {
    site.at_clients(|| {
        let before = Counts::ask(server.address)?;
        let came = match row.bench() {
            Some((flags, path)) => {
                let clients = row.clients.to_string();
                let flags = [flags, &["--clients", &clients]].concat();
                bench(server, path, &flags, row.ground.is_apart, programs, seconds)?
            }
            None => stock(server, row, programs, seconds)?,
        };
        let resent = Counts::ask(server.address)?.since(&before).resent;
        Ok(Run::of(&came, resent))
    })
}

/// Processes on OpenAFS's libraries.
fn stock(server: &Server, row: &Row, programs: &Programs<'_>, seconds: u32) -> anyhow::Result<Came> {
    let fid = fid(server, programs)?;
    let mut command = programs.command(programs.stock, row.ground.is_apart.then_some(CLIENT_CPU));
    let (address, port) = (server.address.ip().to_string(), server.address.port().to_string());
    command.args(["-s", &address, "-p", &port, "-f", &fid, "-b", CHUNK]);
    command.args(["-c", &row.clients.to_string(), "-D", &seconds.to_string()]);
    command.args((!row.ground.jumbograms).then_some("-j"));
    let before = cpu::of_tree(server.process)?;
    let report: StockReport = json(&mut command)?;
    let server_cpu_s = cpu::of_tree(server.process)? - before;
    let StockReport { bytes, calls, seconds, cpu_s } = report;
    Ok(Came { bytes, calls, seconds, client_cpu_s: cpu_s, server_cpu_s })
}

/// Runs `linerate bench afs` with these flags.
pub(super) fn bench_at(
    server: &Server,
    path: &str,
    flags: &[&str],
    is_apart: bool,
    programs: &Programs<'_>,
    seconds: u32,
) -> anyhow::Result<Run> {
    Ok(Run::of(&bench(server, path, flags, is_apart, programs, seconds)?, 0))
}

fn bench(
    server: &Server,
    path: &str,
    flags: &[&str],
    is_apart: bool,
    programs: &Programs<'_>,
    seconds: u32,
) -> anyhow::Result<Came> {
    let mut command = programs.command(programs.linerate, is_apart.then_some(CLIENT_CPU));
    command.args(["bench", "afs", &format!("afs://{}/{VOLUME}/{path}", server.address), "--json"]);
    command.args(["--seconds", &seconds.to_string(), "--pid", &server.process.to_string()]);
    command.args(if is_apart { &["--threads", "1"][..] } else { &[] });
    let report = BenchReport::of(command.args(flags), server.name)?;
    Ok(Came {
        bytes: report.bytes(),
        calls: report.calls,
        seconds: report.seconds,
        client_cpu_s: report.client_cpu_seconds,
        server_cpu_s: report.server_cpu_seconds,
    })
}

/// Returns the large file's number, as stock clients take it.
fn fid(server: &Server, programs: &Programs<'_>) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    struct Listed {
        volume: u32,
        vnode: u32,
        uniquifier: u32,
    }
    let mut command = Command::new(programs.linerate);
    command.args(["ls", "--json", &format!("afs://{}/{VOLUME}/{FILE}", server.address)]);
    let Listed { volume, vnode, uniquifier } = json(&mut command)?;
    Ok(format!("{volume}.{vnode}.{uniquifier}"))
}

/// Result of the machine over the same path without a protocol.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Blast {
    pub(super) gbit_per_second: f64,
    pub(super) sender_cpu_s_per_gib: f64,
}

/// Blasts datagrams from Linerate's side to the clients', of zeros or of a file's bytes.
pub(super) fn blast(
    site: &Site,
    file: Option<&Path>,
    programs: &Programs<'_>,
    seconds: u32,
) -> anyhow::Result<Blast> {
    #[derive(Deserialize)]
    struct Report {
        bits_per_second: f64,
        bytes: u64,
    }
    // The socket of the one before may outlive its process for a moment, as the kernel takes its ring down.
    let port = BLAST_PORT + u16::from(file.is_some());
    let at = format!("{}:{port}", site.ours().address.ip());
    let sender = site.at_ours(|| {
        let mut command = programs.command(programs.linerate, None);
        command.args(["bench", "rx-server", "--listen", &at, "--blast"]).stdout(Stdio::null());
        if let Some(file) = file {
            command.arg("--blast-file").arg(file);
        }
        Ok(Killed(command.spawn().context("cannot start the blast")?))
    })?;
    let before = cpu::of_tree(sender.0.id())?;
    let report: Report = site.at_clients(|| {
        let mut command = programs.command(programs.linerate, None);
        json(command.args(["bench", "udp", &at, "--json", "--seconds", &seconds.to_string()]))
    })?;
    let cpu_s = cpu::of_tree(sender.0.id())? - before;
    Ok(Blast {
        gbit_per_second: report.bits_per_second / 1e9,
        sender_cpu_s_per_gib: cpu_s / gib(report.bytes),
    })
}

impl Blast {
    /// Returns the median of each field; `None` without any.
    pub(super) fn median_of(blasts: &[Self]) -> Option<Self> {
        let of = |field: fn(&Self) -> f64| rounded(median(blasts.iter().map(field)));
        (!blasts.is_empty()).then(|| Self {
            gbit_per_second: of(|blast| blast.gbit_per_second),
            sender_cpu_s_per_gib: of(|blast| blast.sender_cpu_s_per_gib),
        })
    }
}

impl Run {
    fn of(came: &Came, resent: u64) -> Self {
        Self {
            gbit_per_second: came.bytes as f64 * 8.0 / 1e9 / came.seconds,
            calls_per_second: came.calls as f64 / came.seconds,
            server_cpu_s_per_gib: if came.bytes == 0 { 0.0 } else { came.server_cpu_s / gib(came.bytes) },
            server_cpu_us_per_call: came.server_cpu_s * 1e6 / came.calls.max(1) as f64,
            server_cpu_share: came.server_cpu_s / came.seconds,
            client_cpu_share: came.client_cpu_s / came.seconds,
            resent: resent as f64,
        }
    }

    /// Returns the median of each field.
    pub(super) fn median_of(runs: &[Self]) -> Self {
        let of = |field: fn(&Run) -> f64| rounded(median(runs.iter().map(field)));
        Self {
            gbit_per_second: of(|run| run.gbit_per_second),
            calls_per_second: of(|run| run.calls_per_second),
            server_cpu_s_per_gib: of(|run| run.server_cpu_s_per_gib),
            server_cpu_us_per_call: of(|run| run.server_cpu_us_per_call),
            server_cpu_share: of(|run| run.server_cpu_share),
            client_cpu_share: of(|run| run.client_cpu_share),
            resent: of(|run| run.resent),
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.2} Gb/s, {:.0} calls/s, {:.3} CPU s/GiB, {:.1} us/call, {:.0} packets resent, CPU {:.0} % and {:.0} % (clients)",
            self.gbit_per_second,
            self.calls_per_second,
            self.server_cpu_s_per_gib,
            self.server_cpu_us_per_call,
            self.resent,
            self.server_cpu_share * 100.0,
            self.client_cpu_share * 100.0,
        )
    }
}

impl std::fmt::Display for Blast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bare UDP {:.2} Gb/s, {:.3} CPU s/GiB", self.gbit_per_second, self.sender_cpu_s_per_gib)
    }
}

/// Bytes of a call of stock clients.
const CHUNK: &str = "1048576";
const BLAST_PORT: u16 = 7999;
