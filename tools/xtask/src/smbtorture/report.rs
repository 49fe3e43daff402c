//! Report of tests that smbd passes and the server does not, by suite.

use std::collections::BTreeMap;

use super::results::{Outcome, Results};

/// Totals of one suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
struct Totals {
    /// Tests that were run.
    tests: usize,
    /// Tests of these that smbd passes.
    baseline: usize,
    /// Tests that the server passes.
    passed: usize,
    /// Tests that smbd passes and the server does not.
    lost: usize,
    /// Tests that the server passes and smbd does not.
    more: usize,
}

/// Prints the report, and returns how many tests are lost.
pub(crate) fn tell(results: &Results, baseline: &Results, json: bool) -> anyhow::Result<usize> {
    let mut suites: BTreeMap<&str, Totals> = BTreeMap::new();
    for (test, outcome) in results.iter() {
        let expected = baseline.get(test);
        let (passes, should) = (outcome == Outcome::Success, expected == Some(Outcome::Success));
        let totals = suites.entry(suite(test)).or_default();
        totals.tests += 1;
        totals.baseline += usize::from(should);
        totals.passed += usize::from(passes);
        totals.lost += usize::from(should && !passes);
        totals.more += usize::from(passes && !should);
        if json {
            let line = serde_json::json!({"test": test, "result": outcome, "smbd": expected});
            println!("{line}");
        } else if should && !passes {
            println!("{test:<70} {}", outcome.name());
        }
    }
    let lost = suites.values().map(|totals| totals.lost).sum();
    if json {
        for (suite, totals) in &suites {
            println!("{}", serde_json::json!({"suite": suite, "totals": totals}));
        }
        return Ok(lost);
    }
    println!("\n{:<40} {:>5} {:>5} {:>6} {:>5} {:>5}", "suite", "tests", "smbd", "passed", "lost", "more");
    let mut all = Totals::default();
    for (suite, totals) in &suites {
        row(suite, totals);
        all.tests += totals.tests;
        all.baseline += totals.baseline;
        all.passed += totals.passed;
        all.lost += totals.lost;
        all.more += totals.more;
    }
    row("all", &all);
    Ok(lost)
}

fn row(suite: &str, totals: &Totals) {
    let Totals { tests, baseline, passed, lost, more } = totals;
    println!("{suite:<40} {tests:>5} {baseline:>5} {passed:>6} {lost:>5} {more:>5}");
}

/// Returns the suite of a test: `smb2.session@enc` of `smb2.session@enc.reauth1`.
fn suite(test: &str) -> &str {
    let end = test.match_indices('.').nth(1).map_or(test.len(), |(at, _)| at);
    &test[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_smbd_passes_and_we_do_not_is_lost_and_the_other_way_round_more() {
        let of = |lines: &[(&str, Outcome)]| {
            let mut results = Results::default();
            lines.iter().for_each(|(test, outcome)| results.add((*test).to_owned(), *outcome));
            results
        };
        let baseline = of(&[
            ("smb2.a.b", Outcome::Success),
            ("smb2.a.c", Outcome::Failure),
            ("smb2.a.d", Outcome::Success),
            ("smb2.e", Outcome::Success),
        ]);
        let ours = of(&[
            ("smb2.a.b", Outcome::Timeout),
            ("smb2.a.c", Outcome::Success),
            ("smb2.e", Outcome::Success),
        ]);
        assert_eq!(tell(&ours, &baseline, false).unwrap(), 1);
        assert_eq!(tell(&ours, &baseline, true).unwrap(), 1);
        assert_eq!((suite("smb2.e"), suite("smb2.a@x.b.c")), ("smb2.e", "smb2.a@x"));
    }
}
