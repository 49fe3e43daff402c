//! One session of Linux's SMB client over both cards of a machine of two nodes: each connection is served on its card's node, with memory
//! that lies there, and a cable that is pulled is nothing that a program hears of.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::{ACCOUNTS, MOUNT, PASSWORD, STATE, TREE, USER, add_user, at, told};
use crate::lab::guest::metrics::{Looks, Scrape};
use crate::lab::guest::net::{self, Namespace};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, disk, modprobe, wait_for};
use crate::lab::machine::Machine;
use crate::lab::scenario::Scenario;
use crate::lab::scenario::fsx::{self, Mapping};
use crate::process;

pub(crate) struct CifsChannels;

impl Scenario for CifsChannels {
    fn name(&self) -> &'static str {
        "cifs-channels"
    }

    fn about(&self) -> &'static str {
        "a session of Linux's SMB client has connections by two cards, each on its card's node, and outlives a pulled cable"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["e2fsprogs", "gcc", "libc6-dev", "vmtouch"]
    }

    fn machines(&self) -> Vec<Machine> {
        vec![Machine { disk_mib: Some(512), ..Machine::two_nodes() }]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(900)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        let client = Namespace::new("client")?;
        for (node, server) in SERVER.iter().enumerate() {
            net::set_up(["n0", "n1"][node], &format!("{server}/24"))?;
            client.take(["c0", "c1"][node], &format!("10.{}.0.2/24", 70 + node))?;
        }
        disk::mount("/srv".as_ref())?;
        // It would bring pages home that the server had put elsewhere.
        fs::write("/proc/sys/kernel/numa_balancing", "0")?;
        fs::create_dir_all(TREE)?;
        add_user(guest)?;
        let server = guest.serve(&config())?;
        modprobe(&["cifs"])?;
        let outcome = used(guest, &server, client);
        if outcome.is_err() {
            told(guest, &server)?;
        }
        outcome
    }
}

fn used(guest: &mut Guest, server: &Server, client: Namespace) -> anyhow::Result<()> {
    let before = server.scrape()?;
    client.within(|| {
        super::mount_from(
            SERVER[0],
            &format!("vers=3.1.1,multichannel,max_channels={CHANNELS},echo_interval=2,hard"),
            PASSWORD,
        )
    })?;
    wait_for("all connections", || (connections().ok()?.iter().sum::<usize>() == CHANNELS).then_some(()))
        .with_context(|| format!("{:?}", connections()))?;
    each_is_served_on_its_node(guest, server, &before)?;
    memory_is_near(guest, server).context("where memory lies")?;
    let before = server.scrape()?;
    let load = std::thread::spawn(|| fsx::run(&at("fsx"), LOAD, Mapping::Unmapped));
    std::thread::sleep(LOAD / 4);
    let asked = by_node(&before, &server.scrape()?, REQUESTS)?;
    ensure!(asked.iter().all(|asked| *asked > 0.0), "requests on the nodes: {asked:?}");
    guest.set_carrier("n1", false)?;
    std::thread::sleep(LOAD / 4);
    guest.set_carrier("n1", true)?;
    let (steps, good) = load.join().expect("it panics at nothing").context("a random load")?;
    guest.figure("steps at random", steps, "steps")?;
    for (whose, path) in [("in the tree", format!("{TREE}/fsx")), ("to the client", at("fsx"))] {
        fsx::compare(&fs::read(path)?, &good)
            .with_context(|| format!("the file of the random load {whose}"))?;
    }
    let reads = || {
        let before = server.scrape().ok()?;
        disk::drop_caches().ok()?;
        fs::read(at("fsx")).ok()?;
        by_node(&before, &server.scrape().ok()?, REQUESTS).ok().filter(|[_, far]| *far > 0.0)
    };
    wait_for("requests by the card whose cable is back", reads)?;
    process::output("umount", &[MOUNT])?;
    Ok(())
}

/// Checks that as many connections have begun on each node as there are by its card.
fn each_is_served_on_its_node(guest: &mut Guest, server: &Server, before: &Scrape) -> anyhow::Result<()> {
    let there = connections()?;
    ensure!(there.iter().all(|there| *there > 0), "connections by the cards: {there:?}");
    let accepted = by_node(before, &server.scrape()?, ACCEPTED)?;
    for node in 0..SERVER.len() {
        guest.figure(&format!("connections by n{node}"), there[node] as f64, "")?;
        guest.figure(
            &format!("of these, on node {node}"),
            100.0 * accepted[node] / there[node] as f64,
            "%",
        )?;
        ensure!(accepted[node] == there[node] as f64, "by the cards: {there:?}, on the nodes: {accepted:?}");
    }
    Ok(())
}

