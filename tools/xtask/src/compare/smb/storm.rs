//! All connections of one client at once: each negotiates, signs in or is bound, and asks while the others do.

use anyhow::Context;

use super::Bench;
use super::row::SMALL;
use super::run::{Report, told};
use super::side::{Linerate, Side, Smbd};

/// The row's JSON line.
#[derive(serde::Serialize)]
pub(super) struct Line {
    load: &'static str,
    connections: u32,
    linerate: Storm,
    peer: Storm,
    peer_name: &'static str,
    wanted_slowest_s: f64,
    reached: bool,
}

/// Outcome of a server's rounds.
#[derive(Default, serde::Serialize)]
struct Storm {
    rounds: u32,
    /// Rounds in which a client was not served.
    failed: u32,
    /// Longest wait.
    slowest_s: f64,
}

/// Sessions, and the connections of each.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) load: &'static str,
    sessions: u32,
    channels: u32,
    flags: &'static [&'static str],
    name: &'static str,
}

pub(super) const ROWS: [Row; 2] = [
    Row {
        load: "storm of one client, 500 sessions",
        sessions: 500,
        channels: 1,
        flags: &["--mode", "idle"],
        name: "",
    },
    Row {
        load: "storm of one client, 16 sessions of 31 channels",
        sessions: 16,
        channels: 31,
        flags: &["--mode", "open-close", "--depth", "1"],
        name: SMALL,
    },
];

pub(super) fn measure(row: Row, bench: &Bench<'_>, ours: &Linerate, smbd: &Smbd) -> Line {
    let [peer, _] = smbd.sides();
    let (linerate, theirs) = (storm(row, bench, &ours.side()), storm(row, bench, &peer));
    let reached = linerate.failed == 0 && linerate.slowest_s <= SLOWEST_S;
    Line {
        load: row.load,
        connections: row.sessions * row.channels,
        linerate,
        peer: theirs,
        peer_name: peer.name,
        wanted_slowest_s: SLOWEST_S,
        reached,
    }
}

fn storm(row: Row, bench: &Bench<'_>, side: &Side) -> Storm {
    let mut storm = Storm::default();
    for round in 1..=ROUNDS {
        // Each takes a minute: what a server that fails so does is known by then.
        if storm.failed >= FAILURES_MAX {
            break;
        }
        storm.rounds += 1;
        match one(row, bench, side) {
            Ok(slowest) => storm.slowest_s = storm.slowest_s.max(slowest),
            Err(error) => {
                eprintln!("{} {round}/{ROUNDS}: {}: {error:#}", row.load, side.name);
                storm.failed += 1;
            }
        }
    }
    eprintln!("{}: {}: {} failed, slowest {:.3} s", row.load, side.name, storm.failed, storm.slowest_s);
    storm
}

/// Returns how long the sign-in, binding or request that took longest did.
fn one(row: Row, bench: &Bench<'_>, side: &Side) -> anyhow::Result<f64> {
    let mut command = bench.command();
    command.args(row.flags).args(["--one-client", "--seconds", "1"]);
    command.args(["--connections", &row.sessions.to_string(), "--channels", &row.channels.to_string()]);
    command.arg(side.url(row.name));
    let report: Report = serde_json::from_str(&bench.place.at_client(|| told(command))?)?;
    anyhow::ensure!(report.errors.is_empty(), "{:?}", report.errors);
    anyhow::ensure!(report.sessions == row.sessions, "{} of {} signed in", report.sessions, row.sessions);
    let signed_in = report.slowest_sign_in_seconds.context("the bench tells the slowest sign-in")?;
    Ok(signed_in.max(f64::from(report.latency.max_us) / 1e6))
}

const ROUNDS: u32 = 20;
const FAILURES_MAX: u32 = 2;
const SLOWEST_S: f64 = 2.0;
