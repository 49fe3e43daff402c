//! The committed counts, and how today's differ from them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::GROWTH_MAX_PERCENT;
use crate::process;

/// Counts of one run, by benchmark, and what made them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Baseline {
    pub(super) tools: Tools,
    pub(super) counts: BTreeMap<String, u64>,
}

/// Tools that a count depends on besides the code.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tools {
    rustc: String,
    valgrind: String,
    arch: String,
}

/// One benchmark, then and now.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: String,
    before: Option<u64>,
    now: Option<u64>,
}

impl Baseline {
    /// Reads the file; an absent one is an empty baseline.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is no baseline", path.display()))
    }

    /// Replaces the file.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = format!("{HEADER}\n{}", toml::to_string(self)?);
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Returns every benchmark that either knows, by name.
    pub(super) fn compare(&self, now: &Self) -> Vec<Change> {
        let names: BTreeSet<&String> = self.counts.keys().chain(now.counts.keys()).collect();
        let change = |name: &String| Change {
            name: name.clone(),
            before: self.counts.get(name).copied(),
            now: now.counts.get(name).copied(),
        };
        names.into_iter().map(change).collect()
    }
}

impl Tools {
    pub(super) fn of_this_machine() -> anyhow::Result<Self> {
        let version = |program: &str| -> anyhow::Result<String> {
            Ok(process::output(program, &["--version"])?.trim().to_owned())
        };
        Ok(Self {
            rustc: version("rustc")?,
            valgrind: version("valgrind")?,
            arch: std::env::consts::ARCH.to_owned(),
        })
    }
}

impl fmt::Display for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.rustc, self.valgrind, self.arch)
    }
}

impl Change {
    /// Returns whether it grew by more than the gate lets through.
    pub(super) fn is_regression(&self) -> bool {
        self.percent().is_some_and(|percent| percent > GROWTH_MAX_PERCENT)
    }

    /// Returns whether there is nothing to compare it with.
    pub(super) fn is_unknown(&self) -> bool {
        self.percent().is_none()
    }

    fn percent(&self) -> Option<f64> {
        let (before, now) = (self.before? as f64, self.now? as f64);
        Some((now - before) / before * 100.0)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        let percent = self.percent().map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.2} %"));
        write!(f, "{:<72} {:>12} {:>12} {percent:>8}", self.name, count(self.now), count(self.before))
    }
}

const HEADER: &str = "\
# Instructions that `cargo xtask counts` holds the hot paths to; `cargo xtask counts --save` writes this file.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(counts: &[(&str, u64)]) -> Baseline {
        let counts = counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
        Baseline { tools: Tools::default(), counts }
    }

    #[test]
    fn growth_beyond_two_percent_alone_is_a_regression() {
        let before = counts(&[("faster", 1000), ("same", 1000), ("at_the_limit", 1000), ("slower", 1000)]);
        let now = counts(&[("faster", 500), ("same", 1000), ("at_the_limit", 1020), ("slower", 1021)]);
        let changes = before.compare(&now);
        let grown: Vec<_> = changes.iter().filter(|change| change.is_regression()).collect();
        assert_eq!(grown.iter().map(|change| change.name.as_str()).collect::<Vec<_>>(), ["slower"]);
    }

    #[test]
    fn new_and_removed_benchmarks_are_unknown_not_regressions() {
        let changes = counts(&[("removed", 10)]).compare(&counts(&[("new", 10)]));
        assert_eq!(changes.len(), 2);
        assert!(changes.iter().all(|change| change.is_unknown() && !change.is_regression()));
    }

    #[test]
    fn saved_counts_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("counts.toml");
        let saved = counts(&[("rx::send one", 12), ("rx::send two", 34)]);
        saved.write(&path).unwrap();
        let read = Baseline::read(&path).unwrap();
        assert_eq!((read.tools, read.counts), (saved.tools, saved.counts));
    }
}
