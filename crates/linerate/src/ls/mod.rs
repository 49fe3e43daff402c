//! `linerate ls afs://HOST/VOLUME/PATH`, `linerate ls afs://HOST/` and `linerate ls smb://HOST/SHARE/PATH`.

use std::process::ExitCode;
use std::str::FromStr;

use service::datetime::DateTime;

use crate::remote::{self, Remote};
use crate::{afs, smb};

mod cell;
mod share;
mod volumes;

/// Flags of `linerate ls`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to show: afs://10.0.0.1/pub, afs://10.0.0.1/ for its volumes, smb://10.0.0.1/files
    #[arg(value_name = "ADDRESS", value_parser = remote::of_bytes::<Shown>())]
    address: Shown,
    /// One JSON object a name
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "AFS")]
    reach: afs::Reach,
    #[command(flatten, next_help_heading = "SMB")]
    share: smb::Reach,
}

/// Object that is listed.
#[derive(Clone, Debug)]
enum Shown {
    /// The volumes of a cell.
    Cell(afs_client::Address),
    /// A directory, or one file.
    Names(Remote),
}

impl FromStr for Shown {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, anyhow::Error> {
        match afs_client::Address::of_cell(text) {
            Some(cell) => Ok(Self::Cell(cell)),
            None => text.parse().map(Self::Names),
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.address {
        Shown::Cell(address) => volumes::run(args, address),
        Shown::Names(Remote::Afs(address)) => cell::run(args, address),
        Shown::Names(Remote::Smb(address)) => share::run(args, address),
    }
}

/// Formats a time in UTC, to the second.
fn time(seconds: i64) -> String {
    let DateTime { year, month, day, hour, minute, second, .. } = DateTime::from_unix(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}
