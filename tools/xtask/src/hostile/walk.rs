//! `cargo xtask hostile --limits`: walks the entries of `docs/reference/limits.md`. Each attack runs once, and is
//! told for each entry that names it: what its counters have come to, and what the good client beside it felt.

use std::fmt::Write as _;

use anyhow::{bail, ensure};

use super::report::Report;
use super::scenario::{self, Scenario};
use crate::limits::{self, Attack, Limit};
use crate::spec;

/// The lines of the page; with names of scenarios those that one of them attacks.
pub(super) struct Walk {
    limits: Vec<Limit>,
    is_told: Vec<bool>,
    late_is_told_only: bool,
    json: bool,
    missed: Vec<String>,
}

impl Walk {
    pub(super) fn new(names: &[String], tell_late: bool, json: bool) -> anyhow::Result<Self> {
        let mut limits = limits::limits(&spec::root())?;
        if !names.is_empty() {
            limits.retain(|limit| attacks(limit).iter().any(|attack| names.contains(attack)));
        }
        ensure!(!limits.is_empty(), "no entry of docs/reference/limits.md names that scenario");
        let is_told = vec![false; limits.len()];
        Ok(Self { limits, is_told, late_is_told_only: tell_late, json, missed: Vec::new() })
    }

    /// Prints each line with its attack.
    pub(super) fn list(&self) {
        for limit in &self.limits {
            let attack = match &limit.attack {
                Attack::By(attacks) => attacks.join(", "),
                Attack::None(reason) => format!("none: {reason}"),
            };
            println!("{:72} {attack}", title(limit));
        }
    }

    /// Attacks that the lines name, in the order of all.
    pub(super) fn attacks(&self) -> Vec<&'static dyn Scenario> {
        let is_named =
            |name: &str| self.limits.iter().any(|limit| attacks(limit).iter().any(|attack| attack == name));
        scenario::ALL.iter().copied().filter(|scenario| is_named(scenario.name())).collect()
    }

    /// Reports what an attack came to, for each line that names it.
    pub(super) fn tell(&mut self, report: &Report) -> anyhow::Result<()> {
        let passes = report.reached || self.late_is_told_only && report.is_late_only();
        for (limit, is_told) in self.limits.iter().zip(&mut self.is_told) {
            if !attacks(limit).iter().any(|attack| attack == report.scenario) {
                continue;
            }
            *is_told = true;
            let line = Line::of(limit, report);
            line.print(self.json)?;
            if line.is_without_counter || !passes {
                self.missed.push(format!("{} ({})", line.pool, report.scenario));
            }
        }
        Ok(())
    }

    pub(super) fn end(&self) -> anyhow::Result<()> {
        let clients_reach =
            self.limits.iter().zip(&self.is_told).filter(|(limit, _)| !attacks(limit).is_empty());
        let untold: Vec<_> =
            clients_reach.filter(|(_, is_told)| !**is_told).map(|(limit, _)| title(limit)).collect();
        ensure!(untold.is_empty(), "nothing has attacked {}", untold.join(", "));
        if !self.missed.is_empty() {
            bail!("others suffer, or the counter is not there: {}", self.missed.join(", "));
        }
        Ok(())
    }
}

fn attacks(limit: &Limit) -> &[String] {
    match &limit.attack {
        Attack::By(attacks) => attacks,
        Attack::None(_) => &[],
    }
}

fn title(limit: &Limit) -> String {
    format!("{}: {}", limit.section, limit.pool)
}

/// One line of the page under one attack.
#[derive(Debug, serde::Serialize)]
struct Line<'a> {
    pool: String,
    attack: &'a str,
    /// Counters with what they were before and the most that they have been since.
    counters: Vec<(&'a str, f64, f64)>,
    /// Size that the attack reached, where no counter has moved.
    size: Option<String>,
    p99_without_us: u32,
    p99_beside_us: u32,
    reached: bool,
    is_without_counter: bool,
}

impl<'a> Line<'a> {
    fn of(limit: &'a Limit, report: &'a Report) -> Self {
        let moved = |counter: &'a String| {
            let (before, most) = report.scrapes.moved(counter)?;
            Some((counter.as_str(), before, most))
        };
        let counters: Vec<_> = limit.counters.iter().filter_map(moved).collect();
        let has_moved = counters.iter().any(|(_, before, most)| most > before);
        let size = || {
            report.attack.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
        };
        Self {
            pool: title(limit),
            attack: report.scenario,
            is_without_counter: counters.is_empty() && !limit.counters.is_empty(),
            counters,
            size: (!has_moved).then(size),
            p99_without_us: report.before.p99_us,
            p99_beside_us: report.during.p99_us,
            reached: report.reached,
        }
    }

    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            println!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        let mut text = format!("{} by {}: ", self.pool, self.attack);
        for (counter, before, most) in &self.counters {
            let _ = write!(text, "{counter} {before} -> {most}, ");
        }
        if let Some(size) = &self.size {
            let _ = write!(text, "attack of {size}, ");
        }
        let _ = write!(
            text,
            "p99 {:.2} ms, without {:.2}: {}",
            f64::from(self.p99_beside_us) / 1000.0,
            f64::from(self.p99_without_us) / 1000.0,
            match (self.reached, self.is_without_counter) {
                (_, true) => "NO COUNTER",
                (true, _) => "reached",
                (false, _) => "MISSED",
            }
        );
        println!("  {text}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::scrapes::Scrapes;
    use crate::lab::guest::metrics::Scrape;

    #[test]
    fn every_line_that_clients_reach_is_attacked_once() {
        let walk = Walk::new(&[], false, false).unwrap();
        let attacks = walk.attacks();
        assert!(attacks.len() > 20, "{}", attacks.len());
        let missed = walk.end().unwrap_err().to_string();
        let reached = walk.limits.iter().filter(|limit| !super::attacks(limit).is_empty());
        reached.for_each(|limit| assert!(missed.contains(&limit.pool), "{}", limit.pool));
        assert!(Walk::new(&["nothing".to_owned()], false, false).is_err());
    }

    #[test]
    fn a_counter_has_moved_by_the_most_that_it_has_been() {
        let scrape = |busy: u32, open: u32| {
            let text = format!(
                "# TYPE linerate_a_refused counter\nlinerate_a_refused_total{{lane=\"0\",reason=\"busy\"}} {busy}\n\
                 # TYPE linerate_a_open gauge\nlinerate_a_open{{lane=\"0\"}} {open}\n# EOF\n"
            );
            Scrape::parse(&text).unwrap()
        };
        let scrapes = Scrapes { before: Some(scrape(1, 0)), later: vec![scrape(2, 7), scrape(3, 0)] };
        assert_eq!(scrapes.moved("a_refused{reason=\"busy\"}"), Some((1.0, 3.0)));
        assert_eq!(scrapes.moved("a_open"), Some((0.0, 7.0)));
        assert_eq!(scrapes.moved("a_refused{reason=\"other\"}"), None);
    }
}
