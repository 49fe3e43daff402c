//! `linerate bench`: load generators with a progress bar, a table for people and JSON for scripts.

use std::process::ExitCode;

use clap::Subcommand;

mod http;
pub(crate) mod rx;
mod watch;

/// Flags of `linerate bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Ask an HTTP or HTTPS server for one URL, as fast as it answers
    Http(http::Args),
    /// Call an rxperf service over Rx, as fast as it answers
    Rx(rx::Args),
    /// Serve rxperf's calls, for `linerate bench rx` and the stock tool
    RxServer(rx::ServerArgs),
    /// Receive bare UDP from `linerate bench rx-server --blast`: the limit of this machine
    Udp(rx::UdpArgs),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Http(args) => http::run(args),
        What::Rx(args) => rx::run(args),
        What::RxServer(args) => rx::serve(args),
        What::Udp(args) => rx::udp(args),
    }
}
