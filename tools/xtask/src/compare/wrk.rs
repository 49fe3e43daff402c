//! One run of wrk against a server, with the server's processor time beside it.

use std::path::Path;

use anyhow::{Context, bail};

use crate::server::Subject;
use crate::{cpu, process};

/// Result of one run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Run {
    pub(crate) requests_per_second: f64,
    pub(crate) gbit_per_second: f64,
    pub(crate) cpu_us_per_request: f64,
    pub(crate) cpu_s_per_gib: f64,
}

pub(crate) fn run(
    subject: &Subject,
    url: &str,
    connections: u32,
    seconds: u32,
    body: u64,
) -> anyhow::Result<Run> {
    run_with(subject, url, connections, seconds, body, None)
}

/// Runs wrk ([`run`]) with requests that a script makes, of `body` bytes each way.
pub(crate) fn run_with(
    subject: &Subject,
    url: &str,
    connections: u32,
    seconds: u32,
    body: u64,
    script: Option<&Path>,
) -> anyhow::Result<Run> {
    let before = cpu::of_tree(subject.server.pid())?;
    let mut args = vec!["-t2".to_owned(), format!("-c{connections}"), format!("-d{seconds}s")];
    if let Some(script) = script {
        args.extend(["-s".to_owned(), script.display().to_string()]);
    }
    args.push(url.to_owned());
    let text = process::output("wrk", &args)?;
    let cpu_s = cpu::of_tree(subject.server.pid())? - before;
    // A truncated or failed answer must never pass for a fast one.
    if let Some(bad) = text.lines().find(|line| line.contains("Non-2xx") || line.contains("Socket errors")) {
        bail!("{} at {url}: {}", subject.name, bad.trim());
    }
    let requests: f64 = number_before(&text, " requests in ")?;
    let requests_per_second: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"))
        .context("wrk printed no Requests/sec")?
        .trim()
        .parse()?;
    let gib = requests * body as f64 / f64::from(1 << 30);
    Ok(Run {
        requests_per_second,
        gbit_per_second: requests_per_second * body as f64 * 8.0 / 1e9,
        cpu_us_per_request: cpu_s * 1e6 / requests,
        cpu_s_per_gib: cpu_s / gib,
    })
}

fn number_before(text: &str, mark: &str) -> anyhow::Result<f64> {
    let line =
        text.lines().find(|line| line.contains(mark)).with_context(|| format!("wrk printed no{mark}line"))?;
    let number = line.split(mark).next().unwrap_or("").trim();
    number.parse().with_context(|| format!("not a number: {number:?}"))
}
