//! Runs of a test with many seeds, and the command that runs a failed seed again.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Runs `test` with `count` seeds, and returns whether all of them were run.
///
/// The environment chooses which seeds these are:
///
/// | variable | seeds |
/// |---|---|
/// | none | `0..count` |
/// | `LANE_SIM_SEED=17` | 17 alone |
/// | `LANE_SIM_SEEDS=5000` | `0..5000` |
/// | `LANE_SIM_DAY=20785` | the first half of `0..count`, then as many that only this day has |
///
/// `LANE_SIM_SECONDS=8` ends a run of the first and the last kind after that time, but not before a tenth of `count`.
/// `LANE_SIM_TALLY` names a file that gets a line for each run: seeds run, seeds wanted. The first seed that panics ends
/// the run and prints the line that repeats it.
///
/// # Panics
/// As `test` did.
pub fn seeds(count: u64, test: impl Fn(u64)) -> bool {
    if let Some(seed) = number("LANE_SIM_SEED") {
        test(seed);
        return false;
    }
    let all = number("LANE_SIM_SEEDS");
    let wanted = all.unwrap_or(count);
    let budget = number("LANE_SIM_SECONDS").filter(|_| all.is_none()).map(Duration::from_secs);
    let day = number("LANE_SIM_DAY").filter(|_| all.is_none());
    let began = Instant::now();
    let mut ran = 0;
    for place in 0..wanted {
        if ran >= count.div_ceil(10) && budget.is_some_and(|budget| began.elapsed() >= budget) {
            break;
        }
        let seed = seed_at(place, count, day);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            eprintln!("seed {seed}, number {place} of {wanted}, failed; {}", repro(seed));
            resume_unwind(panic);
        }
        ran += 1;
    }
    tally(ran, wanted);
    ran >= count
}

/// Returns the seed at a place in a run: a day's seeds take turns with those of every run, so that a
/// shortened run has both.
fn seed_at(place: u64, count: u64, day: Option<u64>) -> u64 {
    match day {
        Some(day) if count > 1 && place % 2 == 1 => day * SEEDS_A_DAY + place / 2,
        Some(_) if count > 1 => place / 2,
        _ => place,
    }
}

/// Seeds set aside for a day, more than any test runs.
const SEEDS_A_DAY: u64 = 10_000;

fn tally(ran: u64, wanted: u64) {
    let Some(path) = std::env::var_os("LANE_SIM_TALLY") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    // A line of an append is whole; without a tally the run's figures lack a test, and nothing else does.
    let _ = file.and_then(|mut file| file.write_all(format!("{ran} {wanted}\n").as_bytes()));
}

/// Returns the command that runs the calling test with one seed: cargo names the package, the test harness
/// the thread.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_day_keeps_half_of_the_seeds_and_shares_none_of_its_own_with_another() {
        let of = |day| (0..1000).map(|place| seed_at(place, 1000, day)).collect::<BTreeSet<_>>();
        let (always, today, tomorrow) = (of(None), of(Some(20_785)), of(Some(20_786)));
        assert_eq!([always.len(), today.len(), tomorrow.len()], [1000; 3]);
        assert_eq!(today.intersection(&always).count(), 500);
        assert_eq!(today.intersection(&tomorrow).count(), 500);
    }
}
