//! `linerate bench callbacks ADDRESS`: how fast the clients of an AFS file server hear of a change, and what they cost it.

use std::process::ExitCode;

use afs_client::Address;
use anyhow::Context;
use bench::afs::CallbacksReport;

use cli::cell::Where;
use cli::output::{self, say};

/// Flags of `linerate bench callbacks`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A directory with files in it, which is renamed and gets its name back, such as afs://10.0.0.1/files/dir
    #[arg(value_name = "ADDRESS")]
    address: Address,
    /// Clients in all, each with a socket, an identity and a callback service of its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    clients: u32,
    /// Process whose memory the report tells: that of the server, if it runs here
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    place: Where,
    /// The report as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let clients = super::afs::clients(&args.place, &args.address, args.clients, PACKETS, args.pid)?;
    let report =
        bench::afs::callbacks(&clients).with_context(|| format!("cannot measure {}", args.address))?;
    if args.json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        print(&args.address, &report);
    }
    Ok(if report.not_told == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(address: &Address, report: &CallbacksReport) {
    say!("{address}");
    let mut table = output::table(["", ""], &[1]);
    table.add_row(["clients".to_owned(), report.clients.to_string()]);
    table.add_row(["files".to_owned(), report.files.to_string()]);
    table.add_row(["callbacks".to_owned(), report.callbacks.to_string()]);
    table.add_row(["asking for them".to_owned(), format!("{:.2} s", report.asking_seconds)]);
    if let Some(bytes) = report.server_bytes_per_callback {
        table.add_row(["server's memory for one".to_owned(), format!("{bytes:.0} bytes")]);
    }
    table.add_row(["the renaming".to_owned(), format!("{:.3} s", report.rename_seconds)]);
    table.add_row(["all told after".to_owned(), format!("{:.3} s", report.told_seconds)]);
    table.add_row(["not told in 10 s".to_owned(), report.not_told.to_string()]);
    say!("{table}");
}

/// Packet buffers of each client.
const PACKETS: u32 = 1024;
