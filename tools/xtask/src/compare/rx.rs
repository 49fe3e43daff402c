//! Rx over loopback: Linerate's service and load generator, each run beside a bare UDP blast of the same datagrams
//! by GSO and GRO, which is what the machine can do at that moment. The rows of simulated links come from
//! `crates/rx/benches/links.rs`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::median;
use crate::process::Killed;
use crate::{cpu, process};

/// Flags of `cargo xtask compare rx`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each run
    #[arg(long, default_value_t = 4)]
    pub(super) seconds: u32,
    /// Instead of the loads: what a byte costs by the number of connections, such as 1,4,16,32,100,1000
    #[arg(long, value_delimiter = ',')]
    pub(super) connections: Vec<u32>,
    /// Runs of each load
    #[arg(long, default_value_t = 5)]
    pub(super) runs: u32,
    /// Only loads whose name contains this; with --stock all of several parts between commas
    #[arg(long, visible_alias = "rows")]
    load: Option<String>,
    /// A release binary of linerate to measure, instead of building one
    #[arg(long)]
    pub(super) binary: Option<std::path::PathBuf>,
    /// Stock clients, in turns at Linerate and at a stock server, instead
    #[arg(long)]
    stock: bool,
    /// With --stock: both sides run before everything else on their CPUs, for a machine that has other work too
    #[arg(long)]
    pub(super) ahead: bool,
    /// With --stock: one more flag for Linerate's server, to measure what it gives
    #[arg(long, allow_hyphen_values = true)]
    pub(super) server_flag: Vec<String>,
}

/// A load, and what it must reach.
pub(super) struct Load {
    pub(super) name: &'static str,
    lanes: u32,
    flags: &'static [&'static str],
    blast_flags: &'static [&'static str],
    gbit_least: Option<f64>,
    pub(super) calls_least: Option<f64>,
    cpu_s_per_gib_most: Option<f64>,
}

/// Result of one run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Run {
    pub(super) gbit_per_second: f64,
    pub(super) calls_per_second: f64,
    pub(super) server_cpu_s_per_gib: f64,
    server_cpu_us_per_call: f64,
}

/// Result of the machine without a protocol.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Limit {
    pub(super) gbit_per_second: f64,
    pub(super) sender_cpu_s_per_gib: f64,
}

/// One load's JSON line.
#[derive(serde::Serialize)]
struct Line {
    load: &'static str,
    server_lanes: u32,
    linerate: Run,
    limit: Limit,
    ratio_throughput: f64,
    runs: u32,
    wanted_gbit_per_second: Option<f64>,
    wanted_calls_per_second: Option<f64>,
    wanted_cpu_s_per_gib: Option<f64>,
    reached: bool,
}

/// Fields that the comparison reads from the load generator's report.
#[derive(Deserialize)]
struct Report {
    calls: u64,
    calls_per_second: f64,
    bits_per_second: f64,
    bytes_sent: u64,
    bytes_received: u64,
    errors: std::collections::BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Blast {
    bits_per_second: f64,
    bytes: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.runs > 0 && args.seconds > 0, "give at least one run of one second");
    if args.stock {
        return super::stock::run(args);
    }
    if args.load.as_ref().is_some_and(|part| !LOADS.iter().any(|load| load.name.contains(part))) {
        return simulated(args);
    }
    let binary = args.binary()?;
    for load in LOADS.iter().filter(|load| args.wants(load.name)) {
        println!("{}", serde_json::to_string(&measure(&binary, load, args)?)?);
    }
    simulated(args)
}

impl Args {
    /// Returns whether the cost by the number of connections is asked for.
    pub(super) fn counts_connections(&self) -> bool {
        let is_simulated =
            self.load.as_ref().is_some_and(|part| !LOADS.iter().any(|load| load.name.contains(part)));
        !self.connections.is_empty() && !self.stock && !is_simulated
    }

    /// Returns the program that is measured.
    pub(super) fn binary(&self) -> anyhow::Result<std::path::PathBuf> {
        match &self.binary {
            Some(binary) => Ok(binary.clone()),
            None => process::dist_binary(),
        }
    }

