//! Runs the benchmarks under valgrind by gungraun and takes the instruction counts out of its report.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::process;

/// Installs gungraun's runner, which must be of the library's own version.
pub(super) fn install_runner() -> anyhow::Result<()> {
    let package = process::output("cargo", &["pkgid", "--package", "gungraun"])?;
    let (_, wanted) = package.trim().rsplit_once(['@', '#']).context("cargo pkgid gives no version")?;
    let have = process::output("gungraun-runner", &["--version"]).unwrap_or_default();
    if have.split_whitespace().last() == Some(wanted) {
        return Ok(());
    }
    process::run("cargo", &["install", "--locked", "--debug", "--version", wanted, "gungraun-runner"])
}

/// Instructions of every benchmark, under `crate::function::case`.
pub(super) fn counts() -> anyhow::Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for line in bench()?.lines() {
        let summary: Summary =
            serde_json::from_str(line).with_context(|| format!("gungraun reports {line:?}"))?;
        let (name, instructions) = summary.count()?;
        counts.insert(name, instructions);
    }
    if counts.is_empty() {
        bail!("no benchmark ran");
    }
    Ok(counts)
}

fn bench() -> anyhow::Result<String> {
    let args = [
        "bench",
        "--profile",
        "counts",
        "--package",
        "counts",
        "--bench",
        "instructions",
        "--",
        "--output-format=json",
    ];
    eprintln!("$ cargo {}", args.join(" "));
    let output = Command::new("cargo")
        .args(args)
        .current_dir(process::root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo bench failed: {}", output.status);
    }
    String::from_utf8(output.stdout).context("gungraun's report is not UTF-8")
}

/// One benchmark in gungraun's machine-readable report, as far as it is used here.
#[derive(Deserialize)]
struct Summary {
    /// The program, the group, `in_` and the name of the crate that it measures, and the function.
    module_path: String,
    function_name: String,
    id: Option<String>,
    profiles: Vec<Profile>,
}

#[derive(Deserialize)]
struct Profile {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    total: Total,
}

#[derive(Deserialize)]
struct Total {
    metrics: Metrics,
}

#[derive(Deserialize)]
struct Metrics {
    #[serde(rename = "Ir")]
    instructions: Metric,
}

#[derive(Deserialize)]
struct Metric {
    values: Values,
}

#[derive(Deserialize)]
struct Values {
    new: u64,
}

impl Summary {
    fn count(self) -> anyhow::Result<(String, u64)> {
        let group = self.module_path.split("::").nth(1).context("gungraun names no group")?;
        let package = group.strip_prefix("in_").unwrap_or(group);
        let name = match &self.id {
            Some(id) => format!("{package}::{}::{id}", self.function_name),
            None => format!("{package}::{}", self.function_name),
        };
        let profile = self.profiles.first().with_context(|| format!("{name} was not counted"))?;
        Ok((name, profile.data.total.metrics.instructions.values.new))
    }
}
