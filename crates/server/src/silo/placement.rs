//! Where a connection belongs: the node it arrived on, that node's silo, and whether it takes connections.

use lane::layout::Layout;
use lane::topology::{Origins, Topology, napis};

/// Which lanes take new connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taking {
    silos: Vec<bool>,
    lanes: Vec<bool>,
}

/// Nodes that cannot be drained as the configuration says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakingError {
    /// No silo is on this node.
    #[error("server.drained_nodes: no silo is on node {node}; {}", silos_are_on(.silos))]
    NoSilo {
        /// The node named.
        node: u32,
        /// Nodes that have silos.
        silos: Vec<u32>,
    },
    /// Nobody would be left.
    #[error("server.drained_nodes: every silo would be drained; to serve nobody, stop the server")]
    Nobody,
}

/// What every lane holds its connections against. A new one is made when links, interrupts or the configuration
/// change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// `None` where all lanes are on one node: nothing is asked, everything is local.
    origins: Option<Origins>,
    /// The silos' nodes; `None` with silos switched off.
    nodes: Vec<Option<u32>>,
    taking: Vec<bool>,
}

/// Where a connection belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// Where it was accepted.
    Here,
    /// To this silo.
    To(usize),
    /// To a node that has no silo, because silos are switched off.
    Elsewhere,
    /// To a silo that takes no connections.
    Drained,
    /// Nothing tells.
    Unknown,
}

impl Taking {
    /// All lanes but those of the drained nodes.
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

    /// The lanes that take connections, or those that do not.
    pub(crate) fn lanes(&self, taking: bool) -> impl Iterator<Item = usize> {
        self.lanes.iter().enumerate().filter(move |(_, takes)| **takes == taking).map(|(lane, _)| lane)
    }

    pub(crate) fn silo(&self, silo: usize) -> bool {
        self.silos[silo]
    }
}

impl Placement {
    /// As links and interrupts are now.
    pub(crate) fn new(topology: &Topology, layout: &Layout, taking: &Taking) -> Self {
        let lane_nodes = layout.lane_nodes();
        let origins = (lane_nodes.len() > 1).then(|| {
            // Kernels before 6.8 do not list them; the CPU is asked there.
            let napis = napis().unwrap_or_default();
            Origins::new(topology, &napis, &lane_nodes)
        });
        let nodes = layout.silos.iter().map(|silo| silo.node).collect();
        Self { origins, nodes, taking: taking.silos.clone() }
    }

    /// Whether anything has to be asked of a connection.
    pub(crate) fn is_open(&self) -> bool {
        self.origins.is_some()
    }

    /// Where a connection belongs that a lane on `here` accepted. Asks for as many traces as it needs.
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
mod tests {
    use lane::layout::{LaneSpec, SiloLayout};

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
}
