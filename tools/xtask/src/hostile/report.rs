//! Report of a scenario's end: one JSON line for programs, one row for people.

use std::collections::BTreeMap;

use super::samples::Figures;
use super::scenario::Findings;
use super::scrapes::Scrapes;

/// Bars of all scenarios.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Bars {
    /// 10 % above undisturbed, or 5 ms where that is more.
    pub(crate) p99_during_us: u32,
    pub(crate) errors: u64,
    pub(crate) rss_bytes: u64,
    pub(crate) free_seconds: f64,
}

impl Bars {
    pub(crate) fn beside(undisturbed: &Figures) -> Self {
        let p99 = undisturbed.p99_us;
        let p99_during_us = (p99 + p99 / 10).max(p99 + P99_LEEWAY_US);
        Self { p99_during_us, errors: 0, rss_bytes: RSS_MAX, free_seconds: FREE_SECONDS_MAX }
    }
}

/// A scenario's line.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Report {
    pub(crate) scenario: &'static str,
    /// Size of the attack that was reached.
    pub(crate) attack: BTreeMap<&'static str, u64>,
    /// Refusals and limits that the server counted meanwhile.
    pub(crate) counted: BTreeMap<String, f64>,
    pub(crate) before: Figures,
    pub(crate) during: Figures,
    pub(crate) after: Figures,
    pub(crate) errors: u64,
    pub(crate) rss_max_bytes: u64,
    /// Seconds from the attack's end until everything was free; absent if that did not happen.
    pub(crate) free_after_seconds: Option<f64>,
    pub(crate) stop_seconds: Option<f64>,
    pub(crate) bars: Bars,
    pub(crate) missed: Vec<String>,
    pub(crate) reached: bool,
    #[serde(skip)]
    pub(super) scrapes: Scrapes,
}

impl Report {
    pub(crate) fn new(
        scenario: &'static str,
        [before, during, after]: [Figures; 3],
        rss_max_bytes: u64,
        free: Result<f64, Vec<String>>,
        stop: Result<f64, String>,
        findings: Findings,
    ) -> Self {
        let bars = Bars::beside(&before);
        let errors = before.errors + during.errors + after.errors;
        let mut missed = findings.failures;
        let mut bar = |reached: bool, missing: String| {
            if !reached {
                missed.push(missing);
            }
        };
        bar(during.p99_us <= bars.p99_during_us, format!("{LATE}: 99 % within {} us", during.p99_us));
        let asked = [&before, &during, &after].iter().all(|part| part.requests > 0);
        bar(asked, "the good client hangs".to_owned());
        let first = [&before, &during, &after].into_iter().find_map(|part| part.first_error.clone());
        bar(errors <= bars.errors, format!("{errors} errors, first: {}", first.unwrap_or_default()));
        bar(rss_max_bytes <= bars.rss_bytes, format!("{} MiB resident", rss_max_bytes >> 20));
        let free_after_seconds = free.as_ref().ok().copied();
        if let Err(held) = free {
            bar(false, format!("not free in time: {}", held.join(", ")));
        }
        let stop_seconds = stop.as_ref().ok().copied();
        if let Err(error) = stop {
            bar(false, error);
        }
        let reached = missed.is_empty();
        let (attack, counted) = (findings.size, findings.counted);
        Self {
            scenario,
            attack,
            counted,
            before,
            during,
            after,
            errors,
            rss_max_bytes,
            free_after_seconds,
            stop_seconds,
            bars,
            missed,
            reached,
            scrapes: Scrapes::default(),
        }
    }

    /// Adds what was counted, for [`super::walk`].
    pub(super) fn with_scrapes(self, scrapes: Scrapes) -> Self {
        Self { scrapes, ..self }
    }

    /// Returns whether nothing but latency is amiss, which another load on the machine can do.
    pub(crate) fn is_late_only(&self) -> bool {
        !self.reached && self.missed.iter().all(|missed| missed.starts_with(LATE))
    }

    /// Prints the line above the rows.
    pub(crate) fn print_heads() {
        println!(
            "{:<24} {:>17} {:>17} {:>17} {:>7} {:>8} {:>8}",
            "p50 / p99, ms", "undisturbed", "attacked", "after", "errors", "MiB", "free, s"
        );
    }

    pub(crate) fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        let pair = |part: &Figures| format!("{} / {}", ms(part.p50_us), ms(part.p99_us));
        println!(
            "{:<24} {:>17} {:>17} {:>17} {:>7} {:>8} {:>8}  {}",
            self.scenario,
            pair(&self.before),
            pair(&self.during),
            pair(&self.after),
            self.errors,
            self.rss_max_bytes >> 20,
            self.free_after_seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1}")),
            if self.reached { "reached" } else { "MISSED" },
        );
        let size: Vec<_> = self.attack.iter().map(|(what, count)| format!("{count} {what}")).collect();
        println!("    {}", size.join(", "));
        let counted: Vec<_> = self.counted.iter().map(|(series, by)| format!("{series} {by}")).collect();
        if !counted.is_empty() {
            println!("    counted: {}", counted.join(", "));
        }
        self.missed.iter().for_each(|missed| println!("    missed: {missed}"));
        Ok(())
    }
}

fn ms(us: u32) -> String {
    format!("{:.2}", f64::from(us) / 1000.0)
}

const LATE: &str = "late";
const P99_LEEWAY_US: u32 = 5000;
const RSS_MAX: u64 = 512 << 20;
pub(crate) const FREE_SECONDS_MAX: f64 = 15.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(p99_us: u32, errors: u64) -> Figures {
        Figures { requests: 100, p99_us, errors, ..Figures::default() }
    }

    fn report(during: Figures, rss: u64, free: Result<f64, Vec<String>>) -> Report {
        let parts = [figures(1000, 0), during, figures(1000, 0)];
        Report::new("x", parts, rss, free, Ok(0.1), Findings::default())
    }

    #[test]
    fn p99_may_grow_by_a_tenth_or_five_milliseconds() {
        assert_eq!(Bars::beside(&figures(1000, 0)).p99_during_us, 6000);
        assert_eq!(Bars::beside(&figures(100_000, 0)).p99_during_us, 110_000);
        assert!(report(figures(6000, 0), 1, Ok(0.0)).reached);
        let late = report(figures(6001, 0), 1, Ok(0.0));
        assert!(!late.reached && late.is_late_only());
    }

    #[test]
    fn errors_memory_and_what_is_held_are_never_noise() {
        for report in [
            report(figures(1000, 1), 1, Ok(0.0)),
            report(figures(1000, 0), RSS_MAX + 1, Ok(0.0)),
            report(figures(9000, 0), 1, Err(vec!["tasks 5".to_owned()])),
        ] {
            assert!(!report.reached && !report.is_late_only(), "{report:?}");
        }
    }
}
