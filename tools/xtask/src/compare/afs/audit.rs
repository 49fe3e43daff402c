//! Cost of the audit log: two Linerates over the same tree on the same CPU in turns, one of which tells of
//! each call.

use serde::Serialize;
use testkit::netns::Namespace;

use super::ours::{ADDRESS, Ours};
use super::row::FILE;
use super::run::{Run, bench_at};
use super::servers::Server;
use super::site;
use crate::compare::programs::Programs;
use crate::compare::stock::link::{inside, on_own_thread};
use crate::compare::stock::run::Counts;
use crate::compare::{median, rounded};

/// The row's JSON line.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    load: String,
    with: Run,
    without: Run,
    /// Medians of the pairs'.
    ratio_throughput: f64,
    ratio_cpu: f64,
    runs: u32,
    throughput_least: f64,
    reached: bool,
}

/// Loads of `linerate bench afs`: many calls, and many bytes.
pub(super) const MODES: [&str; 2] = ["stat", "fetch"];

pub(super) fn name(mode: &str) -> String {
    format!("audit log on beside off, {mode}")
}

pub(super) fn measure(mode: &str, programs: &Programs<'_>, seconds: u32, runs: u32) -> anyhow::Result<Line> {
    let work = tempfile::Builder::new().prefix("linerate-compare").tempdir_in("/dev/shm")?;
    site::fill(&work.path().join("tree"))?;
    let clients = on_own_thread(Namespace::new)?;
    let quiet = Ours::start(work.path(), &clients, site::MTU, true, "", programs)?;
    let told = format!("[log]\naudit = '{}'", work.path().join("audit.log").display());
    let other = work.path().join("audited");
    site::fill(&other.join("tree"))?;
    let process = quiet.serve_too(&other, AUDITED_PORT, &told, programs)?;
    let audited =
        Server { name: "audited", address: (ADDRESS, AUDITED_PORT).into(), process: process.0.id() };
    let (mut with, mut without) = (Vec::new(), Vec::new());
    inside(&clients, || {
        Counts::ask(audited.address)?;
        for number in 1..=runs {
            for (server, given) in [(&audited, &mut with), (&quiet.server(), &mut without)] {
                let run = bench_at(server, FILE, &["--mode", mode], true, programs, seconds)?;
                eprintln!("{} {number}/{runs}: {} {run}", name(mode), server.name);
                given.push(run);
            }
        }
        Ok(())
    })?;
    let ratio = |field: fn(&Run) -> f64| {
        rounded(median(with.iter().zip(&without).map(|(with, without)| field(with) / field(without))))
    };
    let ratio_throughput = ratio(|run| run.calls_per_second);
    Ok(Line {
        load: name(mode),
        with: Run::median_of(&with),
        without: Run::median_of(&without),
        ratio_throughput,
        ratio_cpu: ratio(|run| run.server_cpu_us_per_call),
        runs,
        throughput_least: THROUGHPUT_LEAST,
        reached: ratio_throughput >= THROUGHPUT_LEAST,
    })
}

const AUDITED_PORT: u16 = 17_000;
const THROUGHPUT_LEAST: f64 = 0.95;
