//! Changes: names made and taken away by a volume beside the bare system calls, and uploads beside nginx's and beside what the
//! kernel alone takes for them.

use std::path::Path;

use anyhow::{Context, ensure};

use super::turns::{self, Bar, Line};
use super::{floor, median, rounded, wrk};
use crate::server::{self, Subject, Uploads};
use crate::{packages, process};

/// Flags of `cargo xtask compare write`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each run of uploads
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Runs of each side and load
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Only loads whose name contains this
    #[arg(long)]
    load: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.pairs > 0 && args.seconds > 0, "give at least one pair of one second");
    let wants = |name: &str| args.load.as_ref().is_none_or(|part| name.contains(part));
    if wants(NAMES) {
        println!("{}", serde_json::to_string(&names(args)?)?);
    }
    if wants(floor::LOAD) {
        let dir = tempfile::Builder::new().prefix("linerate-floor").tempdir_in("/dev/shm")?;
        let line = floor::measure(dir.path(), UPLOAD_BYTES as usize, args.pairs)?;
        println!("{}", serde_json::to_string(&line)?);
    }
    if wants(UPLOADS) {
        println!("{}", serde_json::to_string(&uploads(args)?)?);
    }
    Ok(())
}

/// Processor time of one file made and taken away.
#[derive(Clone, Copy, serde::Deserialize)]
struct Names {
    bare_ns: f64,
    volume_ns: f64,
}

#[derive(serde::Serialize)]
struct NamesLine {
    load: &'static str,
    volume_ns: f64,
    bare_ns: f64,
    peer_name: &'static str,
    runs: u32,
    ratio_of_bare_rate: f64,
    wanted: f64,
    reached: bool,
}

/// Measures both sides in turns in one process, on one thread: see the benchmark.
fn names(args: &Args) -> anyhow::Result<NamesLine> {
    let mut runs = Vec::new();
    for run in 1..=args.pairs {
        let bench = ["bench", "--quiet", "--package", "vfs", "--bench", "changes", "--", "--json"];
        let text = process::output("cargo", &bench)?;
        let line =
            text.lines().find(|line| line.starts_with('{')).context("the benchmark printed no line")?;
        let names: Names = serde_json::from_str(line)?;
        eprintln!("{NAMES} {run}/{}: {:.0} ns, bare {:.0} ns", args.pairs, names.volume_ns, names.bare_ns);
        runs.push(names);
    }
    let ratio = median(runs.iter().map(|run| run.bare_ns / run.volume_ns));
    Ok(NamesLine {
        load: NAMES,
        volume_ns: rounded(median(runs.iter().map(|run| run.volume_ns))),
        bare_ns: rounded(median(runs.iter().map(|run| run.bare_ns))),
        peer_name: "openat, close, unlinkat",
        runs: args.pairs,
        ratio_of_bare_rate: rounded(ratio),
        wanted: NAMES_RATIO_LEAST,
        reached: ratio >= NAMES_RATIO_LEAST,
    })
}

fn uploads(args: &Args) -> anyhow::Result<Line> {
    packages::install(packages::COMPARE)?;
    let work = tempfile::Builder::new().prefix("linerate-compare").tempdir_in("/dev/shm")?;
    let (cert, key) = server::make_certificate(work.path())?;
    // Each its own, so that neither replaces what the other has written.
    let trees = ["linerate", "nginx"].map(|name| work.path().join(format!("{name}-tree")));
    for tree in &trees {
        std::fs::create_dir(tree)?;
    }
    let linerate = server::linerate(work.path(), &trees[0], &cert, &key, Uploads::Taken)?;
    let peer = server::nginx(work.path(), &trees[1], &cert, &key, Uploads::Taken)?;
    let script = work.path().join("put.lua");
    std::fs::write(&script, SCRIPT.replace("BYTES", &UPLOAD_BYTES.to_string()))?;
    let put = |subject: &Subject, seconds| {
        wrk::run_with(subject, &subject.url(false, ""), CONNECTIONS, seconds, UPLOAD_BYTES, Some(&script))
    };
    for (subject, tree) in [(&linerate, &trees[0]), (&peer, &trees[1])] {
        put(subject, 1)?;
        check_uploads(subject, tree)?;
    }
    turns::compare(UPLOADS_BAR, args.pairs, &linerate, &peer, peer.name, |subject| put(subject, args.seconds))
}

/// Checks that what was answered as stored is there, whole.
fn check_uploads(subject: &Subject, tree: &Path) -> anyhow::Result<()> {
    let mut files = 0;
    for entry in std::fs::read_dir(tree)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("upload-") {
            let bytes = std::fs::read(entry.path())?;
            let is_whole = bytes.len() as u64 == UPLOAD_BYTES && bytes.iter().all(|&byte| byte == b'u');
            ensure!(is_whole, "{} stored other bytes than were sent", subject.name);
            files += 1;
        }
    }
    ensure!(files > 1, "{} stored {files} files", subject.name);
    Ok(())
}

/// Each request replaces one of sixteen files for each of wrk's threads.
const SCRIPT: &str = r#"
local count, threads = 0, 0
function setup(thread) thread:set("number", threads); threads = threads + 1 end
function init()
  local body, requests = string.rep("u", BYTES), {}
  for n = 0, 15 do requests[n] = wrk.format("PUT", "/upload-" .. number .. "-" .. n, nil, body) end
  function request() count = count + 1; return requests[count % 16] end
end
"#;

const NAMES: &str = "create and remove";
/// Least rate, as a part of the rate of the bare calls.
const NAMES_RATIO_LEAST: f64 = 0.6;

const UPLOADS: &str = "PUT 1 MiB plain";
const UPLOADS_BAR: Bar = Bar { load: UPLOADS, throughput_least: Some(1.2), cpu_most: Some(0.8) };
const UPLOAD_BYTES: u64 = 1 << 20;
const CONNECTIONS: u32 = 16;
