//! AFS over a long way that loses packets: the stock file server and Linerate, at the same time, behind a way of its own each. The client is
//! `linerate put` and `get`, with four connections; over TCP too, which the stock server does not speak. Unlike `cargo xtask lab
//! afs-long-link` it runs on this machine's own processor and kernel, and needs no netem.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use self::link::{Conditions, Way};
use self::site::Site;
use super::rounded;
use crate::{packages, process};

mod link;
mod site;

/// Flags of `cargo xtask compare long-link`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Length of the file that is stored and fetched, MiB
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=4096))]
    mib: u64,
    /// A round trip, ms
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u64).range(..=1000))]
    round_trip_ms: u64,
    /// Packets lost each way, percent
    #[arg(long, default_value_t = 1.0)]
    loss_percent: f64,
    /// A release binary of linerate to measure, instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// One load's JSON line.
#[derive(Debug, serde::Serialize)]
struct Line {
    load: &'static str,
    mib: u64,
    linerate_mbit_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer_mbit_per_second: Option<f64>,
    peer_name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_throughput: Option<f64>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    packages::install(packages::STOCK_AFS)?;
    let linerate = match &args.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => process::dist_binary()?,
    };
    let work = tempfile::Builder::new().prefix("linerate-long-link").tempdir()?;
    let file = work.path().join(FILE);
    process::output(
        "openssl",
        &["rand", "-out", &file.display().to_string(), &(args.mib << 20).to_string()],
    )?;
    // Half of the round trip each way.
    let conditions = Conditions { delay_us: args.round_trip_ms * 500, loss_percent: args.loss_percent };
    let link = link::compile(work.path())?;
    let (stock, ours) = (Site::stock()?, Site::ours(work.path(), &linerate)?);
    let to = |site: &Site, name: &str| -> anyhow::Result<Client> {
        let way = Way::to(site.namespace(), site.address(), conditions, &link)?;
        let back = work.path().join(format!("back-{name}"));
        Ok(Client { way, root: site.root(), linerate: linerate.clone(), file: file.clone(), back })
    };
    let (to_stock, to_ours) = (to(&stock, "stock")?, to(&ours, "ours")?);
    let (theirs, own) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| to_stock.there_and_back(Over::Rx));
        let own =
            to_ours.there_and_back(Over::Rx).and_then(|rx| Ok((rx, to_ours.there_and_back(Over::Tcp)?)));
        (theirs.join().expect("it panics at nothing"), own)
    });
    let (theirs, (rx, tcp)) = (theirs?, own?);
    for (load, linerate, peer) in [
        ("store over Rx", rx.store, Some(theirs.store)),
        ("fetch over Rx", rx.fetch, Some(theirs.fetch)),
        ("store over TCP", tcp.store, None),
        ("fetch over TCP", tcp.fetch, None),
    ] {
        let rate = |seconds: f64| rounded((args.mib << 20) as f64 * 8.0 / seconds / 1e6);
        let line = Line {
            load,
            mib: args.mib,
            linerate_mbit_per_second: rate(linerate),
            peer_mbit_per_second: peer.map(rate),
            peer_name: "dafileserver",
            ratio_throughput: peer.map(|peer| rounded(peer / linerate)),
        };
        println!("{}", serde_json::to_string(&line)?);
    }
    Ok(())
}

/// Transport that carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Rx,
    Tcp,
}

/// Seconds that the file took.
#[derive(Clone, Copy, Debug)]
struct Seconds {
    store: f64,
    fetch: f64,
}

/// Linerate's client at the near end of a way.
struct Client {
    way: Way,
    /// The volume, as the client names it.
    root: String,
    linerate: PathBuf,
    file: PathBuf,
    back: PathBuf,
}

impl Client {
    /// Returns what comes back is what went.
    fn there_and_back(&self, over: Over) -> anyhow::Result<Seconds> {
        let store =
            self.timed("put", &["--overwrite".as_ref(), self.file.as_ref(), self.root.as_ref()], over)?;
        // What came before must not serve as a part of it.
        let _ = fs::remove_file(&self.back);
        let from = format!("{}/{FILE}", self.root);
        let fetch = self.timed("get", &[from.as_ref(), "-o".as_ref(), self.back.as_ref()], over)?;
        process::output("cmp", &[&self.file, &self.back]).context("what came back is another")?;
        Ok(Seconds { store, fetch })
    }

    fn timed(&self, command: &str, words: &[&Path], over: Over) -> anyhow::Result<f64> {
        let from = if over == Over::Tcp { "1M" } else { "0" };
        let started = Instant::now();
        let output = self.way.at_clients(|| {
            let mut program = Command::new(&self.linerate);
            program
                .args([command, "--oob-threshold", from])
                .args(words)
                .output()
                .context("cannot start linerate")
        })?;
        ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{command} {} over {over:?}: {seconds:.1} s", self.root);
        Ok(seconds)
    }
}

const FILE: &str = "file";
