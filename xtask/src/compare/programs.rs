//! The programs that a comparison runs, and where they run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Programs that are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Programs<'p> {
    pub(super) linerate: &'p Path,
    /// Stock peers, where there are any.
    pub(super) stock: &'p Path,
    /// Scheduled before everything else on the machine.
    pub(super) ahead: bool,
    /// More flags for Linerate's server, where it is one of `linerate bench`.
    pub(super) flags: &'p [String],
}

impl Programs<'_> {
    /// Of one of them, on this CPU if one is said.
    pub(super) fn command(&self, program: &Path, cpu: Option<usize>) -> Command {
        let cpu = cpu.map(|cpu| cpu.to_string());
        let mut words: Vec<&str> = Vec::new();
        if let Some(cpu) = &cpu {
            words.extend(["taskset", "--cpu-list", cpu]);
        }
        if self.ahead {
            words.extend(["chrt", "--rr", "1"]);
        }
        let mut command = match words.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.stdin(Stdio::null());
        command
    }
}

/// Returns what a program says as JSON.
pub(super) fn json<T: DeserializeOwned>(command: &mut Command) -> anyhow::Result<T> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot start the load")?;
    ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// As much of a report of `linerate bench afs` or `oob` as counts here.
#[derive(Debug, Deserialize)]
pub(super) struct BenchReport {
    pub(super) calls: u64,
    pub(super) seconds: f64,
    bytes_sent: u64,
    bytes_received: u64,
    errors: BTreeMap<String, u64>,
    pub(super) over_tcp: u64,
    pub(super) fell_back: u64,
    pub(super) server_cpu_seconds: f64,
    pub(super) client_cpu_seconds: f64,
}

impl BenchReport {
    /// Of a load on the server of this name, all of whose calls have to be well.
    pub(super) fn of(command: &mut Command, server: &str) -> anyhow::Result<Self> {
        let report: Self = json(command)?;
        ensure!(report.errors.is_empty(), "calls of {server} failed: {:?}", report.errors);
        ensure!(report.calls > 0, "no call of {server} ended");
        Ok(report)
    }

    /// Bytes of files, both ways together.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes_sent + self.bytes_received
    }
}

/// CPUs of sides that have one each.
pub(super) const SERVER_CPU: usize = 0;
pub(super) const CLIENT_CPU: usize = 1;
