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
    /// Program of the stock peer or its clients, where there is one; else Linerate's.
    pub(super) stock: &'p Path,
    /// Set if the programs are scheduled before everything else on the machine.
    pub(super) ahead: bool,
    /// Further flags for Linerate's server, where it is one of `linerate bench`.
    pub(super) flags: &'p [String],
}

impl Programs<'_> {
    /// Makes the command that runs one of the programs, on a given CPU if there is one.
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

/// Fields that the comparison reads from a report of `linerate bench afs` or `oob`.
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
    /// Runs a load on the server of this name and reads its report. Fails unless all of its calls succeed.
    pub(super) fn of(command: &mut Command, server: &str) -> anyhow::Result<Self> {
        let report: Self = json(command)?;
        ensure!(report.errors.is_empty(), "calls of {server} failed: {:?}", report.errors);
        ensure!(report.calls > 0, "no call of {server} ended");
        Ok(report)
    }

    /// Returns the bytes of files, both directions together.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes_sent + self.bytes_received
    }
}

/// CPU of the server, where sides have one each.
pub(super) const SERVER_CPU: usize = 0;
pub(super) const CLIENT_CPU: usize = 1;
