//! `linerate bench`: load generators with a progress bar, a table for people and JSON for scripts.

use std::process::ExitCode;

use clap::Subcommand;

mod http;

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
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Http(args) => http::run(args),
    }
}
