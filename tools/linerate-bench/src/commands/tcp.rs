//! `linerate bench tcp HOST:PORT` and `linerate bench tcp-server`: files over bare TCP, as a limit to compare with.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use bench::tcp::Bare;

use cli::output::{bit_rate, say};

/// Flags of `linerate bench tcp`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A `linerate bench tcp-server`
    server: SocketAddr,
    /// Send this file, over and over; without it, receive
    #[arg(long, value_name = "FILE")]
    send: Option<PathBuf>,
    /// How long, in seconds
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Process whose CPU time the report tells: that of the server, if it runs here
    #[arg(long)]
    pid: Option<u32>,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

/// Flags of `linerate bench tcp-server`.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// Address and port to serve
    #[arg(short, long, default_value_t = SocketAddr::from(([127, 0, 0, 1], 0)))]
    listen: SocketAddr,
    /// Send this file to whoever connects, over and over
    #[arg(long, value_name = "FILE", required_unless_present = "into", conflicts_with = "into")]
    send: Option<PathBuf>,
    /// Write what comes into this file
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Bytes of that file, before it is written from its start again
    #[arg(long, default_value = "64M", value_parser = cli::size)]
    file_size: u32,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let duration = Duration::from_secs(args.seconds.into());
    let report = match &args.send {
        Some(file) => bench::tcp::send(args.server, file, duration, args.pid),
        None => bench::tcp::receive(args.server, duration, args.pid),
    };
    let report = report.with_context(|| format!("cannot measure {}", args.server))?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        say!("{}", bit_rate(report.bits_per_second));
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves until the process is stopped.
pub(crate) fn serve(args: &ServerArgs) -> anyhow::Result<ExitCode> {
    let what = match (&args.send, &args.into) {
        (Some(file), _) => Bare::Send(file.clone()),
        (None, Some(file)) => Bare::Receive(file.clone(), u64::from(args.file_size).max(1)),
        (None, None) => anyhow::bail!("say which file to send, or to write into"),
    };
    let listener =
        TcpListener::bind(args.listen).with_context(|| format!("cannot listen at {}", args.listen))?;
    say!("bare TCP at {}", listener.local_addr()?);
    bench::tcp::serve(&listener, &what)?;
    Ok(ExitCode::SUCCESS)
}
