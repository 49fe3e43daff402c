//! `cargo xtask counts`: instruction counts of the hot paths, held against the committed baseline.
//!
//! Wall time on a shared machine says little; valgrind counts the same instructions every time. The
//! benchmarks are those of the crate `counts`, a file for each crate that they measure.

mod baseline;
mod measure;

use anyhow::bail;

use crate::{packages, process};
use baseline::{Baseline, Tools};

/// Flags of `cargo xtask counts`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Make today's counts the baseline
    #[arg(long)]
    save: bool,
    /// Do not install valgrind and gungraun-runner
    #[arg(long)]
    offline: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.offline {
        install()?;
    }
    let now = Baseline { tools: Tools::of_this_machine()?, counts: measure::counts()? };
    let path = process::root().join(BASELINE);
    let before = Baseline::read(&path)?;
    let changes = before.compare(&now);
    println!("{:<72} {:>12} {:>12} {:>8}", "benchmark", "instructions", "baseline", "change");
    for change in &changes {
        println!("{change}");
    }
    if args.save {
        now.write(&path)?;
        println!("\nsaved to {BASELINE}: say in the commit message why counts that grew had to");
        return Ok(());
    }
    let grown: Vec<&str> =
        changes.iter().filter(|change| change.is_regression()).map(|change| change.name.as_str()).collect();
    let unknown = changes.iter().filter(|change| change.is_unknown()).count();
    if unknown > 0 {
        println!("\n{unknown} on one side only: `cargo xtask counts --save` brings {BASELINE} up to date");
    }
    if grown.is_empty() {
        return Ok(());
    }
    if before.tools != now.tools {
        // Another compiler makes other code of the same source: its counts judge no change.
        println!(
            "\nNOT JUDGED: the baseline was counted with {}, these with {}. Count the commit before your \
             change with the same tools (`cargo xtask counts --save`), then your change.",
            before.tools, now.tools
        );
        return Ok(());
    }
    bail!(
        "more than {GROWTH_MAX_PERCENT} % more instructions than {BASELINE} in:\n  {}\n\
         If the growth buys something, accept it with `cargo xtask counts --save` and commit the file with \
         the reason.",
        grown.join("\n  ")
    )
}

/// Installs valgrind and gungraun's runner.
pub(crate) fn install() -> anyhow::Result<()> {
    packages::install(packages::COUNTS)?;
    measure::install_runner()
}

/// Compares the counts with the baseline, by the tools that [`install`] has installed.
pub(crate) fn run_for_ci() -> anyhow::Result<()> {
    run(&Args { save: false, offline: true })
}

const BASELINE: &str = "tools/xtask/counts.toml";
const GROWTH_MAX_PERCENT: f64 = 2.0;
