//! SMB against Debian's smbd over the same tree: reads and writes unsigned, signed and encrypted, small reads, opens, idle
//! sessions, channels that cost and that die, listings of large directories. `linerate bench smb` is the client of both; smbclient stands
//! beside.

use std::cell::Cell;
use std::process::Command;

use anyhow::{Context, ensure};

use super::turns;
use super::wrk::Run;
use crate::{packages, process};

mod idle;
mod killed;
mod listing;
mod place;
mod row;
mod run;
mod side;
mod storm;
mod wires;

use place::{Place, Wires};
use row::Row;
use side::{Linerate, Release, Side, Smbd};

/// Flags of `cargo xtask compare smb`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Seconds of each run; without it 4, and 60 where channels are killed
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// Runs of each server and load
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Only loads whose name contains this
    #[arg(long)]
    load: Option<String>,
    /// One session over up to four connections by four pairs of virtual NICs, in place of the other loads (as root)
    #[arg(long)]
    multichannel: bool,
    /// Which smbd is the peer
    #[arg(long, value_enum, default_value = "4.17")]
    smbd: Release,
    /// Measure the `release` build beside the `dist` build in place of smbd
    #[arg(long, conflicts_with_all = ["multichannel", "binary"])]
    release: bool,
    /// Compare all bytes: it costs the clients' time, and shows that both are right
    #[arg(long)]
    verify: bool,
    /// The program to measure; without it the release build is made
    #[arg(long)]
    binary: Option<std::path::PathBuf>,
    /// Sessions of the row of idle ones
    #[arg(long, default_value_t = 10_000)]
    idle_sessions: u32,
    /// Names of the directories that are listed
    #[arg(long, value_delimiter = ',', default_value = "1000,100000,1000000")]
    names: Vec<u32>,
    /// Where directories to be listed are made: on a disk, so that they can be cold (as root); else the directory for temporary files
    #[arg(long)]
    listing_dir: Option<std::path::PathBuf>,
}

impl Args {
    fn seconds(&self) -> u32 {
        self.seconds.unwrap_or(4)
    }

    fn wants(&self, load: &str) -> bool {
        self.load.as_ref().is_none_or(|part| load.contains(part))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.pairs > 0, "give at least one pair");
    packages::install(packages::STOCK_SMB)?;
    if args.release {
        return release_beside_dist(args);
    }
    let binary = match &args.binary {
        Some(binary) => binary.clone(),
        None => process::dist_binary()?,
    };
    let (work, tree) = make_tree()?;
    let wants = |name: &str| args.wants(name);
    let rows = row::all().filter(|row| row.is_multichannel() == args.multichannel && wants(row.bar.load));
    let place = if args.multichannel { Place::Wires(Wires::new()?) } else { Place::Loopback };
    let address = place.address(OURS)?;
    let ours = place.at_server(|| Linerate::start(&binary, work.path(), &tree, address, None))?;
    let smbd = Smbd::start(&place, args.smbd, work.path(), &tree)?;
    let bench = Bench { binary: &binary, place: &place };
    for row in rows {
        println!("{}", serde_json::to_string(&measure(&row, args, &bench, &ours, &smbd)?)?);
    }
    for row in killed::ROWS.into_iter().filter(|row| args.multichannel && wants(row.load)) {
        let seconds = args.seconds.unwrap_or(killed::SECONDS);
        println!("{}", serde_json::to_string(&killed::measure(row, &bench, &ours, &smbd, seconds)?)?);
    }
    if wants(wires::LOAD) && args.multichannel {
        for line in wires::measure(&bench, work.path(), &tree, (args.pairs, args.seconds()))? {
            println!("{}", serde_json::to_string(&line)?);
        }
    }
    for row in storm::ROWS.into_iter().filter(|row| args.multichannel && wants(row.load)) {
        println!("{}", serde_json::to_string(&storm::measure(row, &bench, &ours, &smbd))?);
    }
    if wants(idle::LOAD) && !args.multichannel {
        let line = idle::measure(&bench, &ours, &smbd, args.idle_sessions)?;
        println!("{}", serde_json::to_string(&line)?);
    }
    if wants(listing::LOAD) && !args.multichannel {
        drop((ours, smbd));
        listing::run(&binary, work.path(), args)?;
    }
    Ok(())
}

