//! `linerate bench`: load generators with a progress bar, a table for people and JSON for scripts.

use std::collections::BTreeMap;
use std::process::ExitCode;

use bench::latency::Percentiles;
use clap::Subcommand;
use cli::output::say;
use comfy_table::Table;
use lane::layout::{LaneCount, Layout, Wishes};
use lane::topology::Topology;

mod afs;
mod callbacks;
mod http;
mod oob;
mod rx;
mod smb;
mod tcp;
mod watch;

/// A load, and the server that it measures.
#[derive(Debug, Subcommand)]
pub(crate) enum Load {
    /// Ask an HTTP or HTTPS server for one URL, as fast as it answers
    Http(http::Args),
    /// Be many clients of an AFS cell at once, each with a socket and callbacks of its own
    Afs(afs::Args),
    /// Have many AFS clients rely on the files of a directory, rename it, and see when all have heard
    Callbacks(callbacks::Args),
    /// Move the bytes of files over TCP beside their calls, as large files go
    Oob(oob::Args),
    /// Be many SMB clients at once: read, write, open and close, signed or encrypted
    Smb(smb::Args),
    /// Call an rxperf service over Rx, as fast as it answers
    Rx(rx::Args),
    /// Serve rxperf's calls, for `linerate bench rx` and the stock tool
    RxServer(rx::ServerArgs),
    /// Receive bare UDP from `linerate bench rx-server --blast`: the limit of this machine
    Udp(rx::UdpArgs),
    /// Move bytes to or from `linerate bench tcp-server`: the limit of files over one TCP connection on this machine
    Tcp(tcp::Args),
    /// Send a file, or write what comes into one, by a thread for each TCP connection and nothing else
    TcpServer(tcp::ServerArgs),
}

pub(crate) fn run(load: &Load) -> anyhow::Result<ExitCode> {
    match load {
        Load::Http(args) => http::run(args),
        Load::Afs(args) => afs::run(args),
        Load::Callbacks(args) => callbacks::run(args),
        Load::Smb(args) => smb::run(args),
        Load::Rx(args) => rx::run(args),
        Load::RxServer(args) => rx::serve(args),
        Load::Udp(args) => rx::udp(args),
        Load::Oob(args) => oob::run(args),
        Load::Tcp(args) => tcp::run(args),
        Load::TcpServer(args) => tcp::serve(args),
    }
}

/// Lanes for a load generator: it may share the server's machine, so no NUMA node is left out.
fn layout(lanes: Option<u32>) -> anyhow::Result<Layout> {
    let topology = Topology::of_this_machine()?;
    let lanes = lanes.map_or(LaneCount::All, |lanes| LaneCount::Total(lanes as usize));
    Ok(Layout::new(&topology, &Wishes { lanes, ..Wishes::default() })?)
}

/// Adds what the server's process and this one used, as far as it is known.
fn add_cpu(table: &mut Table, server: Option<f64>, client: Option<f64>) {
    for (whose, seconds) in [("server CPU", server), ("client CPU", client)] {
        if let Some(seconds) = seconds {
            table.add_row([whose.to_owned(), format!("{seconds:.2} s")]);
        }
    }
}

/// Prints one line for each reason why something failed.
fn tell_errors(errors: &BTreeMap<String, u64>) {
    for (reason, count) in errors {
        say!(" {count} failed: {reason}");
    }
}

/// Prints one row for each percentile.
fn add_latencies(table: &mut Table, latency: &Percentiles) {
    for (name, us) in [
        ("latency min", latency.min_us),
        ("latency 50 %", latency.p50_us),
        ("latency 90 %", latency.p90_us),
        ("latency 99 %", latency.p99_us),
        ("latency 99.9 %", latency.p999_us),
        ("latency max", latency.max_us),
    ] {
        table.add_row([name.to_owned(), duration(us)]);
    }
}

fn duration(us: u64) -> String {
    match us {
        us if us < 1000 => format!("{us} us"),
        us if us < 1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        us => format!("{:.2} s", us as f64 / 1e6),
    }
}
