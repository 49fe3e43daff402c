//! `cargo xtask ci`: what must hold before a change lands, as CI runs it. Each step has a budget of time; one that takes
//! half as much again fails, so that the run as a whole stays within its bar.

use std::time::{Duration, Instant};

use anyhow::bail;

use crate::{counts, hostile, idle, process, smbtorture, tests};

/// Flags of `cargo xtask ci`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Steps to run; without any, all
    steps: Vec<String>,
    /// Print what each step took, and the tests that took longest
    #[arg(long)]
    timings: bool,
    /// Fail no step for the time it takes: for machines that are slower or do other work
    #[arg(long)]
    no_budgets: bool,
}

/// Check that has to hold, and the time that it may take on two CPUs with nothing built and all packages
/// installed.
struct Step {
    name: &'static str,
    budget_seconds: u64,
    run: fn() -> anyhow::Result<()>,
}

/// Steps in the order in which they run: what fails most often and costs least comes first. Steps of one line run at
/// once, as each of them leaves a CPU to others for much of its time.
const STEPS: &[&[Step]] = &[
    &[Step { name: "format", budget_seconds: 10, run: || cargo(&["fmt", "--all", "--check"]) }],
    &[Step { name: "tools", budget_seconds: 600, run: install_tools }],
    &[Step { name: "lints", budget_seconds: 360, run: lints }],
    &[Step {
        name: "licences",
        budget_seconds: 20,
        run: || cargo(&["deny", "check", "licenses", "bans", "sources"]),
    }],
    &[Step { name: "docs", budget_seconds: 150, run: docs }],
    &[Step { name: "build", budget_seconds: 500, run: tests::build }],
    &[Step { name: "tests", budget_seconds: 700, run: tests::run_all }],
    &[
        Step { name: "idle", budget_seconds: 80, run: idle::run_for_ci },
        Step { name: "torture", budget_seconds: 120, run: tests::torture },
    ],
    &[Step { name: "hostile", budget_seconds: 450, run: hostile::run_for_ci }],
    &[
        Step { name: "smbtorture", budget_seconds: 400, run: smbtorture::run_for_ci },
        Step { name: "lab", budget_seconds: 400, run: || tests::lab(true) },
        Step { name: "counts", budget_seconds: 900, run: counts::run_for_ci },
    ],
];

fn all_steps() -> impl Iterator<Item = &'static Step> {
    STEPS.iter().copied().flatten()
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(name) = args.steps.iter().find(|name| !all_steps().any(|step| step.name == **name)) {
        let names: Vec<_> = all_steps().map(|step| step.name).collect();
        bail!("there is no step `{name}`; there are: {}", names.join(", "));
    }
    let is_chosen = |step: &Step| args.steps.is_empty() || args.steps.iter().any(|name| name == step.name);
    let began = Instant::now();
    let mut took = Vec::new();
    for line in STEPS {
        let outcomes = at_once(line.iter().filter(|step| is_chosen(step)).collect());
        let mut failed = None;
        for (step, seconds, outcome) in outcomes {
            eprintln!(
                "ci: {}: {} s of {} s, {} s in all",
                step.name,
                seconds.as_secs(),
                step.budget_seconds,
                began.elapsed().as_secs()
            );
            took.push((step, seconds));
            if let Err(error) = outcome {
                failed = Some(error.context(format!("step `{}`", step.name)));
            }
        }
        if let Some(error) = failed {
            print_timings(args, &took);
            return Err(error);
        }
    }
    print_timings(args, &took);
    let over: Vec<_> = took.iter().filter(|(step, seconds)| is_over(step.budget_seconds, *seconds)).collect();
    if !args.no_budgets && !over.is_empty() {
        let names: Vec<_> = over.iter().map(|(step, _)| step.name).collect();
        bail!("these steps took more than half as much again as their budgets allow: {}", names.join(", "));
    }
    Ok(())
}

/// Runs steps side by side; says of each how long it took and how it went.
fn at_once(steps: Vec<&'static Step>) -> Vec<(&'static Step, Duration, anyhow::Result<()>)> {
    let run = |step: &'static Step| {
        let began = Instant::now();
        let outcome = (step.run)();
        (step, began.elapsed(), outcome)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = steps.into_iter().map(|step| scope.spawn(move || run(step))).collect();
        running
            .into_iter()
            .map(|step| step.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn is_over(budget_seconds: u64, took: Duration) -> bool {
    took > Duration::from_secs(budget_seconds * 3 / 2)
}

fn print_timings(args: &Args, took: &[(&Step, Duration)]) {
    if !args.timings {
        return;
    }
    eprintln!("\n{:<12} {:>8} {:>8}", "step", "seconds", "budget");
    for (step, seconds) in took {
        let over = if is_over(step.budget_seconds, *seconds) { "  over" } else { "" };
        eprintln!("{:<12} {:>8.1} {:>8}{over}", step.name, seconds.as_secs_f64(), step.budget_seconds);
    }
    tests::print_slowest(SLOWEST_SHOWN);
}

const SLOWEST_SHOWN: usize = 30;

fn cargo(args: &[&str]) -> anyhow::Result<()> {
    process::run("cargo", args)
}

/// Installs what the later steps use and cargo does not bring along. Advisories need a database that not
/// every machine may download.
fn install_tools() -> anyhow::Result<()> {
    tests::install()?;
    counts::install()?;
    match process::is_program("cargo-deny") {
        true => Ok(()),
        false => cargo(&["install", "--locked", "--debug", "cargo-deny"]),
    }
}

fn lints() -> anyhow::Result<()> {
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// Builds the documentation with the simulated lane, to which other docs link.
fn docs() -> anyhow::Result<()> {
    process::run_with(
        "cargo",
        &["doc", "--workspace", "--no-deps", "--features", "lane/sim"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )
}

#[cfg(test)]
mod tests_of_budgets {
    use super::*;

    #[test]
    fn a_step_may_take_half_as_much_again_as_its_budget_and_no_more() {
        assert!(!is_over(10, Duration::from_secs(15)));
        assert!(is_over(10, Duration::from_millis(15_001)));
    }

    #[test]
    fn budgets_of_all_steps_with_installed_tools_are_an_hour() {
        let of_line = |line: &&[Step]| line.iter().map(|step| step.budget_seconds).max().unwrap();
        let tools = all_steps().find(|step| step.name == "tools").unwrap().budget_seconds;
        let all: u64 = STEPS.iter().map(of_line).sum();
        assert!(all - tools <= 60 * 60, "{all} s");
    }
}
