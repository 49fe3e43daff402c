//! Which lanes serve what, in words: for people who start a server or ask the doctor.

use lane::layout::{Layout, SiloLayout};
use lane::topology::CpuSet;

use crate::config::NodesWithoutNic;

/// A line for each silo: its lanes, and which NICs they serve, or what they do without one.
pub fn who_serves_what(layout: &Layout, without_nic: NodesWithoutNic) -> Vec<String> {
    let somebody_has_one = layout.silos.iter().any(|silo| !silo.nics.is_empty());
    let line = |silo: &SiloLayout| {
        let place = silo.node.map_or_else(|| "all nodes".to_owned(), |node| format!("node {node}"));
        let lanes: CpuSet = silo.lanes.iter().filter_map(|lane| u32::try_from(lane.id).ok()).collect();
        let cpus: CpuSet = silo.lanes.iter().map(|lane| lane.cpu).collect();
        let nics: Vec<&str> = silo.nics.iter().map(|nic| nic.name.as_str()).collect();
        let what = match (nics.is_empty(), somebody_has_one, without_nic) {
            (false, ..) => format!("serve {}", nics.join(", ")),
            (true, false, _) => "serve what the kernel deals out".to_owned(),
            (true, true, NodesWithoutNic::Help) => {
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

    use super::*;
    use crate::silo::placement::tests::four_nodes_with_cards_on_two;

    #[test]
    fn each_silo_says_whom_it_serves() {
        let layout = Layout::new(&four_nodes_with_cards_on_two(), &Wishes::default()).unwrap();
        assert_eq!(
            who_serves_what(&layout, NodesWithoutNic::Help),
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
            who_serves_what(&one, NodesWithoutNic::Help),
            ["all nodes: lanes 0-7 on CPUs 0-7 serve eth0, eth2"]
        );
    }
}
