//! Behind a bond the interface tells nothing: the kernel's hash chooses a lane, and the lane gives the connection to
//! the node of the card that its packets came in by.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use lane::topology::{Irq, Topology};

use super::{ACCEPTED, CONFIG, CONNECTIONS, Client, fetch};
use crate::lab::guest::Guest;
use crate::lab::guest::net::{self, Namespace};
use crate::process;

/// Joins both cards, and the clients' cards at the other end of their wires.
pub(super) fn connections_find_their_node(guest: &mut Guest, clients: [Client; 2]) -> anyhow::Result<()> {
    for (client, card) in clients.into_iter().zip(["c0", "c1"]) {
        client.namespace.ip(&format!("link set {card} netns 1"))?;
    }
    net::bond("bond0", &["n1", "n0"], "10.74.0.1/24")?;
    let behind = Namespace::new("behind")?;
    behind.take_bond("clients", &["c0", "c1"], "10.74.0.2/24")?;
    // Before Linux 6.8 only the CPU tells the card: each has to have its own.
    for (card, node) in CARDS.into_iter().zip(0..) {
        net::direct_interrupts(card, node)?;
    }
    let to = SocketAddr::from(([10, 74, 0, 1], 8080));
    move_interrupts(behind, to)?;
    let server = guest.serve(CONFIG)?;
    let before = server.scrape()?;
    let mut came = [0; 2];
    let mut packets = received_at_rest()?;
    for _ in 0..CONNECTIONS {
        behind.within(|| fetch(to))?;
        let now = received_at_rest()?;
        let (by_n0, by_n1) = (now[0] - packets[0], now[1] - packets[1]);
        packets = now;
        // Those that are not its own, such as ARP's, may have come by the other.
        let is_clear = by_n0.max(by_n1) > 2 * by_n0.min(by_n1);
        ensure!(is_clear, "one connection brought {by_n0} packets by n0 and {by_n1} by n1");
        came[usize::from(by_n1 > by_n0)] += 1;
    }
    let after = server.scrape()?;
    ensure!(came.iter().all(|&count| count > 0), "the client's bond sent all by one card: {came:?}");
    let placed = |placement: &str| {
        let label = format!("placement=\"{placement}\"");
        after.grown(&before, "linerate_silo_accepts", &[&label])
    };
    let (local, handed, unknown) = (placed("local")?, placed("handed_off")?, placed("unknown")?);
    guest.note(format!(
        "bond: {came:?} came by n0 and n1; {local} were accepted there, {handed} handed over, {unknown} unknown"
    ))?;
    for (node, came) in came.into_iter().enumerate() {
        let served = after.grown(&before, ACCEPTED, &[&format!("silo=\"{node}\"")])?;
        guest.figure(&format!("bond, came by n{node}"), f64::from(came), "connections")?;
        guest.figure(&format!("bond, served on node {node}"), served, "connections")?;
        ensure!(
            served == f64::from(came),
            "{came} came by n{node}, node {node} served {served}; interrupts: {}",
            interrupts()?
        );
    }
    ensure!(local + handed == CONNECTIONS as f64, "{local} local and {handed} handed over of {CONNECTIONS}");
    ensure!(handed > 0.0, "the kernel's hash was right every time: nothing was shown");
    let taken = after.grown(&before, "linerate_silo_taken_over", &[])?;
    ensure!(taken == handed, "{handed} were handed over, {taken} taken");
    Ok(())
}

/// An interrupt moves when it comes the next time, and a card deals connections out to its queues by a hash: one that
/// gets none would still be where it was, on the other card's CPUs, and the server would be right to believe neither.
/// Neighbours are found meanwhile, before packets are counted.
fn move_interrupts(behind: Namespace, to: SocketAddr) -> anyhow::Result<()> {
    for _ in 0..ROUNDS {
        behind.within(|| {
            for _ in 0..CONNECTIONS {
                let refused = TcpStream::connect_timeout(&to, Duration::from_secs(10));
                ensure!(refused.is_err(), "somebody listens already");
            }
            Ok(())
        })?;
        if have_moved()? {
            return Ok(());
        }
    }
    bail!("after {ROUNDS} times {CONNECTIONS} connections interrupts have not moved: {}", interrupts()?)
}

/// Whether the interrupts that bring packets of the card of each node go to that node's CPUs.
fn have_moved() -> anyhow::Result<bool> {
    let topology = Topology::of_this_machine()?;
    let brings_packets =
        |irq: &&Irq| irq.name.as_ref().is_some_and(|name| name.contains("rx") || name.contains("input"));
    let mut all = true;
    for (card, node) in CARDS.into_iter().zip(0..) {
        let nic = topology.nic(card).with_context(|| format!("no card {card}"))?;
        let own = &topology.node(node).with_context(|| format!("no node {node}"))?.cpus;
        let receiving: Vec<&Irq> = nic.irqs.iter().filter(brings_packets).collect();
        ensure!(!receiving.is_empty(), "{card} has no interrupt that brings packets: {:?}", nic.irqs);
        all &= receiving.iter().all(|irq| irq.cpus.is_subset(own));
    }
    Ok(all)
}

/// Where they go, for whoever wonders.
fn interrupts() -> anyhow::Result<String> {
    let script = "for card in n0 n1; do f=$(realpath /sys/class/net/$card/device); [ -d $f/msi_irqs ] || f=$f/..; \
        for i in $(ls $f/msi_irqs); do \
        echo \"$card $i $(ls /proc/irq/$i | grep -e $card -e virtio) wanted $(cat /proc/irq/$i/smp_affinity_list) \
        is $(cat /proc/irq/$i/effective_affinity_list);\"; done; done";
    process::output("sh", &["-c", script])
}

/// What has come by each card, once no more comes: a client sends its last packets after it has had its answer.
fn received_at_rest() -> anyhow::Result<[u64; 2]> {
    let mut before = received()?;
    for _ in 0..LONGEST_WAIT.div_duration_f32(REST) as usize {
        std::thread::sleep(REST);
        let now = received()?;
        if now == before {
            return Ok(now);
        }
        before = now;
    }
    bail!("packets come by n0 and n1 without end: {before:?}")
}

fn received() -> anyhow::Result<[u64; 2]> {
    let count = |card: &str| -> anyhow::Result<u64> {
        let path = format!("/sys/class/net/{card}/statistics/rx_packets");
        Ok(std::fs::read_to_string(path)?.trim().parse()?)
    };
    Ok([count(CARDS[0])?, count(CARDS[1])?])
}

const REST: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const ROUNDS: usize = 20;
const CARDS: [&str; 2] = ["n0", "n1"];
