//! A reader of the OpenMetrics text at an admin address, strict about what a scraper would reject.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// All samples of one scrape.
#[derive(Clone, Debug)]
pub struct Scrape {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    /// Name of the family, without a counter's `_total`.
    family: String,
    /// Labels between the braces.
    labels: String,
    value: f64,
}

/// Error of a metrics text, with the offending line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsError(String);

impl Scrape {
    /// Parses a whole text, and checks that it is complete, with one type for each family and one sample for
    /// each series.
    ///
    /// # Errors
    /// The first line that a scraper would not take.
    pub fn parse(text: &str) -> Result<Self, MetricsError> {
        let wrong = |what: &str, line: &str| MetricsError(format!("{what}: {line:?}"));
        let text = text.strip_suffix("# EOF\n").ok_or_else(|| wrong("the text is cut", text))?;
        let (mut samples, mut types, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix('#') {
                if let Some(family) = comment.strip_prefix(" TYPE ") {
                    let (name, kind) = family.split_once(' ').ok_or_else(|| wrong("no type", line))?;
                    if !["counter", "gauge"].contains(&kind) || !types.insert(name) {
                        return Err(wrong("a type that is unknown, or told twice", line));
                    }
                }
                continue;
            }
            let (series, value) = line.rsplit_once(' ').ok_or_else(|| wrong("no value", line))?;
            if !seen.insert(series) {
                return Err(wrong("two samples of one series", line));
            }
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let family = name.strip_suffix("_total").unwrap_or(name);
            if !types.contains(family) && !types.contains(name) {
                return Err(wrong("no type for", line));
            }
            let labels = labels.strip_suffix('}').ok_or_else(|| wrong("an open list of labels", line))?;
            let value = value.parse().map_err(|_| wrong("not a number", line))?;
            samples.push(Sample { family: family.to_owned(), labels: labels.to_owned(), value });
        }
        Ok(Self { samples })
    }

    /// Returns the sum of a metric over all series that have every one of `labels`, such as `silo="0"`.
    ///
    /// # Errors
    /// There is no such series.
    pub fn sum(&self, family: &str, labels: &[&str]) -> Result<f64, MetricsError> {
        let fits = |have: &str| labels.iter().all(|label| have.contains(label));
        let fitting = self.samples.iter().filter(|sample| sample.family == family && fits(&sample.labels));
        let sum = fitting.map(|sample| sample.value).reduce(|sum, value| sum + value);
        sum.ok_or_else(|| MetricsError(format!("no metric {family}{labels:?}")))
    }

    /// Returns the growth of [`Scrape::sum`] since `before`.
    ///
    /// # Errors
    /// There is no such series, now or before.
    pub fn grown(&self, before: &Self, family: &str, labels: &[&str]) -> Result<f64, MetricsError> {
        Ok(self.sum(family, labels)? - before.sum(family, labels)?)
    }

    /// Formats all series of a metric that are not 0, for a message.
    pub fn describe(&self, family: &str) -> String {
        let series = self.samples.iter().filter(|sample| sample.family == family && sample.value != 0.0);
        series.map(|sample| format!("{{{}}} {}", sample.labels, sample.value)).collect::<Vec<_>>().join(" ")
    }

    /// Returns the growth since `before` of the series whose family `wanted` picks, summed over all lanes;
    /// those that did not grow are left out.
    pub fn all_grown(&self, before: &Self, wanted: impl Fn(&str) -> bool) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for (samples, sign) in [(&self.samples, 1.0), (&before.samples, -1.0)] {
            for Sample { family, labels, value } in samples.iter().filter(|sample| wanted(&sample.family)) {
                // Lane and silo come first; a reason or the like is what tells series apart.
                let kind = labels.split(',').skip(2).collect::<Vec<_>>().join(",");
                let series = if kind.is_empty() { family.clone() } else { format!("{family}{{{kind}}}") };
                *sums.entry(series).or_default() += sign * value;
            }
        }
        sums.retain(|_, grown| *grown > 0.0);
        sums
    }
}

impl fmt::Display for MetricsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MetricsError {}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE a counter\n# HELP a Things.\na_total{lane=\"0\",silo=\"0\",why=\"x\"} 2\n\
                        a_total{lane=\"1\",silo=\"0\",why=\"x\"} 3\na_total{lane=\"1\",silo=\"0\",why=\"y\"} 0\n\
                        # TYPE b gauge\nb 1.5\n# EOF\n";

    #[test]
    fn series_are_summed_by_their_labels_and_told_by_what_grew() {
        let scrape = Scrape::parse(TEXT).unwrap();
        assert_eq!(scrape.sum("a", &[]).unwrap(), 5.0);
        assert_eq!(scrape.sum("a", &["lane=\"1\"", "why=\"x\""]).unwrap(), 3.0);
        assert_eq!(scrape.sum("b", &[]).unwrap(), 1.5);
        scrape.sum("a", &["why=\"z\""]).unwrap_err();
        let before = Scrape::parse(&TEXT.replace("} 3", "} 1")).unwrap();
        assert_eq!(scrape.grown(&before, "a", &[]).unwrap(), 2.0);
        assert_eq!(scrape.all_grown(&before, |_| true), [("a{why=\"x\"}".to_owned(), 2.0)].into());
        assert_eq!(scrape.describe("b"), "{} 1.5");
    }

    #[test]
    fn texts_that_a_scraper_would_refuse_are_refused() {
        for (from, to) in [
            ("# EOF\n", ""),
            ("b 1.5", "b 1.5\nb 1.5"),
            ("b 1.5", "c 1.5"),
            ("b 1.5", "b"),
            ("b 1.5", "b much"),
            ("\"y\"}", "\"y\""),
            ("b gauge", "a gauge"),
            ("b gauge", "b colour"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            assert_ne!(text, TEXT);
            Scrape::parse(&text).unwrap_err();
        }
    }
}
