//! Latencies as a histogram of microseconds, and the percentiles people ask for.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Latencies from 1 us to 10 minutes with three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

/// Microseconds within which that share of the answers came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Least.
    pub min_us: u64,
    /// Half of the answers.
    pub p50_us: u64,
    /// 90 %.
    pub p90_us: u64,
    /// 99 %.
    pub p99_us: u64,
    /// 99.9 %.
    pub p999_us: u64,
    /// Most.
    pub max_us: u64,
    /// Arithmetic mean.
    pub mean_us: f64,
}

impl Latencies {
    /// Makes an empty histogram.
    pub fn new() -> Self {
        let histogram =
            Histogram::new_with_bounds(1, LATENCY_MAX_US, 3).expect("the bounds are a valid range");
        Self { histogram }
    }

    /// Counts one answer.
    pub fn record(&mut self, latency: std::time::Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(us.max(1));
    }

    /// Adds another lane's.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
    }

    /// Returns the percentiles; zeros when nothing was counted.
    pub fn percentiles(&self) -> Percentiles {
        if self.histogram.is_empty() {
            return Percentiles::default();
        }
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        Percentiles {
            min_us: self.histogram.min(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.histogram.max(),
            mean_us: self.histogram.mean(),
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

const LATENCY_MAX_US: u64 = 600_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn percentiles_are_those_of_all_lanes_together() {
        let (mut one, mut two) = (Latencies::new(), Latencies::new());
        (1..=500).for_each(|us| one.record(Duration::from_micros(us)));
        (501..=1000).for_each(|us| two.record(Duration::from_micros(us)));
        one.merge(&two);
        let found = one.percentiles();
        assert_eq!((found.min_us, found.p50_us, found.p99_us, found.max_us), (1, 500, 990, 1000));
    }

    #[test]
    fn no_answers_give_zeros() {
        assert_eq!(Latencies::new().percentiles(), Percentiles::default());
    }
}
