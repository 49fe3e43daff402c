//! Files over out-of-band TCP: one client beside bare servers that only send a file or write what they receive, each side on a CPU of its
//! own, and a hundred clients beside nginx, where all share all CPUs. Everything is in memory, in a network namespace of its own. Every
//! row ends in one JSON line.

mod line;
mod row;
mod site;

use std::path::PathBuf;

use anyhow::ensure;
use testkit::netns::Namespace;

use self::line::Line;
use self::row::{ROWS, Row};
use self::site::Site;
use super::programs::Programs;
use super::stock::link::on_own_thread;
use crate::{packages, process};

/// Flags of `cargo xtask compare oob`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each run
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Runs of each side and row
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Only rows whose name contains this
    #[arg(long)]
    load: Option<String>,
    /// A release binary of linerate to measure, instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Servers and clients that have CPUs of their own run before everything else there, for a machine that has other work too
    #[arg(long)]
    ahead: bool,
}

/// Measures every row that the arguments ask for.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.runs > 0 && args.seconds > 0, "give at least one run of one second");
    packages::install(packages::COMPARE)?;
    let linerate = match &args.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => process::dist_binary()?,
    };
    let programs = |row: &Row| {
        // A process that shares its CPU with nginx runs as that does.
        Programs { linerate: &linerate, stock: &linerate, ahead: args.ahead && row.is_apart(), flags: &[] }
    };
    let rows: Vec<&Row> =
        ROWS.iter().filter(|row| args.load.as_ref().is_none_or(|part| row.name.contains(part))).collect();
    ensure!(!rows.is_empty(), "no row has that in its name; one is {:?}", ROWS[0].name);
    on_own_thread(|| {
        // It goes with this thread's work, and all that was started in it.
        let _namespace = Namespace::new()?;
        for row in rows {
            let programs = programs(row);
            let site = Site::new(row, &programs)?;
            let line = measure(row, &site, args)?;
            println!("{}", serde_json::to_string(&line)?);
        }
        Ok(())
    })
}

fn measure(row: &Row, site: &Site<'_>, args: &Args) -> anyhow::Result<Line> {
    // Warm-up: page cache, connection tables, the frequency governor.
    site.peer(1)?;
    site.ours(1)?;
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    for number in 1..=args.runs {
        let (theirs, own) = (site.peer(args.seconds)?, site.ours(args.seconds)?);
        eprintln!("{} {number}/{}: Linerate {own}, {} {theirs}", row.name, args.runs, row.peer.name());
        peer.push(theirs);
        ours.push(own);
    }
    Ok(Line::new(row, &ours, &peer))
}
