//! A channel of four killed every 100 ms: what is left of the throughput, and whether any request is lost.

use std::collections::BTreeMap;

use anyhow::Context;

use super::Bench;
use super::row::{FILE, WRITTEN};
use super::side::{Linerate, Side, Smbd};
use crate::compare::rounded;

/// A row's JSON line.
#[derive(serde::Serialize)]
pub(super) struct Line {
    load: &'static str,
    seconds: u32,
    linerate: Killed,
    peer: Option<Killed>,
    peer_name: &'static str,
    wanted_throughput: f64,
    reached: bool,
}

/// Outcome of a server's load.
#[derive(serde::Serialize)]
struct Killed {
    gbit_per_second: f64,
    undisturbed_gbit_per_second: f64,
    ratio_throughput: f64,
    kills: u64,
    replays: u64,
    /// Requests whose bytes were compared and are right.
    verified: u64,
    errors: BTreeMap<String, u64>,
}

/// Fields that the comparison reads from the report of `linerate bench smb`.
#[derive(serde::Deserialize)]
struct Report {
    bits_per_second: f64,
    verified: u64,
    kills: u64,
    replays: u64,
    wrong_signatures: u64,
    errors: BTreeMap<String, u64>,
}

/// A load, and where it goes.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) load: &'static str,
    name: &'static str,
    mode: &'static [&'static str],
}

pub(super) const ROWS: [Row; 2] = [
    Row { load: "read 1 MiB, a channel of 4 killed every 100 ms", name: FILE, mode: &["--mode", "read"] },
    Row {
        load: "write 1 MiB, a channel of 4 killed every 100 ms",
        name: WRITTEN,
        mode: &["--mode", "write", "--file-size", "16M"],
    },
];

pub(super) fn measure(
    row: Row,
    bench: &Bench<'_>,
    ours: &Linerate,
    smbd: &Smbd,
    seconds: u32,
) -> anyhow::Result<Line> {
    let linerate = killed(row, bench, &ours.side(), seconds)?;
    let [peer, _] = smbd.sides();
    // It may hang; what ours does stands for itself.
    let theirs =
        killed(row, bench, &peer, seconds).inspect_err(|error| eprintln!("{}: {error:#}", peer.name));
    let is_clean = linerate.errors.is_empty() && linerate.verified > 0 && linerate.kills > 0;
    Ok(Line {
        load: row.load,
        seconds,
        reached: is_clean && linerate.ratio_throughput >= THROUGHPUT_LEAST,
        linerate,
        peer: theirs.ok(),
        peer_name: peer.name,
        wanted_throughput: THROUGHPUT_LEAST,
    })
}

fn killed(row: Row, bench: &Bench<'_>, side: &Side, seconds: u32) -> anyhow::Result<Killed> {
    let undisturbed = load(row, bench, side, seconds.min(UNDISTURBED_S), &[])?;
    let report = load(row, bench, side, seconds, &["--kill-every", "100"])?;
    let mut errors = report.errors;
    if report.wrong_signatures > 0 {
        errors.insert("wrong signatures".to_owned(), report.wrong_signatures);
    }
    let ratio = report.bits_per_second / undisturbed.bits_per_second;
    eprintln!(
        "{}: {}: {} killed, {} replays, {ratio:.2} of undisturbed, {errors:?}",
        row.load, side.name, report.kills, report.replays
    );
    Ok(Killed {
        gbit_per_second: rounded(report.bits_per_second / 1e9),
        undisturbed_gbit_per_second: rounded(undisturbed.bits_per_second / 1e9),
        ratio_throughput: rounded(ratio),
        kills: report.kills,
        replays: report.replays,
        verified: report.verified,
        errors,
    })
}

/// Runs the bench, which fails where a request did, and returns its report.
fn load(row: Row, bench: &Bench<'_>, side: &Side, seconds: u32, more: &[&str]) -> anyhow::Result<Report> {
    let mut command = bench.command();
    command.args(["--verify", "--size", "1M", "--connections", "1", "--channels", "4", "--depth", "4"]);
    command.args(["--seconds", &seconds.to_string()]).args(row.mode).args(more).arg(side.url(row.name));
    let output = bench.place.at_client(|| Ok(command.output()?))?;
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).with_context(|| format!("linerate bench smb: {}", said.trim()))
}

pub(super) const SECONDS: u32 = 60;
const UNDISTURBED_S: u32 = 10;
const THROUGHPUT_LEAST: f64 = 0.6;
