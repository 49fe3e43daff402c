//! NICs: whether their node is known, and whether their interrupts and queues stay there.

use super::{Area, Finding, Verdict, bond};
use crate::layout::{Layout, Wishes};
use crate::topology::table::speed;
use crate::topology::{CpuSet, Nic, NicKind, Topology, Tree};

/// Returns findings about every NIC with a link that stands for hardware.
pub(super) fn all(tree: &Tree, topology: &Topology) -> Vec<Finding> {
    // As the server lays its silos out by default.
    let layout = Layout::new(topology, &Wishes::default()).ok();
    let nics = topology.nics.iter().filter(|nic| nic.up && nic.kind != NicKind::Virtual);
    nics.flat_map(|nic| of_nic(tree, topology, layout.as_ref(), nic)).collect()
}

fn of_nic(tree: &Tree, topology: &Topology, layout: Option<&Layout>, nic: &Nic) -> Vec<Finding> {
    let mut findings = vec![place(tree, topology, layout, nic)];
    if nic.kind == NicKind::Device {
        findings.push(queues(topology, nic));
        findings.extend(interrupts(topology, nic));
        findings.extend(receive_steering(topology, nic));
        findings.extend(transmit_steering(topology, nic));
    }
    findings
}

fn place(tree: &Tree, topology: &Topology, layout: Option<&Layout>, nic: &Nic) -> Finding {
    let node = nic.node.map_or_else(|| "node unknown".to_owned(), |node| format!("node {node}"));
    let silo = match layout.and_then(|layout| layout.silo_of_nic(nic.ifindex)) {
        Some(silo) => format!("silo {silo}"),
        None => "no silo's".to_owned(),
    };
    let mut found = format!("{node}, {silo}, {}", speed(nic.speed_mbps).replace('-', "speed unknown"));
    if let Some(driver) = driver(tree, nic) {
        found += &format!(", {driver}");
    }
    let several_nodes = topology.nodes.len() > 1;
    let (wanted, advice) = if !several_nodes {
        ("any, there is one node", "")
    } else if bond::mode(tree, nic).is_some() {
        ("any, the bond's own findings tell", "")
    } else if nic.kind == NicKind::Stacked {
        let advice = "give each NIC an address of its own: then the kernel itself brings every connection to the silo \
                      of its NIC, and replies leave by it";
        ("NICs of one node", advice)
    } else {
        (
            "node known",
            "connections through it are spread over all silos; check the slot in the firmware's tables",
        )
    };
    let holds = nic.node.is_some() || advice.is_empty();
    Finding::new(Area::Nic, nic.name.clone(), found, wanted).unless(holds, Verdict::Warn, advice)
}

/// Checks the number of queues. One for each CPU next to the NIC lets every lane receive on its own.
fn queues(topology: &Topology, nic: &Nic) -> Finding {
    let near = near_cpus(topology, nic).intersection(&topology.usable_cpus()).len();
    let queues = nic.rx_queues.len();
    let advice = format!(
        "ethtool -L {} combined {near}, as far as the NIC can; one CPU receives for several lanes otherwise",
        nic.name
    );
    let name = format!("{} receive queues", nic.name);
    Finding::new(Area::Nic, name, queues.to_string(), format!("{near}, one for each CPU near it")).unless(
        queues >= near.min(QUEUES_ENOUGH),
        Verdict::Warn,
        advice,
    )
}

fn interrupts(topology: &Topology, nic: &Nic) -> Option<Finding> {
    let node = nic.node?;
    let near = near_cpus(topology, nic);
    let cpus: CpuSet = nic.irqs.iter().flat_map(|irq| irq.cpus.iter()).collect();
    let stray: Vec<u32> =
        nic.irqs.iter().filter(|irq| !irq.cpus.is_subset(&near)).map(|irq| irq.number).collect();
    let numbers = stray.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    let advice = format!(
        "stop irqbalance or ban these from it, then: for i in {numbers}; do echo {near} > \
         /proc/irq/$i/smp_affinity_list; done"
    );
    let name = format!("{} interrupts", nic.name);
    let wanted = format!("on CPUs {near} of node {node}");
    (!cpus.is_empty()).then(|| {
        Finding::new(Area::Nic, name, format!("on CPUs {cpus}"), wanted).unless(
            stray.is_empty(),
            Verdict::Warn,
            advice,
        )
    })
}

