//! Replies leave by the card of the node that serves them, with the commands that `linerate doctor` prints, and a
//! pulled cable stops no transfer.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Scenario;
use crate::lab::guest::net::{self, Namespace, ip};
use crate::lab::guest::server::Server;
use crate::lab::guest::{Guest, wait_for};
use crate::process;

pub(crate) struct Egress;

impl Scenario for Egress {
    fn name(&self) -> &'static str {
        "egress"
    }

    fn about(&self) -> &'static str {
        "replies leave by the card of their node, behind a bond too, and a pulled cable stops no transfer"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["openssl", "diffutils"]
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(600)
    }

    fn run(&self, guest: &mut Guest) -> anyhow::Result<()> {
        std::fs::create_dir_all("/tmp/tree")?;
        process::output("openssl", &["rand", "-out", "/tmp/tree/file", &FILE_BYTES.to_string()])?;
        one_address_for_each_card(guest)?;
        let clients = join_the_cards()?;
        let marks = behind_a_bond(guest, clients)?;
        a_cable_is_pulled(guest, clients, &marks)
    }
}

/// Clients come from beyond routers; the main table sends every reply to the router behind `n0`.
fn one_address_for_each_card(guest: &mut Guest) -> anyhow::Result<()> {
    let clients = Namespace::new("routed")?;
    for (node, card) in CARDS.into_iter().enumerate() {
        net::set_up(card, &format!("10.{}.0.1/24", 75 + node))?;
        clients.take(CLIENT_CARDS[node], &format!("10.{}.0.2/24", 75 + node))?;
    }
    clients.ip(&format!("addr add {BEYOND}/32 dev lo"))?;
    for (node, card) in CARDS.into_iter().enumerate() {
        ip(&format!("route add default via 10.{}.0.2 dev {card} metric {}", 75 + node, 100 + node))?;
    }
    let server = guest.serve(CONFIG)?;
    let from_beyond = ["--interface", BEYOND];
    let fetch = |node| fetch(clients, &format!("10.{}.0.1", 75 + node), &from_beyond, 2);
    let astray = share_by(1, || fetch(1))?;
    guest.figure("one address each, as found: replies to n1's clients by n1", 100.0 * astray, "%")?;
    ensure!(astray < 0.1, "the main table sends replies by n1 of itself: the scenario shows nothing");

    let applied = apply(guest, |name| name.contains(" replies from "))?;
    ensure!(applied.iter().any(|finding| finding["name"] == "n1 replies from 10.76.0.1"), "no advice for n1");
    for node in [0, 1] {
        let share = share_by(node, || fetch(node))?;
        guest.figure(&format!("one address each, as advised: by n{node}"), 100.0 * share, "%")?;
        ensure!(share >= RIGHT, "{share} of the replies of node {node} leave by its card");
    }
    drop(server);
    CLIENT_CARDS.into_iter().try_for_each(|card| clients.ip(&format!("link set {card} netns 1")).map(drop))
}

fn join_the_cards() -> anyhow::Result<Namespace> {
    let clients = Namespace::new("joined")?;
    net::bond("bond0", &["n1", "n0"], &format!("{BONDED}/24"))?;
    clients.take_bond("clients", net::Sends::ByHash, &CLIENT_CARDS, "10.77.0.2/24")?;
    Ok(clients)
}

