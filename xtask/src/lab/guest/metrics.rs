//! Counters of the server under test, as its admin address tells them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, ensure};

use crate::process;

/// All counters at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Scrape {
    samples: Vec<(String, String, f64)>,
}

impl Scrape {
    pub(crate) fn of(admin: SocketAddr) -> anyhow::Result<Self> {
        let url = format!("http://{admin}/metrics");
        let text =
            process::output("curl", &["--silent", "--show-error", "--fail", "--max-time", "20", &url])?;
        ensure!(text.ends_with("# EOF\n"), "the text of the counters is cut");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').context("a value")?;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            Ok((name.trim_end_matches("_total").to_owned(), labels.to_owned(), value.parse()?))
        });
        Ok(Self { samples: samples.collect::<anyhow::Result<_>>()? })
    }

    /// The sum of a counter over all series that have every one of `labels`, such as `silo="0"`.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> anyhow::Result<f64> {
        let fits = |have: &str| labels.iter().all(|label| have.contains(label));
        let mut values = self.samples.iter().filter(|(n, have, _)| n == name && fits(have)).map(|(.., v)| *v);
        let first = values.next().with_context(|| format!("no counter {name}{labels:?}"))?;
        Ok(values.fold(first, |sum, value| sum + value))
    }

    /// All series of a counter that are not 0, for a person.
    pub(crate) fn describe(&self, name: &str) -> String {
        let series = self.samples.iter().filter(|(known, _, value)| known == name && *value != 0.0);
        series.map(|(_, labels, value)| format!("{{{labels} {value}")).collect::<Vec<_>>().join(" ")
    }

    /// The series that `wanted` picks by their name and that have grown since `before`, all lanes together.
    pub(crate) fn all_grown(&self, before: &Self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for (samples, sign) in [(&self.samples, 1.0), (&before.samples, -1.0)] {
            for (name, labels, value) in samples.iter().filter(|(name, ..)| wanted(name)) {
                // Lane and silo come first; a reason or the like is what tells series apart.
                let kind = labels.split(',').skip(2).collect::<Vec<_>>().join(",");
                let kind = kind.trim_end_matches('}');
                let series = if kind.is_empty() { name.clone() } else { format!("{name}{{{kind}}}") };
                *sums.entry(series).or_default() += sign * value;
            }
        }
        sums.retain(|_, grown| *grown > 0.0);
        sums
    }

    /// By how much it has grown since `before`.
    pub(crate) fn grown(&self, before: &Self, name: &str, labels: &[&str]) -> anyhow::Result<f64> {
        Ok(self.sum(name, labels)? - before.sum(name, labels)?)
    }
}
