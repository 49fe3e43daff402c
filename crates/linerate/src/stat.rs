//! `linerate stat`: one line a second of what a running server does.

use std::io::{IsTerminal, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use server::stats::{LaneSnapshot, Snapshot};
use server::volumes::VolumeShown;

use self::placement::{Placement, PlacementSamples};
use self::smb::Smb;
use self::trees::{Shown, Trees};
use crate::output::{bit_rate, rate};

mod placement;
mod smb;
mod sum;
mod trees;

/// Flags of `linerate stat`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Admin address of the server
    #[arg(default_value = "127.0.0.1:8090")]
    server: SocketAddr,
    /// One line for each silo besides the sum, and which share of its memory lies on other nodes
    #[arg(short, long)]
    silos: bool,
    /// Seconds between two lines
    #[arg(short, long, default_value_t = 1.0, value_parser = parse_interval)]
    interval: f64,
    /// End after this many lines; without it, when you press Ctrl-C
    #[arg(short = 'n', long)]
    count: Option<u64>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut before = fetch(args.server)?;
    let (mut looks, mut volumes) = (PlacementSamples::default(), Shown::default());
    let mut tells_smb = false;
    let mut out = std::io::stdout().lock();
    for line in 0.. {
        if args.count.is_some_and(|count| line >= count) {
            break;
        }
        std::thread::sleep(Duration::from_secs_f64(args.interval));
        let now = fetch(args.server)?;
        looks.see(&now);
        let rates = Rates::between(&before, &now, &looks);
        if args.json {
            writeln!(out, "{}", serde_json::to_string(&rates)?)?;
        } else {
            if line % HEADER_EVERY == 0 && (line == 0 || std::io::stdout().is_terminal()) {
                writeln!(out, "{HEADER}{}", with_silos(args, || format!("  {}", placement::HEADER)))?;
                if trees::are_there(&now) {
                    writeln!(out, "{}", trees::HEADER)?;
                }
                if smb::is_there(&now) {
                    writeln!(out, "{}", smb::HEADER)?;
                }
                tells_smb = smb::is_there(&now);
                volumes.forget();
            }
            let line = |name: &str, part: &SiloRates| {
                let placement = with_silos(args, || format!("  {}", part.memory_pages.columns()));
                format!("{}{placement}", part.line(name))
            };
            writeln!(out, "{}", line("all", &rates.total))?;
            for (silo, part) in rates.silos.iter().filter(|_| args.silos) {
                writeln!(out, "{}", line(&format!("silo {silo}"), part))?;
            }
            if trees::are_there(&now) {
                writeln!(out, "{}", rates.trees.line())?;
                volumes.news(&now).iter().try_for_each(|line| writeln!(out, "{line}"))?;
            }
            if smb::is_there(&now) {
                // Its first client came under another head.
                if !std::mem::replace(&mut tells_smb, true) {
                    writeln!(out, "{}", smb::HEADER)?;
                }
                writeln!(out, "{}", rates.smb.line())?;
            }
        }
        out.flush()?;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns `text` with `--silos`, else nothing: only lines of silos are wide enough to show where memory lies.
fn with_silos(args: &Args, text: impl FnOnce() -> String) -> String {
    if args.silos { text() } else { String::new() }
}

/// Rates between two snapshots.
#[derive(Debug, serde::Serialize)]
struct Rates {
    time_ms: u64,
    resident_bytes: u64,
    total: SiloRates,
    silos: std::collections::BTreeMap<u16, SiloRates>,
    trees: Trees,
    smb: Smb,
    volumes: Vec<VolumeShown>,
}

/// Rates of the whole or of one silo; connections are a level, and pages those of the latest looks.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
struct SiloRates {
    bits_in_per_second: f64,
    bits_out_per_second: f64,
    connections: u64,
    /// Connections among these whose TLS records the kernel seals, and below those whose records user space seals.
    kernel_tls_connections: u64,
    user_tls_connections: u64,
    requests_per_second: f64,
    cpu_percent: f64,
    syscalls_per_second: f64,
    context_switches_per_second: f64,
    refusals_per_second: f64,
    memory_pages: Placement,
}

impl Rates {
    fn between(before: &Snapshot, now: &Snapshot, looks: &PlacementSamples) -> Self {
        let seconds = now.time_ms.saturating_sub(before.time_ms).max(1) as f64 / 1000.0;
        let mut silos = std::collections::BTreeMap::<u16, SiloRates>::new();
        let mut total = SiloRates::default();
        for lane in &now.lanes {
            let Some(earlier) = before.lanes.iter().find(|earlier| earlier.id == lane.id) else { continue };
            let part = SiloRates::of_lane(earlier, lane, seconds);
            total.add(&part);
            silos.entry(lane.silo).or_default().add(&part);
        }
        for (&silo, part) in &mut silos {
            part.memory_pages = looks.of(silo);
            total.memory_pages.add(&part.memory_pages);
        }
        // The whole process counts here: helpers and housekeeping cost CPU too.
        total.cpu_percent = (now.cpu_seconds - before.cpu_seconds) / seconds * 100.0;
        let switches = now.context_switches.saturating_sub(before.context_switches);
        total.context_switches_per_second = switches as f64 / seconds;
        let trees = Trees::between(before, now, seconds);
        let smb = Smb::between(before, now, seconds);
        let (time_ms, resident_bytes, volumes) = (now.time_ms, now.resident_bytes, now.volumes.clone());
        Self { time_ms, resident_bytes, total, silos, trees, smb, volumes }
    }
}

impl SiloRates {
    fn of_lane(before: &LaneSnapshot, now: &LaneSnapshot, seconds: f64) -> Self {
        let per_second = |area: &str, name: &str| {
            now.counter(area, name).saturating_sub(before.counter(area, name)) as f64 / seconds
        };
        let switches = now.context_switches.saturating_sub(before.context_switches);
        Self {
            bits_in_per_second: per_second("lane", "bytes_in") * 8.0,
            bits_out_per_second: per_second("lane", "bytes_out") * 8.0,
            connections: now.counter("http", "connections"),
            kernel_tls_connections: now.counter("http", "tls_connections{records=kernel}"),
            user_tls_connections: now.counter("http", "tls_connections{records=user}"),
            requests_per_second: per_second("http", "requests"),
            cpu_percent: (now.cpu_seconds - before.cpu_seconds) / seconds * 100.0,
            syscalls_per_second: per_second("lane", "syscalls"),
            context_switches_per_second: switches as f64 / seconds,
            refusals_per_second: per_second("http", "refused"),
            memory_pages: Placement::default(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.bits_in_per_second += other.bits_in_per_second;
        self.bits_out_per_second += other.bits_out_per_second;
        self.connections += other.connections;
        self.kernel_tls_connections += other.kernel_tls_connections;
        self.user_tls_connections += other.user_tls_connections;
        self.requests_per_second += other.requests_per_second;
        self.cpu_percent += other.cpu_percent;
        self.syscalls_per_second += other.syscalls_per_second;
        self.context_switches_per_second += other.context_switches_per_second;
        self.refusals_per_second += other.refusals_per_second;
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name:<8} {:>12} {:>12} {:>7} {:>7} {:>9} {:>6.1} {:>10} {:>9} {:>8}",
            bit_rate(self.bits_in_per_second),
            bit_rate(self.bits_out_per_second),
            self.connections,
            self.kernel_tls_connections,
            rate(self.requests_per_second),
            self.cpu_percent,
            rate(self.syscalls_per_second),
            rate(self.context_switches_per_second),
            rate(self.refusals_per_second),
        )
    }
}

/// Makes one GET, answered and closed: a client library would be larger than all of this file.
pub(crate) fn fetch(server: SocketAddr) -> anyhow::Result<Snapshot> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT).with_context(|| {
        format!("no server answers at {server} (is it running, and is this the admin address it printed?)")
    })?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    // At once: what answers the first part and closes would have the rest end as a pipe without a reader.
    let request = format!("GET /stats.json HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { bail!("{server} does not speak HTTP") };
    if !head.starts_with("HTTP/1.1 200") {
        bail!("{}", not_ours(server, head));
    }
    if serde_json::from_str::<serde_json::Value>(body).is_err() {
        bail!("{}", not_ours(server, head));
    }
    serde_json::from_str(body).with_context(|| format!("the server at {server} is of another version"))
}

/// Returns the error about a server of HTTP that is none of ours: with its name, if it says that.
fn not_ours(server: SocketAddr, head: &str) -> String {
    let of_field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("server").then(|| cli::output::printable(value.trim().as_bytes()))
    };
    let named = head.lines().find_map(of_field).map(|name| format!(" ({name})")).unwrap_or_default();
    format!(
        "{server} is no admin address of Linerate: a web server{named} answers there; give the address that `linerate serve` was given \
         as admin.listen or --admin"
    )
}

