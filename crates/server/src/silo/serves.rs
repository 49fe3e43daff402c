//! Description of which lanes serve what, for the start of a server and `linerate doctor`.

use lane::layout::{Layout, NicRef, SiloLayout};
use lane::topology::{CpuSet, NicKind};

use crate::config::NodesWithoutNic;

/// Returns a line for each silo: its lanes, and which NICs they serve, or what they do without one.
pub fn who_serves_what(layout: &Layout, without_nic: NodesWithoutNic) -> Vec<String> {
    let somebody_has_one = layout.silos.iter().any(|silo| !silo.nics.is_empty());
    // What the kernel makes up is worth telling only where there is nothing else, as in a container.
    let is_real = |nic: &&NicRef| nic.kind != NicKind::Virtual;
    let real =
        layout.silos.iter().flat_map(|silo| &silo.nics).chain(&layout.shared_nics).any(|nic| is_real(&nic));
    let is_told = |nic: &&NicRef| is_real(nic) || (!real && nic.name != "lo");
    let line = |silo: &SiloLayout| {
        let place = silo.node.map_or_else(|| "all nodes".to_owned(), |node| format!("node {node}"));
        let lanes: CpuSet = silo.lanes.iter().filter_map(|lane| u32::try_from(lane.id).ok()).collect();
        let cpus: CpuSet = silo.lanes.iter().map(|lane| lane.cpu).collect();
        let nics: Vec<&str> = silo.nics.iter().filter(is_told).map(|nic| nic.name.as_str()).collect();
        let what = match (silo.nics.is_empty(), somebody_has_one, without_nic) {
            (false, ..) if nics.is_empty() => "serve what the kernel deals out".to_owned(),
            (false, ..) => format!("serve {}", nics.join(", ")),
            (true, false, _) => "serve what the kernel deals out".to_owned(),
            (true, true, NodesWithoutNic::Assist) => {
                "have no NIC: they help while all lanes of another node's NIC are full".to_owned()
            }
            (true, true, NodesWithoutNic::Idle) => {
                "have no NIC: they serve only what comes by none (nodes_without_nic = \"idle\")".to_owned()
            }
        };
        format!("{place}: lanes {lanes} on CPUs {cpus} {what}")
    };
    layout.silos.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use lane::layout::Wishes;
    use lane::topology::{Nic, Topology};

    use super::*;
    use crate::silo::placement::tests::four_nodes_with_cards_on_two;

    #[test]
    fn each_silo_says_whom_it_serves() {
        let layout = Layout::new(&four_nodes_with_cards_on_two(), &Wishes::default()).unwrap();
        assert_eq!(
            who_serves_what(&layout, NodesWithoutNic::Assist),
            [
                "node 0: lanes 0-1 on CPUs 0-1 serve eth0",
                "node 1: lanes 2-3 on CPUs 2-3 have no NIC: they help while all lanes of another node's NIC are full",
                "node 2: lanes 4-5 on CPUs 4-5 serve eth2",
                "node 3: lanes 6-7 on CPUs 6-7 have no NIC: they help while all lanes of another node's NIC are full",
            ]
        );
        let idle = who_serves_what(&layout, NodesWithoutNic::Idle);
        assert!(idle[1].contains("idle") && !idle[0].contains("idle"), "{idle:?}");
        let wishes = Wishes { silos: false, ..Wishes::default() };
        let one = Layout::new(&four_nodes_with_cards_on_two(), &wishes).unwrap();
        assert_eq!(
            who_serves_what(&one, NodesWithoutNic::Assist),
            ["all nodes: lanes 0-7 on CPUs 0-7 serve eth0, eth2"]
        );
    }

    #[test]
    fn interfaces_without_a_card_are_told_where_there_is_no_other() {
        let mut topology = four_nodes_with_cards_on_two();
        let made_up = |name: &str, ifindex| Nic {
            name: name.to_owned(),
            ifindex,
            kind: NicKind::Virtual,
            node: None,
            ..four_nodes_with_cards_on_two().nics.remove(0)
        };
        topology.nics.extend([made_up("lo", 1), made_up("ifb0", 7)]);
        let wishes = Wishes { silos: false, ..Wishes::default() };
        let told = |topology: &Topology| {
            who_serves_what(&Layout::new(topology, &wishes).unwrap(), NodesWithoutNic::Assist).remove(0)
        };
        assert!(told(&topology).ends_with(" serve eth0, eth2"));
        topology.nics.retain(|nic| nic.kind == NicKind::Virtual);
        assert!(told(&topology).ends_with(" serve ifb0"));
        topology.nics.retain(|nic| nic.name == "lo");
        assert!(told(&topology).ends_with(" serve what the kernel deals out"));
    }
}
