//! Placement of connections: the node a connection arrived on, that node's silo, and whether the silo takes
//! connections.

use lane::layout::Layout;
use lane::topology::{Origins, Topology, napis};

use super::load::Loads;
use crate::config::NodesWithoutNic;

/// Lanes that take new connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taking {
    silos: Vec<bool>,
    lanes: Vec<bool>,
}

/// Reason why nodes cannot be drained as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TakingError {
    /// The node has no silo.
    #[error("no silo is on node {node}; {}", silos_are_on(.silos))]
    NoSilo {
        /// Number of the node.
        node: u32,
        /// Nodes that have silos.
        silos: Vec<u32>,
    },
    /// No lane would be left to take connections.
    #[error("every silo would be drained; to serve nobody, stop the server")]
    Nobody,
}

/// Placement by which every lane routes its connections. A new one is made when links, interrupts or the
/// configuration change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// Origins of packets; `None` where all lanes are on one node and everything is local.
    origins: Option<Origins>,
    /// Nodes of the silos; `None` with silos switched off.
    nodes: Vec<Option<u32>>,
    taking: Vec<bool>,
    /// Lanes of each silo.
    lanes: Vec<Vec<usize>>,
    /// Silos that help each silo while it is full, the nearest first: silos without a NIC, if configured.
    helpers: Vec<Vec<usize>>,
}

/// Lane or node that a connection belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// The connection belongs to the lane that accepted it.
    Here,
    /// The connection belongs to this silo.
    To(usize),
    /// The connection belongs to a node that has no silo, because silos are switched off.
    Elsewhere,
    /// The connection belongs to a silo that takes no connections.
    Drained,
    /// The connection has no known origin.
    Unknown,
}

impl Taking {
    /// Takes connections on all lanes but those of the drained nodes.
    pub(crate) fn new(layout: &Layout, drained_nodes: &[u32]) -> Result<Self, TakingError> {
        let has_silo = |node: &u32| layout.silos.iter().any(|silo| silo.node == Some(*node));
        if let Some(&node) = drained_nodes.iter().find(|node| !has_silo(node)) {
            let silos = layout.silos.iter().filter_map(|silo| silo.node).collect();
            return Err(TakingError::NoSilo { node, silos });
        }
        let takes = |node: Option<u32>| node.is_none_or(|node| !drained_nodes.contains(&node));
        let silos: Vec<bool> = layout.silos.iter().map(|silo| takes(silo.node)).collect();
        if !silos.contains(&true) {
            return Err(TakingError::Nobody);
        }
        let lanes = layout.lanes().map(|lane| silos[lane.silo]).collect();
        Ok(Self { silos, lanes })
    }

    pub(crate) fn lane(&self, lane: usize) -> bool {
        self.lanes[lane]
    }

    /// Returns the lanes that take connections, or those that do not.
    pub(crate) fn lanes(&self, taking: bool) -> impl Iterator<Item = usize> {
        self.lanes.iter().enumerate().filter(move |(_, takes)| **takes == taking).map(|(lane, _)| lane)
    }

    pub(crate) fn silo(&self, silo: usize) -> bool {
        self.silos[silo]
    }
}

impl Placement {
    /// Makes the placement by the present links and interrupts.
    pub(crate) fn new(
        topology: &Topology,
        layout: &Layout,
        taking: &Taking,
        without_nic: NodesWithoutNic,
    ) -> Self {
        let lane_nodes = layout.lane_nodes();
        let origins = (lane_nodes.len() > 1).then(|| {
            // Kernels before 6.8 do not list them; the CPU is asked there.
            let napis = napis().unwrap_or_default();
            Origins::new(topology, &napis, &lane_nodes)
        });
        let nodes = layout.silos.iter().map(|silo| silo.node).collect();
        let lanes = layout.silos.iter().map(|silo| silo.lanes.iter().map(|lane| lane.id).collect()).collect();
        let helpers = helpers(topology, layout, taking, without_nic);
        Self { origins, nodes, taking: taking.silos.clone(), lanes, helpers }
    }

    pub(crate) fn silo_on(&self, node: Option<u32>) -> Option<usize> {
        self.nodes.iter().position(|silo| silo.is_some() && *silo == node)
    }

    pub(crate) fn lanes_of(&self, silo: usize) -> &[usize] {
        &self.lanes[silo]
    }

    /// Returns whether all lanes of a silo that others may help are full.
    pub(crate) fn is_full(&self, silo: usize, loads: &Loads) -> bool {
        !self.helpers[silo].is_empty() && self.lanes[silo].iter().all(|&lane| loads.is_full(lane))
    }

    /// Returns the silos that help this one, the nearest first.
    pub(crate) fn helpers_of(&self, silo: usize) -> &[usize] {
        &self.helpers[silo]
    }

    /// Returns whether connections may belong to different silos, so that their origin matters.
    pub(crate) fn is_open(&self) -> bool {
        self.origins.is_some()
    }

    /// Returns where a connection belongs that a lane on `here` accepted. Asks for as many traces as it
    /// needs.
    pub(crate) fn of(
        &self,
        here: Option<u32>,
        interface: impl FnOnce() -> Option<u32>,
        napi: impl FnOnce() -> Option<u32>,
        cpu: impl FnOnce() -> Option<u32>,
    ) -> Belongs {
        let Some(origins) = &self.origins else { return Belongs::Here };
        let node = match origins.node_of(interface(), napi, cpu) {
            Some((node, _)) => Some(node),
            None => return Belongs::Unknown,
        };
        if node == here {
            return Belongs::Here;
        }
        match self.nodes.iter().position(|&silo| silo == node) {
            Some(silo) if self.taking[silo] => Belongs::To(silo),
            Some(_) => Belongs::Drained,
            None => Belongs::Elsewhere,
        }
    }
}

