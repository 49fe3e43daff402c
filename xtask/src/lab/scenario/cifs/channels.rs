//! One session of Linux's SMB client over both cards of a machine of two nodes: each connection is served on its card's node, and a cable
//! that is pulled is nothing that a program hears of.

use std::fs;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::{ACCOUNTS, MOUNT, PACKAGES, PASSWORD, STATE, TREE, USER, add_user, at, told};
use crate::lab::guest::metrics::Scrape;
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
        PACKAGES
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
    ensure!(fs::read(format!("{TREE}/fsx"))? == good, "the file of the random load is another in the tree");
    ensure!(fs::read(at("fsx"))? == good, "the file of the random load is another to the client");
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

/// As many connections as there are by each card have begun on its node.
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

/// Connections of clients by each card.
fn connections() -> anyhow::Result<[usize; 2]> {
    let lines = process::output("ss", &["-Htn", "state", "established", "sport", "=", ":445"])?;
    Ok(SERVER.map(|server| lines.matches(&format!("{server}:445")).count()))
}

/// By how much a counter of SMB's has grown on each node.
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
         [http]\nlisten = []\n[https]\nlisten = []\n[smb]\nlisten = \"0.0.0.0:445\"\n{interfaces}\
         [[volume]]\nname = \"tree\"\npath = \"{TREE}\"\nwritable = \"{USER}\"\nhidden = true\n"
    )
}

/// By the card of each node.
const SERVER: [&str; 2] = ["10.70.0.1", "10.71.0.1"];
const CHANNELS: usize = 4;
const LOAD: Duration = Duration::from_secs(120);
const ACCEPTED: &str = "linerate_smb_negotiated_311";
const REQUESTS: &str = "linerate_smb_requests";
