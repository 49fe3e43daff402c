//! Results of tests: `smb2.lock.zerobyteread success`, a line each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context;

/// Outcome of one test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Success,
    Failure,
    Error,
    Skip,
    Timeout,
    Crash,
}

impl Outcome {
    const ALL: [(Self, &str); 6] = [
        (Self::Success, "success"),
        (Self::Failure, "failure"),
        (Self::Error, "error"),
        (Self::Skip, "skip"),
        (Self::Timeout, "timeout"),
        (Self::Crash, "crash"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(outcome, _)| *outcome)
    }

    /// Reads what smbtorture said of its one test: the last line that begins with a result.
    pub(crate) fn said(output: &str) -> Self {
        let result = |line: &str| match line.split_once(':').and_then(|(word, _)| Self::parse(word)) {
            Some(outcome @ (Self::Success | Self::Failure | Self::Error | Self::Skip)) => Some(outcome),
            _ => None,
        };
        output.lines().rev().find_map(result).unwrap_or(Self::Error)
    }
}

/// Outcomes by the tests' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Results(BTreeMap<String, Outcome>);

impl Results {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{} is no list of results", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let test = words.next().map(str::to_owned);
            let outcome = words.next().and_then(Outcome::parse);
            test.zip(outcome).with_context(|| format!("{line:?}"))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(line).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let mut text = String::new();
        for (test, outcome) in self.iter() {
            writeln!(text, "{test} {}", outcome.name())?;
        }
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn add(&mut self, test: String, outcome: Outcome) {
        self.0.insert(test, outcome);
    }

    pub(crate) fn get(&self, test: &str) -> Option<Outcome> {
        self.0.get(test).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, Outcome)> {
        self.0.iter().map(|(test, outcome)| (test.as_str(), *outcome))
    }

    /// Returns what passes in `baseline` and not here.
    pub(crate) fn lost(&self, baseline: &Self) -> Vec<(String, Outcome)> {
        let is_lost = |(test, outcome): &(&str, Outcome)| {
            *outcome != Outcome::Success && baseline.get(test) == Some(Outcome::Success)
        };
        self.iter().filter(is_lost).map(|(test, outcome)| (test.to_owned(), outcome)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_result_counts_and_none_is_an_error() {
        assert_eq!(Outcome::said("test: a\nsuccess: a\n"), Outcome::Success);
        assert_eq!(Outcome::said("skip: a [\nno\n]\nfailure: a [\nwhy\n]\n"), Outcome::Failure);
        assert_eq!(Outcome::said("Failed to connect\ntimeout: x"), Outcome::Error);
        assert_eq!(Outcome::said(""), Outcome::Error);
    }

    #[test]
    fn lost_is_what_passed_and_does_not_any_more() {
        let of = |text: &str| Results::parse(text).unwrap();
        let baseline = of("smb2.a success\nsmb2.b success\nsmb2.c failure\n");
        let lost = of("smb2.a timeout\nsmb2.b success\nsmb2.c failure\nsmb2.d failure\n").lost(&baseline);
        assert_eq!(lost, [("smb2.a".to_owned(), Outcome::Timeout)]);
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let text = "# words\nsmb2.a.b success\nsmb2.a.c crash 0.1\n\n";
        let results = Results::parse(text).unwrap();
        assert_eq!((results.len(), results.get("smb2.a.c")), (2, Some(Outcome::Crash)));
        let path = std::env::temp_dir().join(format!("xtask-smbtorture-results-{}", std::process::id()));
        results.write(&path).unwrap();
        assert_eq!(Results::read(&path).unwrap(), results);
        std::fs::remove_file(&path).unwrap();
        assert!(Results::parse("smb2.a.b").is_err() && Results::parse("smb2.a.b perhaps").is_err());
    }

    #[test]
    fn the_baseline_is_that_of_smbd() {
        let baseline = super::super::baseline().unwrap();
        let passed = baseline.iter().filter(|(_, outcome)| *outcome == Outcome::Success).count();
        assert_eq!((baseline.len(), passed), (775, 652));
    }
}
