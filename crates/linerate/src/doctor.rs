//! `linerate doctor`: what kernel, limits and NICs give, and what to change.

use std::process::ExitCode;

/// Flags of `linerate doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// JSON for scripts
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(_args: &Args) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
