//! A reader of the OpenMetrics text at the admin address, strict about what a scraper would reject.

use std::collections::HashSet;
use std::net::SocketAddr;

use super::raw;

/// All samples at one moment.
pub(crate) struct Scrape {
    samples: Vec<Sample>,
}

struct Sample {
    name: String,
    labels: String,
    value: f64,
}

impl Scrape {
    pub(crate) fn of(admin: SocketAddr) -> Self {
        let response = raw::get(admin, "/metrics");
        assert_eq!(response.status, 200);
        assert!(response.expect("content-type").starts_with("application/openmetrics-text"));
        Self::parse(std::str::from_utf8(&response.body).expect("UTF-8"))
    }

    fn parse(text: &str) -> Self {
        let text = text.strip_suffix("# EOF\n").expect("the text says that it is whole");
        let (mut samples, mut types, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix("# ") {
                if let Some(family) = comment.strip_prefix("TYPE ") {
                    let (name, kind) = family.split_once(' ').expect("a type");
                    assert!(["counter", "gauge"].contains(&kind), "{line}");
                    assert!(types.insert(name.to_owned()), "two families of one name: {line}");
                }
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(seen.insert(series.to_owned()), "two samples of one series: {line}");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let family = name.strip_suffix("_total").unwrap_or(name);
            assert!(types.contains(family) || types.contains(name), "no type for {line}");
            let labels = labels.strip_suffix('}').expect("a closed label list");
            let value = value.parse().unwrap_or_else(|_| panic!("not a number: {line}"));
            samples.push(Sample { name: family.to_owned(), labels: labels.to_owned(), value });
        }
        assert!(!samples.is_empty());
        Self { samples }
    }

    /// The sum of a metric over all series whose labels contain `labels`.
    pub(crate) fn sum(&self, name: &str, labels: &str) -> u64 {
        let chosen =
            self.samples.iter().filter(|sample| sample.name == name && sample.labels.contains(labels));
        let values: Vec<f64> = chosen.map(|sample| sample.value).collect();
        assert!(!values.is_empty(), "no metric {name}{{{labels}}}");
        values.iter().sum::<f64>() as u64
    }
}
