//! `cargo xtask test`: one command from a fresh clone to every test run, and a list of what was skipped.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;

use crate::skipped::Skipped;
use crate::{interop, lab, packages, process, torture};

/// Flags of `cargo xtask test`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Do not install Debian packages, nor other programs that tests use
    #[arg(long)]
    offline: bool,
    /// Give simulated histories no limit of time, and a thousand seeds each: hours
    #[arg(long)]
    full: bool,
    /// Passed on to `cargo nextest run`; torture and the kernel lab's scenarios are left out then
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.offline {
        install()?;
    }
    run_tests(&args.rest, args.full)?;
    if args.rest.is_empty() {
        torture()?;
        lab(!args.offline)?;
    }
    Ok(())
}

/// Installs what tests use: Debian packages, clients of other authors, the runner of tests.
pub(crate) fn install() -> anyhow::Result<()> {
    packages::install(packages::TESTS)?;
    packages::install(packages::LAB)?;
    interop::install()?;
    match process::is_program("cargo-nextest") {
        true => Ok(()),
        false => process::run("cargo", &["install", "--locked", "--debug", "cargo-nextest"]),
    }
}

/// Compiles all that the tests run.
pub(crate) fn build() -> anyhow::Result<()> {
    process::run("cargo", &["nextest", "run", "--workspace", "--no-run"])
}

/// Runs the tests of all crates.
pub(crate) fn run_all() -> anyhow::Result<()> {
    run_tests(&[], false)
}

fn run_tests(rest: &[String], full: bool) -> anyhow::Result<()> {
    let list = Skipped::new(process::target().join("skipped"))?;
    let seeds = Seeds::new(process::target().join("seeds"), full)?;
    let outcome = nextest(rest, &list, &seeds);
    // What was skipped is told of a failed run too.
    let told = list.tell([]);
    seeds.tell()?;
    outcome?;
    told
}

/// Lives of a process that changes a tree, each ended by force.
pub(crate) fn torture() -> anyhow::Result<()> {
    tell_skipped(torture::run_for_tests()?)
}

/// The kernel lab's scenarios that every change must pass.
pub(crate) fn lab(install: bool) -> anyhow::Result<()> {
    let skipped = lab::run_for_tests(install)?;
    tell_skipped(skipped.map(|reason| format!("the kernel lab's scenarios: {reason}")))
}

fn tell_skipped(skipped: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
    Skipped::new(process::target().join("skipped"))?.tell(skipped)
}

fn nextest(rest: &[String], skipped: &Skipped, seeds: &Seeds) -> anyhow::Result<()> {
    // Most tests wait for much of their time: for timers, for peers, for the disk.
    let threads = (TESTS_PER_CPU * std::thread::available_parallelism()?.get()).to_string();
    let mut args = vec!["nextest", "run", "--workspace"];
    if !rest.iter().any(|flag| flag.starts_with("--test-threads") || flag.starts_with("-j")) {
        args.extend(["--test-threads", &threads]);
    }
    args.extend(rest.iter().map(String::as_str));
    let mut variables = seeds.variables()?;
    variables.push((testkit::LIST_VARIABLE, text(skipped.path())?.to_owned()));
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    process::run_with("cargo", &args, &variables)
}

/// Tests that run at once for each CPU.
const TESTS_PER_CPU: usize = 2;

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the build directory's path is not UTF-8")
}

/// Seeds of simulated histories, and their number.
struct Seeds {
    tally: PathBuf,
    full: bool,
    /// Days since 1970: half of the seeds are of this day alone.
    day: u64,
}

impl Seeds {
    fn new(tally: PathBuf, full: bool) -> anyhow::Result<Self> {
        std::fs::write(&tally, "").with_context(|| tally.display().to_string())?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
        let day = match std::env::var("LANE_SIM_DAY") {
            Ok(day) => day.parse().context("LANE_SIM_DAY is no number of a day")?,
            Err(_) => since.as_secs() / 86_400,
        };
        Ok(Self { tally, full, day })
    }

    fn variables(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let tally = ("LANE_SIM_TALLY", text(&self.tally)?.to_owned());
        Ok(match self.full {
            true => vec![tally, ("LANE_SIM_SEEDS", "1000".to_owned())],
            false => vec![
                tally,
                ("LANE_SIM_DAY", self.day.to_string()),
                ("LANE_SIM_SECONDS", SECONDS_OF_SEEDS_MAX.to_string()),
            ],
        })
    }

    /// Tells how many histories were run, and what repeats the day.
    fn tell(&self) -> anyhow::Result<()> {
        let (mut histories, mut ran, mut wanted) = (0, 0, 0);
        for line in std::fs::read_to_string(&self.tally)?.lines() {
            let (of, all) = line.split_once(' ').context("a tally has two numbers a line")?;
            histories += 1;
            ran += of.parse::<u64>()?;
            wanted += all.parse::<u64>()?;
        }
        eprintln!(
            "\nSeeds: {ran} of {wanted} in {histories} simulated histories; LANE_SIM_DAY={} repeats them.",
            self.day
        );
        Ok(())
    }
}

/// Time that one test may spend on its seeds; the first tenth of them is run however long it takes.
const SECONDS_OF_SEEDS_MAX: u64 = 8;

/// Prints the tests that took longest in the last run, as nextest reports it.
pub(crate) fn print_slowest(shown: usize) {
    let report = process::target().join("nextest/default/junit.xml");
    let Ok(text) = std::fs::read_to_string(report) else { return };
    let mut tests = test_times(&text);
    tests.sort_by(|a, b| b.0.total_cmp(&a.0));
    eprintln!(
        "\n{} tests, {:.0} s one after the other; the slowest:",
        tests.len(),
        tests.iter().map(|test| test.0).sum::<f64>()
    );
    tests.iter().take(shown).for_each(|(seconds, name)| eprintln!("{seconds:>8.1} s  {name}"));
}

/// Seconds and name of each test of a JUnit report.
fn test_times(junit: &str) -> Vec<(f64, String)> {
    let of = |element: &str, name: &str| {
        let (_, rest) = element.split_once(&format!(" {name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    junit
        .split("<testcase")
        .skip(1)
        .filter_map(|element| {
            let element = element.split_once('>')?.0;
            let name = format!("{} {}", of(element, "classname")?, of(element, "name")?);
            Some((of(element, "time")?.parse().ok()?, name))
        })
        .collect()
}

#[cfg(test)]
mod tests_of_reports {
    use super::*;

    #[test]
    fn times_of_tests_are_read_from_a_report() {
        let report = r#"<testsuite name="a" tests="2"><testcase name="x::y" classname="a" timestamp="t" time="1.5"/>
            <testcase name="z" classname="a::all" timestamp="t" time="0.250"><failure type="t">time="9"</failure></testcase>"#;
        assert_eq!(test_times(report), [(1.5, "a x::y".to_owned()), (0.25, "a::all z".to_owned())]);
    }
}
