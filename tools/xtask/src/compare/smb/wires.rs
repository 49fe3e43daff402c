//! Cost of channels: one session by one to four of them, each over a pair of virtual NICs of its own, to
//! servers of one lane and of two.

use std::path::Path;

use anyhow::ensure;

use super::Bench;
use super::place::interfaces;
use super::row::FILE;
use super::run::{Report, told};
use super::side::{Linerate, Side};
use crate::compare::{gib, median, rounded};
use crate::cpu;

/// The row's JSON line: processor time of the server for a GiB.
#[derive(serde::Serialize)]
pub(super) struct Line {
    load: &'static str,
    lanes: u32,
    pairs: u32,
    /// CPU time for a GiB with one channel, two and four.
    cpu_s_per_gib: [f64; COUNTS.len()],
    gbit_per_second: [f64; COUNTS.len()],
    /// Ratio of the CPU time with four channels to that with one.
    ratio_cpu: f64,
    wanted_cpu: f64,
    reached: bool,
}

pub(super) fn measure(
    bench: &Bench<'_>,
    work: &Path,
    tree: &Path,
    (pairs, seconds): (u32, u32),
) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for lanes in [1, 2] {
        let work = work.join(format!("wires-{lanes}"));
        std::fs::create_dir(&work)?;
        let address = bench.place.address(NUMBER)?;
        let start = || Linerate::start(bench.binary, &work, tree, address, Some(lanes));
        let ours = bench.place.at_server(start)?;
        lines.push(line(bench, &ours.side(), lanes, pairs, seconds)?);
    }
    Ok(lines)
}

fn line(bench: &Bench<'_>, side: &Side, lanes: u32, pairs: u32, seconds: u32) -> anyhow::Result<Line> {
    let run = |channels| bench.place.at_client(|| one(bench, side, channels, seconds));
    // It warms up.
    run(1)?;
    let mut runs = Vec::new();
    for pair in 1..=pairs {
        let measured = COUNTS.map(run);
        let mut figures = [(0.0, 0.0); COUNTS.len()];
        for (figure, measured) in figures.iter_mut().zip(measured) {
            *figure = measured?;
        }
        eprintln!("{LOAD}, {lanes} lanes {pair}/{pairs}: CPU s/GiB and Gb/s by 1, 2, 4 channels {figures:?}");
        runs.push(figures);
    }
    let of =
        |at: usize, field: fn(&(f64, f64)) -> f64| rounded(median(runs.iter().map(|run| field(&run[at]))));
    let ratio = median(runs.iter().map(|run| run[COUNTS.len() - 1].0 / run[0].0));
    Ok(Line {
        load: LOAD,
        lanes,
        pairs,
        cpu_s_per_gib: std::array::from_fn(|at| of(at, |figure| figure.0)),
        gbit_per_second: std::array::from_fn(|at| of(at, |figure| figure.1)),
        ratio_cpu: rounded(ratio),
        wanted_cpu: CPU_MOST,
        reached: ratio <= CPU_MOST,
    })
}

/// Measures the processor time for a GiB, and Gb/s. The same is under way in all, however many channels share it.
fn one(bench: &Bench<'_>, side: &Side, channels: u32, seconds: u32) -> anyhow::Result<(f64, f64)> {
    let before = cpu::of_tree(side.pid)?;
    let mut command = bench.command_over(&interfaces(channels));
    command.args(["--mode", "read", "--size", "1M", "--depth", &(UNDER_WAY / channels).to_string()]);
    command.args(["--connections", "1", "--channels", &channels.to_string()]);
    command.args(["--seconds", &seconds.to_string()]).arg(side.url(FILE));
    let report: Report = serde_json::from_str(&told(command)?)?;
    ensure!(report.errors.is_empty() && report.requests > 0, "{channels} channels: {:?}", report.errors);
    let spent = cpu::of_tree(side.pid)? - before;
    Ok((spent / gib(report.requests << 20), report.bits_per_second / 1e9))
}

pub(super) const LOAD: &str = "read 1 MiB, 1 to 4 channels";
const COUNTS: [u32; 3] = [1, 2, 4];
/// Requests.
const UNDER_WAY: u32 = 16;
const CPU_MOST: f64 = 1.15;
/// Beside both servers of the pairs.
const NUMBER: u16 = 2;
