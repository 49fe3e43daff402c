//! Two servers in turns under one load, and what comes of it.

use super::wrk::Run;
use super::{median, medians, rounded};
use crate::server::Subject;

/// A load, and what the ratios of its pairs must reach.
#[derive(Clone, Copy)]
pub(super) struct Bar {
    pub(super) load: &'static str,
    pub(super) throughput_least: f64,
    pub(super) cpu_most: f64,
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
    wanted_throughput: f64,
    wanted_cpu: f64,
    reached: bool,
}

/// Measures each server `pairs` times, one after the other.
pub(super) fn compare(
    bar: Bar,
    pairs: u32,
    linerate: &Subject,
    peer: &Subject,
    measure: impl Fn(&Subject) -> anyhow::Result<Run>,
) -> anyhow::Result<Line> {
    let mut runs = Vec::new();
    for pair in 1..=pairs {
        let (ours, theirs) = (measure(linerate)?, measure(peer)?);
        eprintln!("{} {pair}/{pairs}: linerate {}, {} {}", bar.load, told(&ours), peer.name, told(&theirs));
        runs.push((ours, theirs));
    }
    let throughput = median(runs.iter().map(|(a, b)| a.requests_per_second / b.requests_per_second));
    let cpu = median(runs.iter().map(|(a, b)| a.cpu_us_per_request / b.cpu_us_per_request));
    Ok(Line {
        load: bar.load,
        linerate: medians(runs.iter().map(|pair| pair.0)),
        peer: medians(runs.iter().map(|pair| pair.1)),
        peer_name: peer.name,
        pairs,
        ratio_throughput: rounded(throughput),
        ratio_cpu: rounded(cpu),
        wanted_throughput: bar.throughput_least,
        wanted_cpu: bar.cpu_most,
        reached: throughput >= bar.throughput_least && cpu <= bar.cpu_most,
    })
}

fn told(run: &Run) -> String {
    format!(
        "{:.0} req/s {:.2} Gb/s {:.2} us CPU",
        run.requests_per_second, run.gbit_per_second, run.cpu_us_per_request
    )
}