    fn wants(&self, load: &str) -> bool {
        self.load.as_ref().is_none_or(|part| load.contains(part))
    }

    /// Returns whether a row of `--stock` is wanted.
    pub(super) fn wants_row(&self, row: &str) -> bool {
        let parts = self.load.iter().flat_map(|parts| parts.split(','));
        parts.map(str::trim).all(|part| row.contains(part))
    }
}

/// Passes on the rows of the simulated links, which come as JSON lines already.
fn simulated(args: &Args) -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["bench", "--package", "rx", "--bench", "links"]).current_dir(process::root());
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    ensure!(output.status.success(), "the simulated links failed: {}", output.status);
    for line in String::from_utf8(output.stdout)?.lines() {
        let row: serde_json::Value = serde_json::from_str(line).with_context(|| format!("no row: {line}"))?;
        if args.wants(row["load"].as_str().unwrap_or_default()) {
            println!("{line}");
        }
    }
    Ok(())
}

fn measure(binary: &Path, load: &Load, args: &Args) -> anyhow::Result<Line> {
    let (mut runs, mut limits) = (Vec::new(), Vec::new());
    for number in 1..=args.runs {
        let limit = blast(binary, load, args)?;
        let ours = call(binary, load, CONNECTIONS, args)?;
        eprintln!(
            "{} {number}/{}: {:.2} Gb/s, {:.0} calls/s, {:.3} CPU s/GiB; bare UDP {:.2} Gb/s, {:.3} CPU s/GiB",
            load.name,
            args.runs,
            ours.gbit_per_second,
            ours.calls_per_second,
            ours.server_cpu_s_per_gib,
            limit.gbit_per_second,
            limit.sender_cpu_s_per_gib,
        );
        runs.push(ours);
        limits.push(limit);
    }
    let pairs = runs.iter().zip(&limits);
    let ratio = median(pairs.map(|(ours, limit)| ours.gbit_per_second / limit.gbit_per_second));
    let of = |field: fn(&Run) -> f64| rounded(median(runs.iter().map(field)));
    let linerate = Run {
        gbit_per_second: of(|run| run.gbit_per_second),
        calls_per_second: of(|run| run.calls_per_second),
        server_cpu_s_per_gib: of(|run| run.server_cpu_s_per_gib),
        server_cpu_us_per_call: of(|run| run.server_cpu_us_per_call),
    };
    let of = |field: fn(&Limit) -> f64| rounded(median(limits.iter().map(field)));
    Ok(Line {
        load: load.name,
        server_lanes: load.lanes,
        linerate,
        limit: Limit {
            gbit_per_second: of(|limit| limit.gbit_per_second),
            sender_cpu_s_per_gib: of(|limit| limit.sender_cpu_s_per_gib),
        },
        ratio_throughput: rounded(ratio),
        runs: args.runs,
        wanted_gbit_per_second: load.gbit_least,
        wanted_calls_per_second: load.calls_least,
        wanted_cpu_s_per_gib: load.cpu_s_per_gib_most,
        reached: load.gbit_least.is_none_or(|least| linerate.gbit_per_second >= least)
            && load.calls_least.is_none_or(|least| linerate.calls_per_second >= least)
            && load.cpu_s_per_gib_most.is_none_or(|most| linerate.server_cpu_s_per_gib <= most),
    })
}

pub(super) fn call(binary: &Path, load: &Load, connections: u32, args: &Args) -> anyhow::Result<Run> {
    let lanes = load.lanes.to_string();
    let server = Serving::start(binary, &["--lanes", &lanes], load.lanes)?;
    let (address, seconds) = (server.address.to_string(), args.seconds.to_string());
    let mut client = pinned(load.lanes, CLIENT_CPU, binary);
    client.args(["bench", "rx", &address, "--json", "--seconds", &seconds]);
    client.args(["--clients", &connections.to_string()]);
    client.args(["--threads", &lanes]).args(load.flags);
    let before = server.cpu()?;
    let report: Report = json(client)?;
    let cpu_s = server.cpu()? - before;
    ensure!(report.errors.is_empty(), "calls failed: {:?}", report.errors);
    Ok(Run {
        gbit_per_second: report.bits_per_second / 1e9,
        calls_per_second: report.calls_per_second,
        server_cpu_s_per_gib: cpu_s / gib(report.bytes_sent + report.bytes_received),
        server_cpu_us_per_call: cpu_s * 1e6 / report.calls.max(1) as f64,
    })
}

