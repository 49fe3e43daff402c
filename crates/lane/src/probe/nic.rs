//! NICs: whether their node is known, and whether their interrupts and queues stay on it.

use super::{Area, Finding, Verdict};
use crate::topology::table::speed;
use crate::topology::{CpuSet, Nic, NicKind, Topology};

/// Findings about every NIC with a link that stands for hardware.
pub(super) fn all(topology: &Topology) -> Vec<Finding> {
    let nics = topology.nics.iter().filter(|nic| nic.up && nic.kind != NicKind::Virtual);
    nics.flat_map(|nic| of_nic(topology, nic)).collect()
}

fn of_nic(topology: &Topology, nic: &Nic) -> Vec<Finding> {
    let mut findings = vec![place(topology, nic)];
    if nic.kind == NicKind::Device {
        findings.push(queues(topology, nic));
        findings.extend(interrupts(topology, nic));
        findings.extend(transmit_steering(topology, nic));
    }
    findings
}

fn place(topology: &Topology, nic: &Nic) -> Finding {
    let node = nic.node.map_or_else(|| "node unknown".to_owned(), |node| format!("node {node}"));
    let found = format!("{node}, {}", speed(nic.speed_mbps).replace('-', "speed unknown"));
    let several_nodes = topology.nodes.len() > 1;
    let (wanted, advice) = if !several_nodes {
        ("any, there is one node", "")
    } else if nic.kind == NicKind::Stacked {
        let advice = "give each NIC an address of its own: the kernel does not tell through which of the bond's NICs \
                      a connection came, so connections are spread over all silos";
        ("NICs of one node", advice)
    } else {
        (
            "node known",
            "connections through it are spread over all silos; check the slot in the firmware's tables",
        )
    };
    let holds = nic.node.is_some() || !several_nodes;
    Finding::new(Area::Nic, nic.name.clone(), found, wanted).unless(holds, Verdict::Warn, advice)
}

/// One queue for each CPU next to the NIC lets every lane receive on its own.
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

/// A queue that serves CPUs of another node draws that node's packets to this NIC's interrupts.
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
    let found = if strays.is_empty() { "apart".to_owned() } else { format!("mixed in {}", strays.join(" ")) };
    let advice = format!("write masks of one node to /sys/class/net/{}/queues/tx-*/xps_cpus", nic.name);
    let name = format!("{} transmit steering", nic.name);
    let wanted = format!("CPUs of node {node} apart from others");
    steered.then(|| {
        Finding::new(Area::Nic, name, found, wanted).unless(strays.is_empty(), Verdict::Warn, advice)
    })
}

/// CPUs of the NIC's node; all where it is unknown or has none.
fn near_cpus(topology: &Topology, nic: &Nic) -> CpuSet {
    let of_node = nic.node.and_then(|node| topology.node(node)).map(|node| node.cpus.clone());
    of_node.filter(|cpus| !cpus.is_empty()).unwrap_or_else(|| topology.online_cpus())
}

/// More queues than this on one NIC no longer change much.
const QUEUES_ENOUGH: usize = 16;