/// Returns the silos that help each silo, the nearest first.
fn helpers(
    topology: &Topology,
    layout: &Layout,
    taking: &Taking,
    without_nic: NodesWithoutNic,
) -> Vec<Vec<usize>> {
    let idle = |silo: usize| layout.silos[silo].nics.is_empty();
    let free: Vec<usize> = (0..layout.silos.len()).filter(|&silo| idle(silo) && taking.silo(silo)).collect();
    let of_one = |silo: usize| match (layout.silos[silo].node, without_nic) {
        (Some(node), NodesWithoutNic::Assist) if !idle(silo) => {
            let mut near = free.clone();
            near.sort_by_key(|&helper| layout.silos[helper].node.map(|there| topology.distance(node, there)));
            near
        }
        _ => Vec::new(),
    };
    (0..layout.silos.len()).map(of_one).collect()
}

fn silos_are_on(nodes: &[u32]) -> String {
    match nodes {
        [] => "this server has one silo over all nodes".to_owned(),
        nodes => {
            let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
            format!("silos are on nodes {}", nodes.join(", "))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use lane::layout::{LaneSpec, SiloLayout, Wishes};
    use lane::topology::{Cpu, Nic, NicKind, Node};

    use super::*;

    fn two_silos() -> Layout {
        let silo = |silo: usize| {
            let node = Some(silo as u32);
            let lanes = [0, 1].map(|at| LaneSpec { id: 2 * silo + at, silo, cpu: 0, node });
            SiloLayout {
                node,
                cpus: Default::default(),
                lanes: lanes.into(),
                helper_threads: 1,
                nics: Vec::new(),
            }
        };
        Layout { silos: vec![silo(0), silo(1)], shared_nics: Vec::new() }
    }

    #[test]
    fn lanes_of_drained_nodes_take_nothing() {
        let taking = Taking::new(&two_silos(), &[1]).unwrap();
        assert_eq!(taking.lanes(true).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(taking.lanes(false).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn draining_every_node_or_one_without_a_silo_is_refused() {
        assert_eq!(Taking::new(&two_silos(), &[0, 1]), Err(TakingError::Nobody));
        let error = Taking::new(&two_silos(), &[7]).unwrap_err().to_string();
        assert!(error.contains("node 7") && error.contains("nodes 0, 1"), "{error}");
    }

    /// Makes a topology of two CPUs on each node; eth0 on node 0 and eth2 on node 2; 1 is near 0, 3 near 2.
    pub(in crate::silo) fn four_nodes_with_cards_on_two() -> Topology {
        let distance = |a: u32, b: u32| match (a == b, a / 2 == b / 2) {
            (true, _) => 10,
            (false, true) => 12,
            (false, false) => 21,
        };
        let node = |id: u32| Node {
            id,
            cpus: [2 * id, 2 * id + 1].into_iter().collect(),
            memory_bytes: 1 << 30,
            free_bytes: 1 << 29,
            distances: (0..4).map(|other| (other, distance(id, other))).collect(),
            huge_pages: Vec::new(),
        };
        let cpu = |id: u32| Cpu {
            id,
            node: Some(id / 2),
            package: Some(id / 2),
            siblings: [id].into_iter().collect(),
            online: true,
            allowed: true,
        };
        let nic = |node: u32| Nic {
            name: format!("eth{node}"),
            ifindex: node + 2,
            kind: NicKind::Device,
            node: Some(node),
            speed_mbps: Some(25_000),
            up: true,
            mtu: 1500,
            lower: Vec::new(),
            rx_queues: Vec::new(),
            tx_queues: Vec::new(),
            irqs: Vec::new(),
        };
        Topology {
            nodes: (0..4).map(node).collect(),
            cpus: (0..8).map(cpu).collect(),
            nics: vec![nic(0), nic(2)],
            disks: Vec::new(),
        }
    }

    fn placed(without_nic: NodesWithoutNic, drained: &[u32]) -> Placement {
        let topology = four_nodes_with_cards_on_two();
        let layout = Layout::new(&topology, &Wishes::default()).unwrap();
        Placement::new(&topology, &layout, &Taking::new(&layout, drained).unwrap(), without_nic)
    }

    #[test]
    fn nodes_without_a_nic_help_those_with_one_the_nearest_first() {
        let placement = placed(NodesWithoutNic::Assist, &[]);
        let helpers: Vec<&[usize]> = (0..4).map(|silo| placement.helpers_of(silo)).collect();
        assert_eq!(helpers, [&[1, 3][..], &[], &[3, 1], &[]]);
        let idle = placed(NodesWithoutNic::Idle, &[]);
        assert!((0..4).all(|silo| idle.helpers_of(silo).is_empty()));
        assert_eq!(placed(NodesWithoutNic::Assist, &[1]).helpers_of(0), [3], "who is drained helps nobody");
    }

    #[test]
    fn a_silo_is_full_when_all_its_lanes_are_and_somebody_may_help() {
        let loads = Loads::new(8);
        let (help, idle) = (placed(NodesWithoutNic::Assist, &[]), placed(NodesWithoutNic::Idle, &[]));
        loads.set_full(0, true);
        assert!(!help.is_full(0, &loads), "one of its lanes has time");
        loads.set_full(1, true);
        assert!(help.is_full(0, &loads));
        assert!(!help.is_full(2, &loads), "another's lanes are not");
        assert!(!idle.is_full(0, &loads), "nobody would help");
        assert_eq!(help.silo_on(Some(2)), Some(2));
        assert_eq!(help.silo_on(None), None);
    }
}