pub(super) fn blast(binary: &Path, load: &Load, args: &Args) -> anyhow::Result<Limit> {
    let server = Serving::start(binary, &["--blast"], 1)?;
    let (address, seconds) = (server.address.to_string(), args.seconds.to_string());
    let mut client = pinned(1, CLIENT_CPU, binary);
    client.args(["bench", "udp", &address, "--json", "--seconds", &seconds]).args(load.blast_flags);
    let before = server.cpu()?;
    let report: Blast = json(client)?;
    let cpu_s = server.cpu()? - before;
    Ok(Limit {
        gbit_per_second: report.bits_per_second / 1e9,
        sender_cpu_s_per_gib: cpu_s / gib(report.bytes),
    })
}

/// A server process, stopped when dropped.
struct Serving {
    process: Killed,
    address: SocketAddr,
}

impl Serving {
    fn start(binary: &Path, flags: &[&str], lanes: u32) -> anyhow::Result<Self> {
        let mut command = pinned(lanes, SERVER_CPU, binary);
        command.args(["bench", "rx-server", "--listen", "127.0.0.1:0"]).args(flags);
        let mut process =
            Killed(command.stdout(Stdio::piped()).spawn().context("cannot start the Rx server")?);
        let mut line = String::new();
        let output = process.0.stdout.take().context("its output is piped")?;
        BufReader::new(output).read_line(&mut line)?;
        // The greeting ends with the address: "… try: linerate bench rx 127.0.0.1:40001".
        let address = line.split_whitespace().last().and_then(|word| word.parse().ok());
        let address = address.with_context(|| format!("the Rx server did not start: {line:?}"))?;
        Ok(Self { process, address })
    }

    fn cpu(&self) -> anyhow::Result<f64> {
        cpu::of_tree(self.process.0.id())
    }
}

/// Makes the command of one side: one lane gets a CPU of its own, more share all CPUs with the other side.
fn pinned(lanes: u32, cpu: usize, binary: &Path) -> Command {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if lanes > 1 || cpus <= cpu {
        return Command::new(binary);
    }
    let mut command = Command::new("taskset");
    command.arg("--cpu-list").arg(cpu.to_string()).arg(binary);
    command
}

fn json<T: serde::de::DeserializeOwned>(mut command: Command) -> anyhow::Result<T> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot start the load")?;
    ensure!(output.status.success(), "the load failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

pub(super) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// Connections of each load, where nothing else is said.
const CONNECTIONS: u32 = 100;
const SERVER_CPU: usize = 0;
const CLIENT_CPU: usize = 1;

pub(super) const LOADS: &[Load] = &[
    Load {
        name: "receive 1 MiB, one lane",
        lanes: 1,
        flags: &["--mode", "recv"],
        blast_flags: &[],
        gbit_least: Some(10.0),
        calls_least: None,
        cpu_s_per_gib_most: Some(0.5),
    },
    Load {
        name: "receive 1 MiB, two lanes",
        lanes: 2,
        flags: &["--mode", "recv"],
        blast_flags: &[],
        gbit_least: Some(10.0),
        calls_least: None,
        cpu_s_per_gib_most: Some(0.55),
    },
    Load {
        name: "rpc of 32 bytes each way",
        lanes: 1,
        flags: &["--mode", "rpc", "--send-bytes", "32", "--recv-bytes", "32"],
        blast_flags: &[],
        gbit_least: None,
        calls_least: Some(150_000.0),
        cpu_s_per_gib_most: None,
    },
    Load {
        name: "receive 1 MiB without GRO",
        lanes: 1,
        flags: &["--mode", "recv", "--no-gro"],
        blast_flags: &["--no-gro"],
        gbit_least: None,
        calls_least: None,
        cpu_s_per_gib_most: Some(1.0),
    },
];
