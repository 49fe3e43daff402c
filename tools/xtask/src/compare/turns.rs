//! Two servers in turns under one load, and what comes of it.

use super::wrk::Run;
use super::{median, medians, rounded};

/// A load, and what the ratios of its pairs must reach.
#[derive(Clone, Copy)]
pub(super) struct Bar {
    pub(super) load: &'static str,
    /// `None`: it stands beside the others for comparison.
    pub(super) throughput_least: Option<f64>,
    pub(super) cpu_most: Option<f64>,
}

impl Bar {
    /// Returns what the `release` build must reach where the `dist` build is the peer.
    pub(super) fn of_release(self) -> Self {
        Self { throughput_least: Some(0.95), cpu_most: Some(1.05), ..self }
    }
}

/// One load's JSON line.
#[derive(serde::Serialize)]
pub(super) struct Line {
    load: &'static str,
    linerate: Run,
    peer: Run,
    peer_name: &'static str,
    pairs: u32,
    ratio_throughput: f64,
    ratio_cpu: f64,
    wanted_throughput: Option<f64>,
    wanted_cpu: Option<f64>,
    reached: Option<bool>,
}

/// Measures each server `pairs` times, one after the other.
pub(super) fn compare<S>(
    bar: Bar,
    pairs: u32,
    linerate: &S,
    peer: &S,
    peer_name: &'static str,
    measure: impl Fn(&S) -> anyhow::Result<Run>,
) -> anyhow::Result<Line> {
    let mut runs = Vec::new();
    for pair in 1..=pairs {
        let (ours, theirs) = (measure(linerate)?, measure(peer)?);
        eprintln!("{} {pair}/{pairs}: linerate {}, {} {}", bar.load, told(&ours), peer_name, told(&theirs));
        runs.push((ours, theirs));
    }
    let throughput = median(runs.iter().map(|(a, b)| a.requests_per_second / b.requests_per_second));
    let cpu = median(runs.iter().map(|(a, b)| a.cpu_us_per_request / b.cpu_us_per_request));
    Ok(Line {
        load: bar.load,
        linerate: medians(runs.iter().map(|pair| pair.0)),
        peer: medians(runs.iter().map(|pair| pair.1)),
        peer_name,
        pairs,
        ratio_throughput: rounded(throughput),
        ratio_cpu: rounded(cpu),
        wanted_throughput: bar.throughput_least,
        wanted_cpu: bar.cpu_most,
        reached: bar
            .throughput_least
            .map(|least| throughput >= least && bar.cpu_most.is_none_or(|most| cpu <= most)),
    })
}

fn told(run: &Run) -> String {
    format!(
        "{:.0} req/s {:.2} Gb/s {:.2} us CPU",
        run.requests_per_second, run.gbit_per_second, run.cpu_us_per_request
    )
}
