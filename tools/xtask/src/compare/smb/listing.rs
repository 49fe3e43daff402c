//! Listings of large directories by smbclient, warm and cold, and the memory that they take.

use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};

use super::Args;
use super::place::Place;
use super::side::{Linerate, PASSWORD, Side, Smbd, USER};
use crate::compare::{median, rounded};
use crate::{cpu, process};

/// A row's JSON line.
#[derive(serde::Serialize)]
struct Line {
    load: String,
    names: u32,
    linerate: Listed,
    peer: Listed,
    peer_name: &'static str,
    /// One statx(2) and one lgetxattr(2) for each name of getdents64(2), by one thread and without a client.
    bare_s: f64,
    pairs: u32,
    ratio_seconds: f64,
    wanted_ratio_seconds: f64,
    /// Growth of Linerate's resident memory since before the first sign-in.
    linerate_peak_mib: f64,
    wanted_peak_mib: f64,
    reached: bool,
}

/// Medians of a server's listings.
#[derive(serde::Serialize)]
struct Listed {
    seconds: f64,
    server_cpu_s: f64,
}

/// One listing.
struct Run {
    seconds: f64,
    cpu_s: f64,
    peak_bytes: u64,
}

/// Directory that is listed, and its state.
#[derive(Clone, Copy)]
struct Row {
    names: u32,
    is_cold: bool,
}

/// Place of the measurement.
struct Bench<'a> {
    binary: &'a Path,
    /// Directories of the servers' files, one for each.
    work: &'a Path,
    tree: &'a Path,
    args: &'a Args,
}

/// Measures and prints every row.
pub(super) fn run(binary: &Path, work: &Path, args: &Args) -> anyhow::Result<()> {
    let within = args.listing_dir.clone().unwrap_or_else(std::env::temp_dir);
    let tree = tempfile::Builder::new().prefix("linerate-listings").tempdir_in(within)?;
    let bench = Bench { binary, work, tree: tree.path(), args };
    for &names in &args.names {
        let directory = tree.path().join(DIRECTORY);
        std::fs::create_dir(&directory)?;
        for number in 0..names {
            std::fs::File::create(directory.join(format!("name-{number:07}")))?;
        }
        for is_cold in [false, true] {
            let row = Row { names, is_cold };
            println!("{}", serde_json::to_string(&bench.measure(row)?)?);
        }
        std::fs::remove_dir_all(&directory)?;
    }
    Ok(())
}

impl Row {
    fn load(self) -> String {
        format!("listing of {} names, {}", self.names, if self.is_cold { "cold" } else { "warm" })
    }
}

impl Bench<'_> {
    fn measure(&self, row: Row) -> anyhow::Result<Line> {
        let (load, pairs) = (row.load(), self.args.pairs);
        let (mut ours, mut theirs, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        let mut servers = self.servers(row, 0)?;
        for pair in 1..=pairs {
            // What a server remembers is part of what is warm.
            if row.is_cold && pair > 1 {
                drop(servers);
                servers = self.servers(row, pair)?;
            }
            let (linerate, smbd, idle) = &servers;
            let [peer, _] = smbd.sides();
            ours.push(listed(row, &linerate.side(), *idle)?);
            theirs.push(listed(row, &peer, 0)?);
            bare.push(bare_seconds(row, &self.tree.join(DIRECTORY))?);
            let (mine, other) = (&ours[ours.len() - 1], &theirs[theirs.len() - 1]);
            eprintln!(
                "{load} {pair}/{pairs}: linerate {:.2} s ({:.1} MiB), {} {:.2} s, bare {:.2} s",
                mine.seconds,
                mib(mine.peak_bytes),
                peer.name,
                other.seconds,
                bare[bare.len() - 1]
            );
        }
        let [peer, _] = servers.1.sides();
        let ratio = median(ours.iter().zip(&theirs).map(|(ours, theirs)| ours.seconds / theirs.seconds));
        let peak = ours.iter().map(|run| mib(run.peak_bytes)).fold(0.0, f64::max);
        Ok(Line {
            load,
            names: row.names,
            linerate: medians(&ours),
            peer: medians(&theirs),
            peer_name: peer.name,
            bare_s: rounded(median(bare)),
            pairs,
            ratio_seconds: rounded(ratio),
            wanted_ratio_seconds: RATIO_MOST,
            linerate_peak_mib: rounded(peak),
            wanted_peak_mib: PEAK_MIB_MOST,
            reached: ratio <= RATIO_MOST && peak <= PEAK_MIB_MOST,
        })
    }

    /// Starts both servers anew, and returns what Linerate's memory is before it has anything to do. Warm,
    /// each has listed the directory once.
    fn servers(&self, row: Row, pair: u32) -> anyhow::Result<(Linerate, Smbd, u64)> {
        let kind = if row.is_cold { "cold" } else { "warm" };
        let work = self.work.join(format!("listing-{}-{kind}-{pair}", row.names));
        std::fs::create_dir(&work)?;
        let place = Place::Loopback;
        let linerate = Linerate::start(self.binary, &work, self.tree, place.address(0)?, None)?;
        let idle = cpu::resident_bytes(linerate.side().pid)?;
        let smbd = Smbd::start(&place, self.args.smbd, &work, self.tree)?;
        if !row.is_cold {
            let [peer, _] = smbd.sides();
            for side in [&linerate.side(), &peer] {
                listed(row, side, 0)?;
            }
        }
        Ok((linerate, smbd, idle))
    }
}

