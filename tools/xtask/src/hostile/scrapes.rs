//! What the counters of an attacked server came to.

use crate::lab::guest::metrics::Scrape;

/// Counters of the server before an attack, and again and again meanwhile and afterwards.
#[derive(Debug, Default)]
pub(super) struct Scrapes {
    pub(super) before: Option<Scrape>,
    pub(super) later: Vec<Scrape>,
}

impl Scrapes {
    /// Returns what a counter was before, and the most that it has been since; `None` where the server has no
    /// such counter.
    pub(super) fn moved(&self, counter: &str) -> Option<(f64, f64)> {
        let (family, labels) = counter.split_once('{').unwrap_or((counter, "}"));
        let (family, labels) = (format!("linerate_{family}"), labels.trim_end_matches('}'));
        let labels: Vec<&str> = labels.split(',').filter(|label| !label.is_empty()).collect();
        let value = |scrape: &Scrape| scrape.sum(&family, &labels).ok();
        let most = self.later.iter().filter_map(value).reduce(f64::max)?;
        Some((self.before.as_ref().and_then(value).unwrap_or(0.0), most))
    }
}