fn parse_interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds from 0.1 to 3600".to_owned()),
    }
}

const HEADER: &str =
    "                   in          out   conns    ktls     req/s   cpu%  syscalls/s    ctxsw/s  refused/s";
const HEADER_EVERY: u64 = 20;
const TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Of one lane.
    pub(super) fn snapshot(counters: &[(&str, &str, u64)], volumes: Vec<VolumeShown>) -> Snapshot {
        let mut areas = BTreeMap::<String, BTreeMap<String, u64>>::new();
        for (area, name, value) in counters {
            areas.entry((*area).to_owned()).or_default().insert((*name).to_owned(), *value);
        }
        let lane =
            LaneSnapshot { id: 0, silo: 0, cpu: 0, cpu_seconds: 0.0, context_switches: 0, counters: areas };
        Snapshot {
            time_ms: 0,
            uptime_seconds: 0.0,
            cpu_seconds: 0.0,
            context_switches: 0,
            resident_bytes: 0,
            lanes: vec![lane],
            volumes,
        }
    }

    /// Returns where the words of a line end: a figure's unit and a head of two words have ends of their own.
    pub(super) fn ends(text: &str) -> Vec<usize> {
        let bytes = text.as_bytes();
        let is_end = |at: &usize| bytes[*at] != b' ' && bytes.get(at + 1).is_none_or(|next| *next == b' ');
        (0..bytes.len()).filter(is_end).collect()
    }
}
