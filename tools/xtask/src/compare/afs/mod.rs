//! AFS beside OpenAFS's file server: a stock cell and Linerate in turns under the same clients, stock ones or those of
//! `linerate bench afs`, each server over a pair of virtual NICs of its own. With stock clients each side has a CPU for itself, else
//! all share all of them, as on a machine that is both. Every row ends in one JSON line; a table of all rows for people goes to standard error.

mod audit;
mod bare;
mod line;
mod ours;
mod row;
mod run;
mod servers;
mod site;
mod storm;

use std::path::PathBuf;

use anyhow::{Context, ensure};

use self::bare::Bare;
use self::line::Line;
use self::row::Row;
use self::run::Blast;
pub(super) use self::site::Buffers;
use self::site::Site;
use super::programs::Programs;
use crate::{packages, process};

/// Flags of `cargo xtask compare afs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each run
    #[arg(long, default_value_t = 4)]
    seconds: u32,
    /// Runs of each load
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Only rows whose name contains all of several parts between commas
    #[arg(long, visible_alias = "rows")]
    load: Option<String>,
    /// A release binary of linerate to measure, instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Servers and clients run before everything else on their CPUs, for a machine that has other work too
    #[arg(long)]
    ahead: bool,
}

/// Measures every row that the arguments ask for.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.runs > 0 && args.seconds > 0, "give at least one run of one second");
    packages::install(packages::STOCK_AFS)?;
    let linerate = match &args.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => process::dist_binary()?,
    };
    let stock = build_clients()?;
    let programs = Programs { linerate: &linerate, stock: &stock, ahead: args.ahead, flags: &[] };
    let rows: Vec<Row> = row::all().filter(|row| args.wants(&row.name())).collect();
    let mut lines = Vec::new();
    for ground in row::GROUNDS {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.ground == ground).collect();
        if rows.is_empty() {
            continue;
        }
        let site = Site::new(ground, &programs)?;
        for row in rows {
            let line = measure(row, &site, &programs, args)?;
            println!("{}", serde_json::to_string(&line)?);
            lines.push(line);
        }
    }
    if !lines.is_empty() {
        eprintln!("{}", line::table(&lines));
    }
    let mut alone = 0;
    if args.wants(storm::NAME) {
        println!("{}", serde_json::to_string(&storm::measure(&programs)?)?);
        alone += 1;
    }
    for mode in audit::MODES {
        if args.wants(&audit::name(mode)) {
            let line = audit::measure(mode, &programs, args.seconds, args.runs)?;
            println!("{}", serde_json::to_string(&line)?);
            alone += 1;
        }
    }
    ensure!(lines.len() + alone > 0, "no row has that in its name; one is {:?}", storm::NAME);
    Ok(())
}

impl Args {
    fn wants(&self, row: &str) -> bool {
        let parts = self.load.iter().flat_map(|parts| parts.split(','));
        parts.map(str::trim).all(|part| row.contains(part))
    }
}

fn build_clients() -> anyhow::Result<PathBuf> {
    let dir = process::target().join("tmp");
    std::fs::create_dir_all(&dir)?;
    testkit::stock_files::build(&dir).context("the Debian package libopenafs-dev is not installed")
}

fn measure(row: &Row, site: &Site, programs: &Programs<'_>, args: &Args) -> anyhow::Result<Line> {
    let (mut ours, mut peer) = (Vec::new(), Vec::new());
    let (mut blasts, mut reading, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let name = row.name();
    for number in 1..=args.runs {
        for (server, runs) in [(site.stock(), &mut peer), (site.ours(), &mut ours)] {
            let run = run::run(&server, row, site, programs, args.seconds)?;
            eprintln!("{name} {number}/{}: {} {run}", args.runs, server.name);
            runs.push(run);
        }
        if row.bars.blast_cpu_most.is_some() {
            for (what, file, runs) in
                [("", None, &mut blasts), (" that reads the file", Some(site.file()), &mut reading)]
            {
                let blast = run::blast(site, file.as_deref(), programs, args.seconds)?;
                eprintln!("{name} {number}/{}: {blast}{what}", args.runs);
                runs.push(blast);
            }
        }
        if row.is_one_datagram() {
            let kernel = bare::measure(site, row.clients, args.seconds)?;
            eprintln!("{name} {number}/{}: {kernel}", args.runs);
            bare.push(kernel);
        }
    }
    Ok(Line::new(row, &ours, &peer, &blasts).with_floors(Blast::median_of(&reading), Bare::median_of(&bare)))
}