/// Measures what building from source costs: the `release` build with the `dist` build as its peer. Either
/// has a tree of its own, as one server writes to a tree.
fn release_beside_dist(args: &Args) -> anyhow::Result<()> {
    let (dist, release) = (process::dist_binary()?, process::release_binary()?);
    let place = Place::Loopback;
    let (of_release, of_dist) = (make_tree()?, make_tree()?);
    let start = |binary, (work, tree): &(tempfile::TempDir, std::path::PathBuf)| {
        Linerate::start(binary, work.path(), tree, place.address(OURS)?, None)
    };
    let (ours, peer) = (start(&release, &of_release)?, start(&dist, &of_dist)?);
    let bench = Bench { binary: &dist, place: &place };
    for row in row::all().filter(|row| !row.is_multichannel() && args.wants(row.bar.load)) {
        let one = |side: &Side, seconds| run::run(&row, side, &bench, seconds, args.verify);
        one(&ours.side(), 1)?;
        one(&peer.side(), 1)?;
        let seconds = args.seconds();
        let bar = row.bar.of_release();
        let line = turns::compare(bar, args.pairs, &ours.side(), &peer.side(), "linerate of dist", |side| {
            one(side, seconds)
        })?;
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(())
}

/// `linerate bench smb`, and from where it comes.
struct Bench<'a> {
    binary: &'a std::path::Path,
    place: &'a Place,
}

impl Bench<'_> {
    /// Makes the command, with the channels spread over all of the server's interfaces.
    fn command(&self) -> Command {
        self.command_over(&self.place.interfaces())
    }

    /// Makes the command over these interfaces.
    fn command_over(&self, interfaces: &[String]) -> Command {
        let mut command = Command::new(self.binary);
        command.env("LINERATE_PASSWORD", side::PASSWORD).args(["bench", "smb", "--json"]);
        if !interfaces.is_empty() {
            command.args(["--interfaces", &interfaces.join(",")]);
        }
        command
    }
}

/// A row. Its peer may hang: smbd does for a minute, now and then, when several connections of a client sign in at
/// once.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Measured {
    Beside {
        #[serde(flatten)]
        line: turns::Line,
        /// Runs that the peer did not come through, and that were made again.
        peer_hung: u32,
    },
    /// The load came through too few: there is nothing to compare with.
    PeerHung { load: &'static str, peer_hung: u32 },
}

fn measure(
    row: &Row,
    args: &Args,
    bench: &Bench<'_>,
    ours: &Linerate,
    smbd: &Smbd,
) -> anyhow::Result<Measured> {
    let (hung, is_out) = (Cell::new(0), Cell::new(false));
    let one = |side: &Side, seconds| loop {
        let ran = bench.place.at_client(|| run::run(row, side, bench, seconds, args.verify));
        let ran = ran.with_context(|| format!("{} with {}", row.bar.load, side.name));
        let Err(error) = ran else { return ran };
        if side.pid == ours.side().pid {
            return Err(error);
        }
        eprintln!("{error:#}");
        hung.set(hung.get() + 1);
        if hung.get() > HANGS_MAX {
            is_out.set(true);
            return Err(error);
        }
    };
    let line = beside(row, args, ours, smbd, one);
    let peer_hung = hung.get();
    match line {
        Err(_) if is_out.get() => Ok(Measured::PeerHung { load: row.bar.load, peer_hung }),
        line => Ok(Measured::Beside { line: line?, peer_hung }),
    }
}

fn beside(
    row: &Row,
    args: &Args,
    ours: &Linerate,
    smbd: &Smbd,
    one: impl Fn(&Side, u32) -> anyhow::Result<Run>,
) -> anyhow::Result<turns::Line> {
    // They warm up, and smbd shows which of its modules does better here.
    one(&ours.side(), 1)?;
    let mut peer = None;
    for side in smbd.sides() {
        let rate = one(&side, args.seconds().min(2))?.requests_per_second;
        eprintln!("{}: {} {rate:.0}/s", row.bar.load, side.name);
        if peer.as_ref().is_none_or(|(best, _)| rate > *best) {
            peer = Some((rate, side));
        }
    }
    let (_, peer) = peer.context("smbd has shares")?;
    turns::compare(row.bar, args.pairs, &ours.side(), &peer, peer.name, |side| one(side, args.seconds()))
}

/// Returns what is served, and the directory that it lies in. Files in memory: disks are not what is
/// compared.
fn make_tree() -> anyhow::Result<(tempfile::TempDir, std::path::PathBuf)> {
    let work = tempfile::Builder::new().prefix("linerate-compare").tempdir_in("/dev/shm")?;
    let tree = work.path().join("tree");
    std::fs::create_dir_all(tree.join(row::WRITTEN))?;
    make_file(&tree.join(row::FILE), row::FILE_BYTES)?;
    std::fs::write(tree.join(row::SMALL), [7; 100])?;
    Ok((work, tree))
}

/// Makes a file each of whose pieces begins with its number.
fn make_file(path: &std::path::Path, len: u64) -> anyhow::Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::create(path)?;
    for at in 0..len >> 20 {
        let mut piece = vec![(at * 31) as u8; 1 << 20];
        piece[..8].copy_from_slice(&at.to_le_bytes());
        file.write_all(&piece)?;
    }
    Ok(())
}

/// Number of our address among the place's.
const OURS: u16 = 0;
/// A row goes on without a peer that has hung so often.
const HANGS_MAX: u32 = 3;