/// Checks receive steering. Steering to CPUs of another node undoes what the NIC's own interrupts do right.
fn receive_steering(topology: &Topology, nic: &Nic) -> Option<Finding> {
    let node = nic.node.filter(|_| topology.nodes.len() > 1)?;
    let near = near_cpus(topology, nic);
    let steered: CpuSet = nic.rx_queues.iter().flat_map(|queue| queue.rps_cpus.iter()).collect();
    let strays = nic.rx_queues.iter().filter(|queue| !queue.rps_cpus.is_subset(&near));
    let commands = strays
        .map(|queue| format!("echo 0 > /sys/class/net/{}/queues/rx-{}/rps_cpus", nic.name, queue.index));
    let found = if steered.is_empty() { "off".to_owned() } else { format!("to CPUs {steered}") };
    let name = format!("{} receive steering", nic.name);
    let finding = Finding::new(Area::Nic, name, found, format!("off, or on CPUs {near} of node {node}"));
    let advice = "packets are taken to CPUs of another node before the server sees them";
    Some(finding.unless(steered.is_subset(&near), Verdict::Warn, advice).with_commands(commands.collect()))
}

/// Checks transmit steering. A queue that serves CPUs of another node draws that node's packets to this NIC's
/// interrupts.
fn transmit_steering(topology: &Topology, nic: &Nic) -> Option<Finding> {
    let node = nic.node.filter(|_| topology.nodes.len() > 1)?;
    let near = near_cpus(topology, nic);
    let mixed = |cpus: &CpuSet| !cpus.is_subset(&near) && !cpus.intersection(&near).is_empty();
    let strays: Vec<String> = nic
        .tx_queues
        .iter()
        .filter(|queue| mixed(&queue.xps_cpus))
        .map(|queue| format!("tx-{}", queue.index))
        .collect();
    let steered = nic.tx_queues.iter().any(|queue| !queue.xps_cpus.is_empty());
    if !steered && nic.tx_queues.len() > 1 {
        return Some(no_transmit_steering(nic, &near));
    }
    let found = if strays.is_empty() { "apart".to_owned() } else { format!("mixed in {}", strays.join(" ")) };
    let advice = format!("write masks of one node to /sys/class/net/{}/queues/tx-*/xps_cpus", nic.name);
    let name = format!("{} transmit steering", nic.name);
    let wanted = format!("CPUs of node {node} apart from others");
    steered.then(|| {
        Finding::new(Area::Nic, name, found, wanted).unless(strays.is_empty(), Verdict::Warn, advice)
    })
}

/// Returns the finding without transmit steering, with commands that deal the queues out to the CPUs of the
/// NIC's node.
fn no_transmit_steering(nic: &Nic, near: &CpuSet) -> Finding {
    let queues = nic.tx_queues.len();
    let mut commands = Vec::new();
    for (at, queue) in nic.tx_queues.iter().enumerate().take(near.len()) {
        let cpus: CpuSet =
            near.iter().enumerate().filter(|(cpu, _)| cpu % queues == at).map(|(_, cpu)| cpu).collect();
        let path = format!("/sys/class/net/{}/queues/tx-{}/xps_cpus", nic.name, queue.index);
        commands.push(format!("echo {} > {path}", cpus.to_mask()));
    }
    let advice = "lanes share queues and their locks at random";
    Finding::new(Area::Nic, format!("{} transmit steering", nic.name), "off", "queues for CPUs of its node")
        .unless(false, Verdict::Warn, advice)
        .with_commands(commands)
}

/// Returns the kernel's name of the NIC's driver.
fn driver(tree: &Tree, nic: &Nic) -> Option<String> {
    let link = tree.path(&format!("sys/class/net/{}/device/driver", nic.name));
    Some(std::fs::read_link(link).ok()?.file_name()?.to_string_lossy().into_owned())
}

/// Returns the CPUs of the NIC's node; all online ones where the node is unknown or has none.
fn near_cpus(topology: &Topology, nic: &Nic) -> CpuSet {
    let of_node = nic.node.and_then(|node| topology.node(node)).map(|node| node.cpus.clone());
    of_node.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| topology.online_cpus())
}

/// Queues of a NIC beyond which more no longer change much.
const QUEUES_ENOUGH: usize = 16;
