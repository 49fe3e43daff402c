//! All connections of one client at once: each negotiates and signs in while the others do.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::run::{Report, told};
use super::side::{Linerate, PASSWORD, Side, Smbd};

/// The row's JSON line.
#[derive(serde::Serialize)]
pub(super) struct Line {
    load: &'static str,
    connections: u32,
    rounds: u32,
    linerate: Storm,
    peer: Storm,
    peer_name: &'static str,
    wanted_slowest_s: f64,
    reached: bool,
}

/// What became of a server's rounds.
#[derive(Default, serde::Serialize)]
struct Storm {
    /// Rounds in which somebody was not served.
    failed: u32,
    /// How long who waited longest did.
    slowest_s: f64,
}

pub(super) fn measure(binary: &Path, ours: &Linerate, smbd: &Smbd) -> Line {
    let [peer, _] = smbd.sides();
    let (linerate, theirs) = (storm(binary, &ours.side()), storm(binary, &peer));
    let reached = linerate.failed == 0 && linerate.slowest_s <= SLOWEST_S;
    Line {
        load: LOAD,
        connections: CONNECTIONS,
        rounds: ROUNDS,
        linerate,
        peer: theirs,
        peer_name: peer.name,
        wanted_slowest_s: SLOWEST_S,
        reached,
    }
}

fn storm(binary: &Path, side: &Side) -> Storm {
    let mut storm = Storm::default();
    for round in 1..=ROUNDS {
        match one(binary, side) {
            Ok(slowest) => storm.slowest_s = storm.slowest_s.max(slowest),
            Err(error) => {
                eprintln!("{LOAD} {round}/{ROUNDS}: {}: {error:#}", side.name);
                storm.failed += 1;
            }
        }
    }
    eprintln!("{LOAD}: {}: {} failed, slowest {:.3} s", side.name, storm.failed, storm.slowest_s);
    storm
}

fn one(binary: &Path, side: &Side) -> anyhow::Result<f64> {
    let mut command = Command::new(binary);
    command.env("LINERATE_PASSWORD", PASSWORD).args([
        "bench",
        "smb",
        "--json",
        "--mode",
        "idle",
        "--one-client",
    ]);
    command.args(["--connections", &CONNECTIONS.to_string(), "--seconds", "1"]).arg(side.url(""));
    let report: Report = serde_json::from_str(&told(command)?)?;
    anyhow::ensure!(report.errors.is_empty(), "{:?}", report.errors);
    anyhow::ensure!(report.sessions == CONNECTIONS, "{} of {CONNECTIONS} signed in", report.sessions);
    report.slowest_sign_in_seconds.context("the bench tells the slowest sign-in")
}

pub(super) const LOAD: &str = "storm of one client";
const CONNECTIONS: u32 = 500;
const ROUNDS: u32 = 20;
const SLOWEST_S: f64 = 2.0;
