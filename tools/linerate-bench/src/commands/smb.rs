//! `linerate bench smb ADDRESS`: the load of many clients on one SMB server.

use std::net::IpAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use bench::smb::{Options, Report, Work};
use clap::ValueEnum;
use smb_client::{Address, Sealing, Signing};
use smb_wire::Dialect;

use super::watch::watched;
use cli::output::{self, bit_rate, rate, say};
use cli::password::SignIn;

/// Flags of `linerate bench smb`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file to read or open, or a directory to write in, such as smb://alice@10.0.0.1/files/big
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// What every session does
    #[arg(short, long, value_enum, default_value_t = Mode::Read)]
    mode: Mode,
    /// Bytes of a request
    #[arg(short = 'b', long, default_value = "1M", value_parser = cli::size)]
    size: u32,
    /// Requests under way on each connection
    #[arg(short, long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=512))]
    depth: u32,
    /// Sessions in all, each with a connection of its own
    #[arg(short, long, visible_alias = "sessions", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    connections: u32,
    /// Connections of each session (SMB 3), on one lane after another
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=32))]
    channels: u32,
    /// Kill one channel of each session so often, in milliseconds, and bind it again: what was under way goes again by the others
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=3_600_000))]
    kill_every: Option<u32>,
    /// Addresses of the server, over which the channels of a session are spread; without them all go to the ADDRESS's host
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    interfaces: Vec<IpAddr>,
    /// All sessions are those of one client (one ClientGuid), and sign in at once
    #[arg(long)]
    one_client: bool,
    /// Bytes that are written before it begins at the start again
    #[arg(long, default_value = "64M", value_parser = cli::size)]
    file_size: u32,
    /// How long, in seconds, from when all have signed in
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Lanes to run the clients on; without it, one for each core
    #[arg(short, long)]
    lanes: Option<u32>,
    /// Sign every message
    #[arg(long)]
    sign: bool,
    /// Encrypt every message, by AES-128-GCM where the dialect has it
    #[arg(long)]
    seal: bool,
    /// The newest dialect that is offered
    #[arg(long, value_enum, default_value_t = Newest::Smb311)]
    dialect: Newest,
    /// Compare all bytes with what they were at first, or with what was written
    #[arg(long)]
    verify: bool,
    /// Process whose CPU time the report tells: that of the server, if it runs here
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    sign_in: SignIn,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Read one file from start to end
    Read,
    /// Read one file here and there
    Random,
    /// Write files of its own
    Write,
    /// Open one file and close it
    OpenClose,
    /// Of ten requests seven ask for information of a file of its own, two read it and one writes
    Mixed,
    /// Sign in and do nothing
    Idle,
}

impl From<Mode> for Work {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Read => Self::Read,
            Mode::Random => Self::Random,
            Mode::Write => Self::Write,
            Mode::OpenClose => Self::OpenClose,
            Mode::Mixed => Self::Mixed,
            Mode::Idle => Self::Idle,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Newest {
    #[value(name = "2.0.2")]
    Smb202,
    #[value(name = "2.1")]
    Smb210,
    #[value(name = "3.0")]
    Smb300,
    #[value(name = "3.0.2")]
    Smb302,
    #[value(name = "3.1.1")]
    Smb311,
}

impl From<Newest> for Dialect {
    fn from(newest: Newest) -> Self {
        match newest {
            Newest::Smb202 => Self::Smb202,
            Newest::Smb210 => Self::Smb210,
            Newest::Smb300 => Self::Smb300,
            Newest::Smb302 => Self::Smb302,
            Newest::Smb311 => Self::Smb311,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let address = &args.address;
    if args.kill_every.is_some() {
        ensure!(args.channels > 1, "--kill-every needs others to go on by: give --channels 2 or more");
        ensure!(args.mode != Mode::Idle, "--kill-every needs something under way: give another --mode");
        ensure!(args.dialect >= Newest::Smb300, "--kill-every needs several channels, which SMB 3 has");
    }
    let options = Options {
        server: address.resolve().with_context(|| format!("cannot find {}", address.host))?,
        interfaces: args.interfaces.iter().map(|ip| (*ip, address.port).into()).collect(),
        one_client: args.one_client,
        unc: address.unc(),
        name: address.name(),
        credentials: args.sign_in.credentials(&address.user)?,
        work: args.mode.into(),
        sessions: args.connections as usize,
        channels: args.channels as usize,
        depth: args.depth as usize,
        size: args.size.max(1),
        file_size: args.file_size.into(),
        duration: Duration::from_secs(args.seconds.into()),
        verify: args.verify,
        signing: if args.sign { Signing::Required } else { Signing::IfRequired },
        sealing: if args.seal { Sealing::Required } else { Sealing::IfRequired },
        dialect_max: args.dialect.into(),
        kill_every: args.kill_every.map(|ms| Duration::from_millis(ms.into())),
        pid: args.pid,
    };
    let layout = super::layout(args.lanes)?;
    let report = watched(options.duration, |progress| bench::smb::run(&options, &layout, progress));
    let report = report.with_context(|| format!("cannot measure {address}"))?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        print(address, &report);
    }
    let is_clean = report.errors.is_empty() && report.wrong_signatures == 0;
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(address: &Address, report: &Report) {
    say!("{address}");
    let mut table = output::table(["", ""], &[1]);
    table.add_row(["sessions".to_owned(), report.sessions.to_string()]);
    table.add_row(["signed in after".to_owned(), format!("{:.2} s", report.startup_seconds)]);
    table.add_row(["slowest sign-in".to_owned(), format!("{:.3} s", report.slowest_sign_in_seconds)]);
    table.add_row(["requests".to_owned(), report.requests.to_string()]);
    table.add_row(["requests/s".to_owned(), rate(report.requests_per_second)]);
    table.add_row(["throughput".to_owned(), bit_rate(report.bits_per_second)]);
    table.add_row(["written".to_owned(), output::bytes(report.bytes_sent)]);
    table.add_row(["read".to_owned(), output::bytes(report.bytes_received)]);
    if report.verified > 0 {
        table.add_row(["verified".to_owned(), report.verified.to_string()]);
    }
    if report.kills > 0 || report.replays > 0 {
        table.add_row(["channels killed".to_owned(), report.kills.to_string()]);
        table.add_row(["replays".to_owned(), report.replays.to_string()]);
    }
    super::add_cpu(&mut table, report.server_cpu_seconds, report.client_cpu_seconds);
    super::add_latencies(&mut table, &report.latency);
    say!("{table}");
    super::tell_errors(&report.errors);
    if report.wrong_signatures > 0 {
        say!(" {} answers had a wrong signature, or none where one must be", report.wrong_signatures);
    }
}