/// Checks where memory lies while a file is read over all connections at once, of which nothing was in memory. Buffers
/// and the state of connections are on their lane's node, and so is what a lane reads of the file. Pages that another
/// lane had brought before lie there.
fn memory_is_near(guest: &mut Guest, server: &Server) -> anyhow::Result<()> {
    let directory = Path::new(TREE).join("cold");
    fs::create_dir(&directory)?;
    fs::write(directory.join("file"), vec![b'x'; COLD_BYTES])?;
    let before = server.scrape()?;
    let mut looks = Looks { now: before.clone(), before };
    let give_up = Instant::now() + Duration::from_secs(90);
    while !looks.are_enough()? {
        ensure!(Instant::now() < give_up, "the server has hardly looked at its memory:\n{}", server.log());
        disk::drop_caches()?;
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| fs::read(at("cold/file")));
            // The server looks at what it serves for those that ask.
            while !reading.is_finished() {
                looks.now = server.scrape()?;
                std::thread::sleep(Duration::from_secs(1));
            }
            let read = reading.join().expect("it panics at nothing")?;
            ensure!(read.len() == COLD_BYTES, "{} bytes of {COLD_BYTES}", read.len());
            Ok(())
        })?;
    }
    let pages = disk::file_pages_by_node(&directory, COLD_BYTES)?;
    for (node, on_it) in pages.iter().enumerate() {
        let share = 100.0 * *on_it as f64 / pages.iter().sum::<u64>() as f64;
        guest.figure(&format!("of a file's pages, on node {node}"), share, "%")?;
    }
    let remote = |family| looks.remote_percent(family);
    let (files, pools, state) = (remote("file")?, remote("pool")?, remote("state")?);
    guest.figure("file pages on another node than the lane", files, "%")?;
    guest.figure("buffers on another node than the lane", pools, "%")?;
    guest.figure("state of connections on another node than the lane", state, "%")?;
    ensure!(pools == 0.0 && state <= REMOTE_MAX && files <= REMOTE_MAX, "{files}, {pools}, {state}");
    Ok(())
}

/// Counts the connections of clients by each card.
fn connections() -> anyhow::Result<[usize; 2]> {
    let lines = process::output("ss", &["-Htn", "state", "established", "sport", "=", ":445"])?;
    Ok(SERVER.map(|server| lines.matches(&format!("{server}:445")).count()))
}

/// Returns by how much a counter of SMB's has grown on each node.
fn by_node(before: &Scrape, after: &Scrape, counter: &str) -> anyhow::Result<[f64; 2]> {
    let on = |node: usize| after.grown(before, counter, &[&format!("silo=\"{node}\"")]);
    Ok([on(0)?, on(1)?])
}

fn config() -> String {
    let interfaces: String = SERVER
        .iter()
        .map(|server| format!("[[smb.interface]]\naddress = \"{server}\"\nspeed = 10000000000\nrss = true\n"))
        .collect();
    format!(
        "[server]\nstate_dir = \"{STATE}\"\n[identity]\naccounts = \"{ACCOUNTS}\"\n\
         [http]\nlisten = []\n[https]\nlisten = []\n[smb]\nlisten = \"0.0.0.0:445\"\nsigning = \"allowed\"\n{interfaces}\
         [[volume]]\nname = \"tree\"\npath = \"{TREE}\"\nwritable = \"{USER}\"\nserve_dotfiles = true\n"
    )
}

/// Addresses of the server, by the card of each node.
const SERVER: [&str; 2] = ["10.70.0.1", "10.71.0.1"];
const CHANNELS: usize = 4;
const COLD_BYTES: usize = 64 << 20;
/// Largest remote share, per cent. A page here and there is taken by the CPU that comes first, as what is read ahead
/// of one lane's part is the beginning of another's.
const REMOTE_MAX: f64 = 10.0;
const LOAD: Duration = Duration::from_secs(120);
const ACCEPTED: &str = "linerate_smb_negotiated_311";
const REQUESTS: &str = "linerate_smb_requests";