/// Lists the directory once by smbclient, and counts every name.
fn listed(row: Row, side: &Side, idle_bytes: u64) -> anyhow::Result<Run> {
    make_cold(row)?;
    let before = cpu::of_tree(side.pid)?;
    cpu::forget_peak(side.pid)?;
    let began = Instant::now();
    let mut command = Command::new("smbclient");
    command.arg(format!("//{}/{}", side.address.ip(), side.share));
    command.args(["--command", &format!("ls {DIRECTORY}\\*"), "--port", &side.address.port().to_string()]);
    command.args(["--user", &format!("{USER}%{PASSWORD}")]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut client = process::Killed(command.spawn().context("cannot start smbclient")?);
    let said = BufReader::new(client.0.stdout.take().context("it is piped")?);
    let mut found = 0;
    for line in said.split(b'\n') {
        found += u32::from(line?.starts_with(b"  name-"));
    }
    ensure!(client.0.wait()?.success(), "{}: smbclient failed", side.name);
    let seconds = began.elapsed().as_secs_f64();
    ensure!(found == row.names, "{}: {found} of {} names", side.name, row.names);
    let peak_bytes = cpu::peak_bytes(side.pid)?.saturating_sub(idle_bytes);
    Ok(Run { seconds, cpu_s: cpu::of_tree(side.pid)? - before, peak_bytes })
}

/// Returns what the file system alone takes for what a listing tells.
fn bare_seconds(row: Row, directory: &Path) -> anyhow::Result<f64> {
    use std::os::unix::ffi::OsStrExt;
    make_cold(row)?;
    let began = Instant::now();
    let (mut found, mut value) = (0, [0; 256]);
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        entry.metadata()?;
        let path = CString::new(entry.path().as_os_str().as_bytes())?;
        // Few have it.
        let _ = rustix::fs::lgetxattr(&path, c"user.DOSATTRIB", &mut value[..]);
        found += 1;
    }
    ensure!(found == row.names, "{found} of {} names", row.names);
    Ok(began.elapsed().as_secs_f64())
}

fn make_cold(row: Row) -> anyhow::Result<()> {
    if row.is_cold {
        rustix::fs::sync();
        let path = "/proc/sys/vm/drop_caches";
        std::fs::write(path, "3").context("cold listings need root: /proc/sys/vm/drop_caches")?;
    }
    Ok(())
}

fn medians(runs: &[Run]) -> Listed {
    Listed {
        seconds: rounded(median(runs.iter().map(|run| run.seconds))),
        server_cpu_s: rounded(median(runs.iter().map(|run| run.cpu_s))),
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Name by which `--load` chooses it.
pub(super) const LOAD: &str = "listing";
const DIRECTORY: &str = "many";
const RATIO_MOST: f64 = 1.0;
const PEAK_MIB_MOST: f64 = 64.0;
