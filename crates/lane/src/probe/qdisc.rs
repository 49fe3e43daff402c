//! Queueing disciplines: whether `fq` spaces packets out before a NIC.

use super::{Area, Finding, Network, Verdict};
use crate::topology::{Nic, NicKind, Topology};

/// Returns findings about every NIC with a link.
pub(super) fn all(topology: &Topology, network: &Network) -> Vec<Finding> {
    let nics = topology.nics.iter().filter(|nic| nic.up && nic.kind == NicKind::Device);
    nics.filter_map(|nic| of_nic(nic, network)).collect()
}

fn of_nic(nic: &Nic, network: &Network) -> Option<Finding> {
    let of_nic = network.qdiscs.iter().filter(|qdisc| qdisc.ifindex == nic.ifindex);
    let (roots, leaves): (Vec<_>, Vec<_>) =
        of_nic.filter(|qdisc| !HOOKS.contains(&qdisc.kind.as_str())).partition(|qdisc| qdisc.root);
    let root = &roots.first()?.kind;
    let mut kinds: Vec<&str> = leaves.iter().map(|leaf| leaf.kind.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let found = if kinds.is_empty() { root.clone() } else { format!("{root} over {}", kinds.join(", ")) };
    let holds = root == "fq" || (!kinds.is_empty() && kinds.iter().all(|kind| *kind == "fq"));
    let advice = "`net.core.default_qdisc = fq` in /etc/sysctl.d/linerate.conf, and these lines until the next boot. \
                  Without fq TCP still keeps its rates, by a timer of each connection; lost are the rates of UDP (Rx), \
                  fair turns of connections at the NIC, and CPU time. Set transmit steering first: fq lays its table \
                  out on its queue's node";
    let finding = Finding::new(Area::Nic, format!("{} queueing", nic.name), found, "fq");
    Some(finding.unless(holds, Verdict::Warn, advice).with_commands(commands(nic)))
}

fn commands(nic: &Nic) -> Vec<String> {
    let name = &nic.name;
    match nic.tx_queues.len() {
        0 | 1 => vec![format!("tc qdisc replace dev {name} root fq")],
        queues => vec![
            format!("tc qdisc replace dev {name} root handle 1: mq"),
            format!(
                "for i in $(seq {queues}); do tc qdisc replace dev {name} parent 1:$(printf %x $i) fq; done"
            ),
        ],
    }
}

/// Kinds of disciplines that are places for filters and queue nothing.
const HOOKS: [&str; 2] = ["clsact", "ingress"];
