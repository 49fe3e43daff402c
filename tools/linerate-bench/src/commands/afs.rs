//! `linerate bench afs ADDRESS`: the load of many clients on one AFS file server.

use std::process::ExitCode;
use std::time::Duration;

use afs_client::{Address, OobOptions};
use anyhow::Context;
use bench::afs::{Clients, Options, Report, Work};
use clap::ValueEnum;
use rx_lane::DriverConfig;

use super::watch::watched;
use cli::cell::{Where, new_uuid};
use cli::output::{self, bit_rate, rate, say};

/// Flags of `linerate bench afs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file to fetch or ask for, or a directory to store or make names in, such as afs://10.0.0.1/files/file
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// What every client does
    #[arg(short, long, value_enum, default_value_t = Mode::Fetch)]
    mode: Mode,
    /// Bytes that a call fetches or stores
    #[arg(long, default_value = "1M", value_parser = cli::size)]
    chunk: u32,
    /// Bytes that a client stores in its file before it begins at the start again
    #[arg(long, default_value = "64M", value_parser = cli::size)]
    file_size: u32,
    /// Clients in all, each with a socket, an identity and a callback service of its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: u32,
    /// Connections of each client
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,
    /// Calls at once of each client, at most 4 on each of its connections
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    calls: u32,
    /// Threads: lanes to run the clients on; without it, one for each core
    #[arg(short, long, visible_alias = "lanes")]
    threads: Option<u32>,
    /// How long, in seconds, from when all clients are known to the server
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Compare all bytes with what they were at first, or with what was stored
    #[arg(long)]
    verify: bool,
    //@ limit: packet buffers of `bench afs`
    //@ section: Clients of AFS
    //@ unit: buffer
    //@ all: process: `--packets` (2,048) of a client, 16 of them with memory while they are not used
    //@ empty: as the packet buffers of Rx
    //@ counter: none
    //@ attack: none, a client's own limit, against servers
    //@ reach: server
    /// Packet buffers of each client
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(256..=65_536))]
    packets: u32,
    /// Process whose CPU time the report tells: that of the server, if it runs here
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    place: Where,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Fetch one file, a chunk a call
    Fetch,
    /// Store a file of its own, a chunk a call
    Store,
    /// Ask for one file's status
    Stat,
    /// Of ten calls seven ask for the status of a file of its own, two fetch it and one stores
    Mixed,
    /// Make a file in one directory and remove it again
    Names,
}

impl From<Mode> for Work {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Fetch => Self::Fetch,
            Mode::Store => Self::Store,
            Mode::Stat => Self::Stat,
            Mode::Mixed => Self::Mixed,
            Mode::Names => Self::Names,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let clients = clients(&args.place, &args.address, args.clients, args.packets, args.pid)?;
    let options = Options {
        clients: Clients { connections: args.connections as usize, ..clients },
        work: args.mode.into(),
        calls: args.calls as usize,
        chunk: u64::from(args.chunk).max(1),
        file_size: args.file_size.into(),
        duration: Duration::from_secs(args.seconds.into()),
        verify: args.verify,
    };
    measure(&args.address, &options, args.threads, args.json)
}

/// Makes so many clients of the cell of an address, with one connection and so many packet buffers each, all
/// of whose bytes go by Rx.
pub(super) fn clients(
    place: &Where,
    address: &Address,
    count: u32,
    packets: u32,
    pid: Option<u32>,
) -> anyhow::Result<Clients> {
    let mut driver = DriverConfig::default();
    driver.endpoint.packets = packets as usize;
    driver.endpoint.packets_kept = Some(PACKETS_KEPT);
    // A call that holds half of its client's packets leaves room for another's answers.
    let window = packets / 2;
    driver.endpoint.receive_window = driver.endpoint.receive_window.min(window);
    driver.endpoint.send_window = driver.endpoint.send_window.min(window);
    Ok(Clients {
        cell: place.options(address)?,
        volume: address.volume.clone(),
        path: address.path.clone(),
        count: count as usize,
        connections: 1,
        patience: place.patience(),
        oob: OobOptions { threshold: None, ..OobOptions::default() },
        driver,
        uuid: new_uuid(),
        pid,
    })
}

/// Runs a load and tells what came of it.
pub(super) fn measure(
    address: &Address,
    options: &Options,
    threads: Option<u32>,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let layout = super::layout(threads)?;
    let report = watched(options.duration, |progress| bench::afs::run(options, &layout, progress));
    let report = report.with_context(|| format!("cannot measure {address}"))?;
    if json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        print(address, &report);
    }
    Ok(if report.errors.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(address: &Address, report: &Report) {
    say!("{address}");
    let mut table = output::table(["", ""], &[1]);
    table.add_row(["calls".to_owned(), report.calls.to_string()]);
    table.add_row(["calls/s".to_owned(), rate(report.calls_per_second)]);
    table.add_row(["throughput".to_owned(), bit_rate(report.bits_per_second)]);
    table.add_row(["sent".to_owned(), output::bytes(report.bytes_sent)]);
    table.add_row(["received".to_owned(), output::bytes(report.bytes_received)]);
    if report.over_tcp > 0 || report.fell_back > 0 {
        table.add_row(["over TCP".to_owned(), report.over_tcp.to_string()]);
        table.add_row(["TCP connections".to_owned(), report.tcp_connections.to_string()]);
        table.add_row(["over Rx instead".to_owned(), report.fell_back.to_string()]);
    }
    table.add_row(["resends".to_owned(), report.resends.to_string()]);
    table.add_row(["files told changed".to_owned(), report.files_broken.to_string()]);
    if report.verified > 0 {
        table.add_row(["verified".to_owned(), report.verified.to_string()]);
    }
    super::add_cpu(&mut table, report.server_cpu_seconds, report.client_cpu_seconds);
    super::add_latencies(&mut table, &report.latency);
    say!("{table}");
    super::tell_errors(&report.errors);
}

/// Packet buffers whose memory a client keeps between its calls; the rest is its lane's.
const PACKETS_KEPT: usize = 16;
