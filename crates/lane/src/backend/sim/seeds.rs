//! Runs a test with many seeds, and tells how to run it again with the one that failed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `test` with the seeds `0..count`. `LANE_SIM_SEED=17` in the environment runs seed 17 alone, and
/// `LANE_SIM_SEEDS=5000` as many as that. The first seed that panics ends the run and prints the line that
/// repeats it.
///
/// # Panics
/// As `test` did.
pub fn seeds(count: u64, test: impl Fn(u64)) {
    if let Some(seed) = number("LANE_SIM_SEED") {
        test(seed);
        return;
    }
    for seed in 0..number("LANE_SIM_SEEDS").unwrap_or(count) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            eprintln!("seed {seed} of {count} failed; {}", repro(seed));
            resume_unwind(panic);
        }
    }
}

/// The command that runs the calling test with one seed: cargo names the package, the test harness the thread.
pub(super) fn repro(seed: u64) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "PACKAGE".to_owned());
    let thread = std::thread::current();
    let test = thread.name().filter(|&name| name != "main").unwrap_or("TEST");
    format!("to repeat: LANE_SIM_SEED={seed} cargo test -p {package} {test} -- --exact")
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value:?} is no number")))
}
