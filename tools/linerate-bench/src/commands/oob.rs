//! `linerate bench oob ADDRESS`: large pieces of files over TCP beside their calls.

use std::process::ExitCode;
use std::time::Duration;

use afs_client::{Address, OobOptions};
use bench::afs::{Clients, Options, Work};
use clap::ValueEnum;

use cli::cell::Where;

/// Flags of `linerate bench oob`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file to fetch, or a directory to store in, such as afs://10.0.0.1/files/file
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// What every client does
    #[arg(short, long, value_enum, default_value_t = Mode::Fetch)]
    mode: Mode,
    /// Bytes that a call fetches or stores; `get` and `put` take pieces of 32M
    #[arg(long, default_value = "32M", value_parser = cli::size)]
    chunk: u32,
    /// Bytes that a client stores in its file before it begins at the start again
    #[arg(long, default_value = "64M", value_parser = cli::size)]
    file_size: u32,
    /// Bytes from which on a piece goes over TCP; 0 for never
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = cli::size)]
    oob_threshold: u32,
    /// TCP connections that share a piece, one for each MiB at most
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    streams: u32,
    /// Clients in all, each with sockets, an identity and a callback service of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: u32,
    /// Calls at once of each client
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4))]
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
    /// Store a file of its own, a chunk a call, out of a local file
    Store,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let threshold = (args.oob_threshold > 0).then_some(args.oob_threshold.into());
    let oob = OobOptions { threshold, streams: args.streams as usize, ..OobOptions::default() };
    let clients = super::afs::clients(&args.place, &args.address, args.clients, PACKETS, args.pid)?;
    let options = Options {
        clients: Clients { oob, ..clients },
        work: match args.mode {
            Mode::Fetch => Work::Fetch,
            Mode::Store => Work::Store,
        },
        calls: args.calls as usize,
        chunk: u64::from(args.chunk).max(1),
        file_size: args.file_size.into(),
        duration: Duration::from_secs(args.seconds.into()),
        verify: args.verify,
    };
    super::afs::measure(&args.address, &options, args.threads, args.json)
}

/// Packet buffers of each client: what is shorter than the threshold, and what falls back, goes by them.
const PACKETS: u32 = 1024;
