//! One run against one server, with the server's processor time beside it.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::Bench;
use super::row::{Client, FILE, FILE_BYTES, Row, WRITTEN};
use super::side::{PASSWORD, Side, USER};
use crate::compare::wrk::Run;
use crate::cpu;

/// Fields that the comparison reads from the report of `linerate bench smb`.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    pub(super) requests: u64,
    requests_per_second: f64,
    pub(super) bits_per_second: f64,
    pub(super) sessions: u32,
    pub(super) slowest_sign_in_seconds: Option<f64>,
    pub(super) errors: std::collections::BTreeMap<String, u64>,
    wrong_signatures: u64,
    pub(super) latency: Latency,
}

/// Time from a request to its answer.
#[derive(Debug, Deserialize)]
pub(super) struct Latency {
    pub(super) max_us: u32,
}

pub(super) fn run(
    row: &Row,
    side: &Side,
    bench: &Bench<'_>,
    seconds: u32,
    verify: bool,
) -> anyhow::Result<Run> {
    let before = cpu::of_tree(side.pid)?;
    match row.client {
        Client::Bench { flags, name, bytes, connections } => {
            let seconds = seconds.to_string();
            let mut command = bench.command();
            command.args(flags);
            command.args(["--connections", connections, "--seconds", &seconds]).arg(side.url(name));
            if verify {
                command.arg("--verify");
            }
            let report: Report = serde_json::from_str(&told(command)?)?;
            ensure!(report.errors.is_empty(), "requests failed: {:?}", report.errors);
            ensure!(report.wrong_signatures == 0, "{} answers were wrongly signed", report.wrong_signatures);
            ensure!(report.requests > 0, "no request was answered");
            let cpu_s = cpu::of_tree(side.pid)? - before;
            Ok(figures(
                cpu_s,
                report.requests as f64,
                report.requests_per_second,
                report.bits_per_second,
                bytes,
            ))
        }
        Client::Get => smbclient(side, before, &format!("get {FILE} /dev/null")),
        Client::Put => {
            let name = format!("{WRITTEN}\\by-smbclient");
            let run = smbclient(side, before, &format!("put {FILE} {name}"))?;
            smbclient(side, before, &format!("rm {name}"))?;
            Ok(run)
        }
    }
}

/// Moves one file of [`FILE_BYTES`] by smbclient.
fn smbclient(side: &Side, before: f64, words: &str) -> anyhow::Result<Run> {
    let began = Instant::now();
    let mut command = Command::new("smbclient");
    command.arg(format!("//{}/{}", side.address.ip(), side.share)).args(["--command", words]);
    command.args(["--port", &side.address.port().to_string(), "--user", &format!("{USER}%{PASSWORD}")]);
    // What is put lies in the tree that both servers have.
    command.current_dir(&side.tree);
    told(command)?;
    let seconds = began.elapsed().as_secs_f64();
    let cpu_s = cpu::of_tree(side.pid)? - before;
    Ok(figures(cpu_s, 1.0, 1.0 / seconds, FILE_BYTES as f64 * 8.0 / seconds, FILE_BYTES))
}

fn figures(cpu_s: f64, requests: f64, per_second: f64, bits: f64, bytes: u64) -> Run {
    let gib = requests * bytes as f64 / f64::from(1 << 30);
    Run {
        requests_per_second: per_second,
        gbit_per_second: bits / 1e9,
        cpu_us_per_request: cpu_s * 1e6 / requests,
        cpu_s_per_gib: if gib > 0.0 { cpu_s / gib } else { 0.0 },
    }
}

/// Returns what a client printed.
pub(super) fn told(mut command: Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{:?}: {}\n{said}{}",
        command.get_program(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(said)
}
