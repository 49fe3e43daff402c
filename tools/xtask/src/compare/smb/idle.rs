//! Memory of sessions that do nothing.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::Bench;
use super::side::{Linerate, Side, Smbd};
use crate::compare::rounded;
use crate::cpu;
use crate::process::Killed;

/// The row's JSON line.
#[derive(serde::Serialize)]
pub(super) struct Line {
    load: &'static str,
    sessions: u32,
    linerate_kib_each: f64,
    peer_kib_each: f64,
    peer_sessions: u32,
    peer_name: &'static str,
    wanted_kib_each: f64,
    reached: bool,
}

pub(super) fn measure(
    bench: &Bench<'_>,
    ours: &Linerate,
    smbd: &Smbd,
    sessions: u32,
) -> anyhow::Result<Line> {
    let linerate_kib_each = each(bench, &ours.side(), sessions)?;
    let [peer, _] = smbd.sides();
    let peer_kib_each = each(bench, &peer, PEER_SESSIONS)?;
    Ok(Line {
        load: LOAD,
        sessions,
        linerate_kib_each: rounded(linerate_kib_each),
        peer_kib_each: rounded(peer_kib_each),
        peer_sessions: PEER_SESSIONS,
        peer_name: peer.name,
        wanted_kib_each: KIB_MOST,
        reached: linerate_kib_each <= KIB_MOST,
    })
}

/// Returns what the server's memory grows by with so many sessions, shared by their number. What its
/// processes share is shared out.
fn each(bench: &Bench<'_>, side: &Side, sessions: u32) -> anyhow::Result<f64> {
    let before = memory_kib(side.pid)?;
    let mut command = bench.command();
    command.args([
        "--mode",
        "idle",
        "--connections",
        &sessions.to_string(),
        "--seconds",
        &HELD_S.to_string(),
    ]);
    command.arg(side.url("")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut clients = Killed(command.spawn().context("cannot start the clients")?);
    let (mut most, give_up) = (before, Instant::now() + PATIENCE);
    while clients.0.try_wait()?.is_none() {
        // Its processes come and go meanwhile.
        most = memory_kib(side.pid).unwrap_or(most).max(most);
        if Instant::now() > give_up {
            bail!("{} did not take {sessions} sessions in {PATIENCE:?}", side.name);
        }
        std::thread::sleep(Duration::from_millis(500));
    }
    let mut said = String::new();
    let mut output = clients.0.stdout.take().context("it is piped")?;
    std::io::Read::read_to_string(&mut output, &mut said)?;
    let report: Report = serde_json::from_str(&said)?;
    ensure!(
        report.sessions == sessions && report.errors.is_empty(),
        "{}: {} of {sessions} signed in: {:?}",
        side.name,
        report.sessions,
        report.errors
    );
    Ok((most - before) / f64::from(sessions))
}

#[derive(serde::Deserialize)]
struct Report {
    sessions: u32,
    errors: std::collections::BTreeMap<String, u64>,
}

/// Returns the proportional share of memory of a process and its descendants.
fn memory_kib(pid: u32) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for pid in cpu::tree(pid)? {
        let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { continue };
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        sum += line
            .and_then(|line| line.split_whitespace().next())
            .map_or(Ok(0.0), str::parse::<f64>)
            .context("Pss is a number")?;
    }
    Ok(sum)
}

pub(super) const LOAD: &str = "idle sessions";
const KIB_MOST: f64 = 12.0;
/// A process each: as many as a small machine has room for.
const PEER_SESSIONS: u32 = 200;
const HELD_S: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(600);