/// Gives the lines of the configuration that mark.
fn behind_a_bond(guest: &mut Guest, clients: Namespace) -> anyhow::Result<String> {
    let fetch = || fetch(clients, BONDED, &[], 8);
    {
        let _server = guest.serve(&drained(1, "[server]"))?;
        let share = share_by(0, fetch)?;
        guest.figure("bond, as found: node 0's by n0", 100.0 * share, "%")?;
    }
    let applied = apply(guest, |name| !name.contains("replies"))?;
    let egress =
        applied.iter().find(|finding| finding["name"] == "bond0 egress").context("advice for the bond")?;
    let marks = egress["config"].as_str().context("the configuration that belongs to it")?.to_owned();
    guest.note(format!("{}: {}", egress["commands"], marks.replace('\n', " ")))?;
    let server = guest.serve(&drained(1, &marks))?;
    for node in [0, 1] {
        server.reload(&drained(1 - node, &marks))?;
        // Listeners of the drained node close two seconds later.
        std::thread::sleep(Duration::from_secs(3));
        let share = share_by(node, fetch)?;
        guest.figure(&format!("bond, as advised: node {node}'s by n{node}"), 100.0 * share, "%")?;
        ensure!(share >= RIGHT, "{share} of what node {node} sends leaves by its card");
    }
    refused_marks(&server)?;
    Ok(marks)
}

/// Pulls the cable of the card that everything leaves by, and plugs it again.
fn a_cable_is_pulled(guest: &mut Guest, clients: Namespace, marks: &str) -> anyhow::Result<()> {
    let quickly = drained(1, marks);
    // A transfer takes a minute, so that it is under way whatever else the machine does.
    let slowly = format!("{quickly}[http.limits]\npacing_bytes_per_second = {}\n", FILE_BYTES / 60);
    let server = guest.serve(&slowly)?;
    let mark = egress_mark(&server, 0)?;
    ensure!(mark > 0.0, "node 0 marks nothing");
    let mut transfers = start(clients, BONDED, &[], 6)?;
    std::thread::sleep(Duration::from_secs(5));
    for card in ["n0", "c0"] {
        guest.set_carrier(card, false)?;
    }
    let lost = Instant::now();
    wait_for("the mark to go with the link", || (egress_mark(&server, 0).ok()? == 0.0).then_some(()))?;
    guest.figure("bond, cable out: no marks after", lost.elapsed().as_secs_f64(), "s")?;
    ensure!(running(&mut transfers)? == transfers.len(), "transfers ended before the cable was out");
    server.reload(&quickly)?;
    // A new one goes the other way as well.
    let share = share_by(1, || fetch(clients, BONDED, &[], 2))?;
    ensure!(share >= RIGHT, "{share} leaves by n1 while n0 has no link");
    all_arrive(transfers)?;
    let counters = server.scrape()?;
    ensure!(counters.sum("linerate_silo_marks_lost", &["silo=\"0\""])? > 0.0, "the lost link is not counted");
    ensure!(counters.sum("linerate_silo_marks_lost", &["silo=\"1\""])? == 0.0, "node 1 lost its mark too");
    guest.note("6 transfers whole after the cable of their card was pulled")?;

    server.reload(&slowly)?;
    let transfers = start(clients, BONDED, &[], 4)?;
    for card in ["c0", "n0"] {
        guest.set_carrier(card, true)?;
    }
    wait_for("the mark to come back", || (egress_mark(&server, 0).ok()? == mark).then_some(()))?;
    server.reload(&quickly)?;
    all_arrive(transfers)?;
    let share = share_by(0, || fetch(clients, BONDED, &[], 8))?;
    guest.figure("bond, cable back: node 0's by n0", 100.0 * share, "%")?;
    ensure!(share >= RIGHT, "{share} leaves by n0 after its cable came back");
    refused_marks(&server)
}

fn refused_marks(server: &Server) -> anyhow::Result<()> {
    let refused = server.scrape()?.sum("linerate_http_marks_failed", &[])?;
    ensure!(refused == 0.0, "{refused} connections could not be marked");
    Ok(())
}

/// Returns the mark of a node's lanes, once it is the same for all of them.
fn egress_mark(server: &Server, node: usize) -> anyhow::Result<f64> {
    let silo = format!("silo=\"{node}\"");
    Ok(server.scrape()?.sum("linerate_http_egress_mark", &[&silo])? / LANES_OF_A_NODE)
}

