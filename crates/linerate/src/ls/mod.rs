//! `linerate ls afs://HOST/VOLUME/PATH` and `linerate ls smb://HOST/SHARE/PATH`.

use std::process::ExitCode;

use service::civil::Civil;

use crate::remote::Remote;
use crate::{afs, smb};

mod cell;
mod share;

/// Flags of `linerate ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to show, such as afs://10.0.0.1/root.cell or smb://alice@10.0.0.1/files
    #[arg(value_name = "ADDRESS")]
    address: Remote,
    /// One JSON object a name
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "AFS")]
    reach: afs::Reach,
    #[command(flatten, next_help_heading = "SMB")]
    share: smb::Reach,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.address {
        Remote::Afs(address) => cell::run(args, address),
        Remote::Smb(address) => share::run(args, address),
    }
}

/// UTC, to the second.
fn time(seconds: i64) -> String {
    let Civil { year, month, day, hour, minute, second, .. } = Civil::from_unix(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}
