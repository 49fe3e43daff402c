//! Rx for the clients that exist: Linerate's rxperf service and a stock server, in turns, each with the same stock client,
//! over a pair of virtual NICs with a CPU for each side. The stock peers are `testkit::stock_rx`. Every row ends in one
//! JSON line; a table of all rows for people goes to standard error.

pub(super) mod link;
mod load;
mod row;
pub(super) mod run;

use std::path::PathBuf;

use anyhow::{Context, ensure};

use self::link::Link;
use self::load::Row;
use self::row::Line;
use self::run::{Run, Subject};
use super::programs::Programs;
use super::rx::Args;
use crate::{packages, process};

/// Measures every row that the arguments ask for.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    packages::install(packages::STOCK_RX)?;
    let linerate = match &args.binary {
        Some(binary) => binary.clone(),
        None => process::dist_binary()?,
    };
    let stock = build_peer()?;
    let programs =
        Programs { linerate: &linerate, stock: &stock, ahead: args.ahead, flags: &args.server_flag };
    let rows: Vec<Row> = load::all().filter(|row| args.wants_row(&row.name())).collect();
    ensure!(!rows.is_empty(), "no row has that in its name; the first is {:?}", load::all().next());
    let mut lines = Vec::new();
    for row in rows {
        let line = measure(&row, &programs, args)?;
        println!("{}", serde_json::to_string(&line)?);
        lines.push(line);
    }
    eprintln!("{}", row::table(&lines));
    Ok(())
}

fn build_peer() -> anyhow::Result<PathBuf> {
    let dir = process::target().join("tmp");
    std::fs::create_dir_all(&dir)?;
    testkit::stock_rx::build(&dir).context("the Debian package libopenafs-dev is not installed")
}

fn measure(row: &Row, programs: &Programs<'_>, args: &Args) -> anyhow::Result<Line> {
    let link = Link::new(row.mtu)?;
    let (mut ours, mut stock) = (Vec::new(), Vec::new());
    for number in 1..=args.runs {
        for (subject, runs) in [(Subject::Stock, &mut stock), (Subject::Linerate, &mut ours)] {
            let run = run::run(subject, row, &link, programs, args.seconds)?;
            eprintln!("{} {number}/{}: {subject:?} {run}", row.name(), args.runs);
            runs.push(run);
        }
    }
    Ok(Line::new(row, Run::median_of(&ours), Run::median_of(&stock), &ours, &stock))
}