/// Does what `doctor` advises about cards in findings of these names, and asks it again whether that is as it
/// should be. Gives the findings as they were.
fn apply(guest: &Guest, which: impl Fn(&str) -> bool) -> anyhow::Result<Vec<Value>> {
    let advised = |findings: Vec<Value>| {
        let about_cards = |finding: &Value| {
            finding["area"] == "nic"
                && finding["name"].as_str().is_some_and(&which)
                && finding["commands"].as_array().is_some_and(|commands| !commands.is_empty())
        };
        findings.into_iter().filter(about_cards).collect::<Vec<_>>()
    };
    let before = advised(doctor(guest)?);
    for command in before.iter().filter_map(|finding| finding["commands"].as_array()).flatten() {
        let command = command.as_str().context("a command is text")?;
        process::output("sh", &["-c", command]).with_context(|| command.to_owned())?;
    }
    let after = advised(doctor(guest)?);
    ensure!(after.is_empty(), "doctor is not content with what it advised: {after:?}");
    Ok(before)
}

fn doctor(guest: &Guest) -> anyhow::Result<Vec<Value>> {
    // It fails where the machine lacks something, and tells all the same.
    let output = guest.linerate().args(["doctor", "--json"]).output()?;
    serde_json::from_slice(&output.stdout).context("linerate doctor --json")
}

/// Returns the share of the bytes that both cards send during `work` that leaves by the card of `node`.
fn share_by(node: usize, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let before = [sent("n0")?, sent("n1")?];
    work()?;
    let grown = [sent("n0")? - before[0], sent("n1")? - before[1]];
    Ok(grown[node] as f64 / (grown[0] + grown[1]) as f64)
}

fn sent(card: &str) -> anyhow::Result<u64> {
    Ok(std::fs::read_to_string(format!("/sys/class/net/{card}/statistics/tx_bytes"))?.trim().parse()?)
}

fn fetch(clients: Namespace, server: &str, args: &[&str], times: usize) -> anyhow::Result<()> {
    all_arrive(start(clients, server, args, times)?)
}

/// A client that fetches the file, and where to.
struct Transfer(Child, String);

fn start(clients: Namespace, server: &str, args: &[&str], times: usize) -> anyhow::Result<Vec<Transfer>> {
    let one = |number: usize| {
        let to = format!("/tmp/got{number}");
        let mut curl: Command = clients.command("curl");
        curl.args(["-sSf", "--max-time", "150", "-o", &to]).args(args);
        Ok(Transfer(curl.arg(format!("http://{server}:8080/file")).spawn()?, to))
    };
    (0..times).map(one).collect()
}

fn running(transfers: &mut [Transfer]) -> anyhow::Result<usize> {
    let mut count = 0;
    for Transfer(curl, _) in transfers {
        count += usize::from(curl.try_wait()?.is_none());
    }
    Ok(count)
}

fn all_arrive(transfers: Vec<Transfer>) -> anyhow::Result<()> {
    for Transfer(mut curl, to) in transfers {
        ensure!(curl.wait()?.success(), "a transfer did not come to its end");
        process::output("cmp", &[&to, "/tmp/tree/file"])?;
    }
    Ok(())
}

/// Returns the configuration with these lines of the `[server]` section and one node drained.
fn drained(node: usize, server: &str) -> String {
    format!("{CONFIG}{server}\ndrained_nodes = [{node}]\n")
}

const CARDS: [&str; 2] = ["n0", "n1"];
const CLIENT_CARDS: [&str; 2] = ["c0", "c1"];
/// Address of a client that is on no link of the server's.
const BEYOND: &str = "10.99.0.1";
const BONDED: &str = "10.77.0.1";
const LANES_OF_A_NODE: f64 = 2.0;
const FILE_BYTES: usize = 4 << 20;
/// Least share of bytes by the right card: neighbour discovery, and handshakes before a connection is marked, may
/// leave by the other one.
const RIGHT: f64 = 0.99;
const CONFIG: &str = r#"
[[volume]]
name = "tree"
path = "/tmp/tree"
[http]
listen = ["0.0.0.0:8080"]
[https]
listen = []
"#;
