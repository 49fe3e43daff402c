//! Behind a bond the interface tells nothing: the kernel's hash chooses a lane, and the lane gives the connection to
//! the node of the card that its packets came in by.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use lane::topology::{Irq, Topology};

use super::{ACCEPTED, CONFIG, CONNECTIONS, Client, fetch};
use crate::lab::guest::Guest;
use crate::lab::guest::net::{self, Namespace, Sends};
use crate::lab::guest::server::Server;
use crate::process;

/// Joins both cards, and the clients' cards at the other end of their wires.
pub(super) fn connections_find_their_node(guest: &mut Guest, clients: [Client; 2]) -> anyhow::Result<()> {
    for (client, card) in clients.into_iter().zip(CLIENT_CARDS) {
        client.namespace.ip(&format!("link set {card} netns 1"))?;
    }
    net::bond("bond0", &["n1", "n0"], "10.74.0.1/24")?;
    let behind = Namespace::new("behind")?;
    behind.take_bond(CLIENT_BOND, Sends::ByOne, &CLIENT_CARDS, "10.74.0.2/24")?;
    // Before Linux 6.8 only the CPU tells the card: each has to have its own.
    for (card, node) in CARDS.into_iter().zip(0..) {
        net::direct_interrupts(card, node)?;
    }
    let to = SocketAddr::from(([10, 74, 0, 1], 8080));
    move_interrupts(behind, to)?;
    let server = guest.serve(CONFIG)?;
    let before = server.scrape()?;
    for (node, sent_by) in CLIENT_CARDS.into_iter().enumerate() {
        come_by(guest, &server, behind, to, node, sent_by)?;
    }
    let after = server.scrape()?;
    let placed = |placement: &str| {
        let label = format!("placement=\"{placement}\"");
        after.grown(&before, "linerate_silo_accepts", &[&label])
    };
    let (local, handed, unknown) = (placed("local")?, placed("handed_off")?, placed("unknown")?);
    guest.note(format!(
        "bond: {local} were accepted where they came, {handed} handed over, {unknown} unknown"
    ))?;
    let all = (CLIENT_CARDS.len() * CONNECTIONS) as f64;
    ensure!(local + handed == all, "{local} local and {handed} handed over of {all}");
    ensure!(handed > 0.0, "the kernel's hash was right every time: nothing was shown");
    let taken = after.grown(&before, "linerate_silo_taken_over", &[])?;
    ensure!(taken == handed, "{handed} were handed over, {taken} taken");
    Ok(())
}

/// Connections that come by the card of a node are served on that node.
fn come_by(
    guest: &mut Guest,
    server: &Server,
    behind: Namespace,
    to: SocketAddr,
    node: usize,
    sent_by: &str,
) -> anyhow::Result<()> {
    behind.send_by(CLIENT_BOND, sent_by)?;
    let (before, packets) = (server.scrape()?, received()?);
    behind.within(|| (0..CONNECTIONS).try_for_each(|_| fetch(to)))?;
    let (after, now) = (server.scrape()?, received()?);
    let came: Vec<u64> = now.iter().zip(packets).map(|(now, before)| now - before).collect();
    // The last packets of those before may come now, and ARP's by either card.
    ensure!(came[node] > 2 * came[1 - node], "packets sent to n{node} came by n0 and n1: {came:?}");
    let served = after.grown(&before, ACCEPTED, &[&format!("silo=\"{node}\"")])?;
    guest.figure(&format!("bond, came by n{node}: served on node {node}"), served, "connections")?;
    ensure!(
        served == CONNECTIONS as f64,
        "{CONNECTIONS} came by n{node}, node {node} served {served}; interrupts: {}",
        interrupts()?
    );
    Ok(())
}

/// Connects until interrupts have moved. An interrupt moves when it comes the next time, and a card deals connections
/// out to its queues by a hash. A queue that gets none would still interrupt where it was, on the other card's CPUs,
/// and the server would be right to believe neither. Neighbours are found meanwhile, before packets are counted.
fn move_interrupts(behind: Namespace, to: SocketAddr) -> anyhow::Result<()> {
    for _ in 0..ROUNDS {
        for sent_by in CLIENT_CARDS {
            behind.send_by(CLIENT_BOND, sent_by)?;
            behind.within(|| {
                for _ in 0..CONNECTIONS {
                    let refused = TcpStream::connect_timeout(&to, Duration::from_secs(10));
                    ensure!(refused.is_err(), "somebody listens already");
                }
                Ok(())
            })?;
        }
        if have_moved()? {
            return Ok(());
        }
    }
    bail!("after {ROUNDS} times {CONNECTIONS} connections interrupts have not moved: {}", interrupts()?)
}

/// Returns whether the interrupts that bring packets of the card of each node go to that node's CPUs.
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

/// Returns where they go, for the log.
fn interrupts() -> anyhow::Result<String> {
    let script = "for card in n0 n1; do f=$(realpath /sys/class/net/$card/device); [ -d $f/msi_irqs ] || f=$f/..; \
        for i in $(ls $f/msi_irqs); do \
        echo \"$card $i $(ls /proc/irq/$i | grep -e $card -e virtio) wanted $(cat /proc/irq/$i/smp_affinity_list) \
        is $(cat /proc/irq/$i/effective_affinity_list);\"; done; done";
    process::output("sh", &["-c", script])
}

/// Returns how many packets have come by each card.
fn received() -> anyhow::Result<[u64; 2]> {
    let count = |card: &str| -> anyhow::Result<u64> {
        let path = format!("/sys/class/net/{card}/statistics/rx_packets");
        Ok(std::fs::read_to_string(path)?.trim().parse()?)
    };
    Ok([count(CARDS[0])?, count(CARDS[1])?])
}

const ROUNDS: usize = 20;
const CARDS: [&str; 2] = ["n0", "n1"];
/// Each at the other end of a wire of [`CARDS`].
const CLIENT_CARDS: [&str; 2] = ["c0", "c1"];
const CLIENT_BOND: &str = "clients";
