//! Layout of a server's lanes: how many, on which CPUs, grouped into silos, and which NICs each silo serves.
//!
//! A silo is one NUMA node's share. CPUs of a node without memory work for the nearest node that has some; a NIC
//! on a node without lanes is served by the nearest silo; a NIC of unknown node belongs to no silo, and the
//! kernel's hash spreads its connections over all lanes.

use std::collections::BTreeMap;
use std::fmt;

use crate::topology::table::{Table, or_dash};
use crate::topology::{Cpu, CpuSet, NicKind, Topology};

/// Silos of a server, with the lanes of each. Lane ids count through all silos in order, so `lanes()` is
/// sorted by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Silos in the order of their nodes; never empty, and each has a lane.
    pub silos: Vec<SiloLayout>,
    /// NICs of no silo, because of an unknown node or because they join NICs of different nodes.
    pub shared_nics: Vec<NicRef>,
}

/// Lanes, threads and NICs of one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiloLayout {
    /// Node with the memory of the silo; `None` on a machine without NUMA and when silos are switched off.
    pub node: Option<u32>,
    /// Every CPU allowed to the silo's threads, lanes and helpers.
    pub cpus: CpuSet,
    /// Lanes of the silo, at least one.
    pub lanes: Vec<LaneSpec>,
    /// Threads for calls that io_uring lacks.
    pub helper_threads: usize,
    /// NICs with traffic that this silo serves.
    pub nics: Vec<NicRef>,
}

/// A lane: a thread pinned to one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LaneSpec {
    /// Position among all lanes of the server, from 0.
    pub id: usize,
    /// Position of the lane's silo in [`Layout::silos`].
    pub silo: usize,
    /// Number of the CPU that the lane is pinned to.
    pub cpu: u32,
    /// Node with the memory nearest to the lane's CPU, silos or not; `None` on a machine without NUMA.
    pub node: Option<u32>,
}

/// An interface by number, as in packets' control messages, and by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicRef {
    /// Interface index, as the kernel numbers interfaces.
    pub ifindex: u32,
    /// Interface name, such as `eth0`.
    pub name: String,
    /// Kind of the NIC.
    pub kind: NicKind,
}

/// Layout that the operator asked for. The default gives every usable CPU a lane and every node a silo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Number of lanes, or their CPUs.
    pub lanes: LaneCount,
    /// One silo for each node; false puts all lanes into one silo (`--no-silo`), for comparison.
    pub silos: bool,
    /// True if lanes may share a core. Asked for by explicit CPUs, it is always granted.
    pub share_cores: bool,
    /// Helper threads of each silo; `None` chooses by the silo's number of lanes.
    pub helper_threads: Option<usize>,
}

/// Number of lanes, or their CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LaneCount {
    /// One lane for each usable CPU.
    #[default]
    All,
    /// Number of lanes in each silo.
    PerSilo(usize),
    /// Number of lanes in all, dealt out in turn, first to the silo with the fastest NICs.
    Total(usize),
    /// One lane on each CPU of the set.
    Cpus(CpuSet),
}

/// Wish that the machine cannot grant. The text says what the machine has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The wish is for zero lanes, or an empty CPU list.
    #[error("at least one lane is needed")]
    NoLanes,
    /// The topology has no usable CPU.
    #[error("no CPU is online and allowed to this process")]
    NoCpu,
    /// A silo is to have more lanes than its node has CPUs.
    #[error("{wanted} lanes in each silo asked for, but {silo} has only {usable} usable CPUs ({cpus}){hint}", hint = core_hint(*.by_cores))]
    TooManyPerSilo {
        /// Lanes asked for in each silo.
        wanted: usize,
        /// Name of the silo that is too small.
        silo: String,
        /// CPUs of the silo that a lane could be pinned to.
        usable: usize,
        /// CPUs that were asked for.
        cpus: CpuSet,
        /// True if sharing cores would give more lanes.
        by_cores: bool,
    },
    /// The lanes wanted are more than the CPUs.
    #[error("{wanted} lanes asked for, but this process has only {usable} usable CPUs ({cpus}){hint}", hint = core_hint(*.by_cores))]
    TooManyInAll {
        /// Lanes asked for in all.
        wanted: usize,
        /// CPUs a lane could be pinned to.
        usable: usize,
        /// CPUs that were asked for.
        cpus: CpuSet,
        /// True if sharing cores would give more lanes.
        by_cores: bool,
    },
    /// Explicit CPUs do not exist on this machine.
    #[error("CPU {0} does not exist on this machine")]
    UnknownCpus(CpuSet),
    /// Explicit CPUs are offline.
    #[error("CPU {0} is offline")]
    OfflineCpus(CpuSet),
    /// Explicit CPUs are outside the affinity mask or cgroup cpuset.
    #[error("CPU {0} is not allowed to this process; its affinity mask or its cgroup's cpuset leaves it out")]
    ForbiddenCpus(CpuSet),
}

impl Layout {
    /// Makes the layout that fits the wishes to the machine.
    pub fn new(topology: &Topology, wishes: &Wishes) -> Result<Self, LayoutError> {
        let grounds = grounds(topology, wishes)?;
        let chosen = choose_cpus(topology, &grounds, wishes)?;
        let mut layout = Self { silos: Vec::new(), shared_nics: Vec::new() };
        for (ground, cpus) in grounds.iter().zip(chosen).filter(|(_, cpus)| !cpus.is_empty()) {
            layout.push_silo(topology, ground, cpus, wishes);
        }
        layout.assign_nics(topology);
        Ok(layout)
    }

    /// Returns all lanes in the order of their ids.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneSpec> {
        self.silos.iter().flat_map(|silo| &silo.lanes)
    }

    /// Returns the number of lanes of all silos.
    pub fn lane_count(&self) -> usize {
        self.silos.iter().map(|silo| silo.lanes.len()).sum()
    }

    /// Returns the position of the silo that serves an interface; `None` for shared and unknown ones.
    pub fn silo_of_nic(&self, ifindex: u32) -> Option<usize> {
        self.silos.iter().position(|silo| silo.nics.iter().any(|nic| nic.ifindex == ifindex))
    }

    /// Takes over the NICs that there are now; lanes and silos stay as they are.
    pub fn refresh_nics(&mut self, topology: &Topology) {
        self.silos.iter_mut().for_each(|silo| silo.nics.clear());
        self.shared_nics.clear();
        self.assign_nics(topology);
    }

    /// Returns the nodes near the lanes, each once, in order. One or none: there is nothing to choose.
    pub fn lane_nodes(&self) -> Vec<u32> {
        let nodes: std::collections::BTreeSet<u32> = self.lanes().filter_map(|lane| lane.node).collect();
        nodes.into_iter().collect()
    }

    fn push_silo(&mut self, topology: &Topology, ground: &Ground, mut lane_cpus: Vec<u32>, wishes: &Wishes) {
        let silo = self.silos.len();
        let first_id = self.lane_count();
        lane_cpus.sort_unstable();
        let lanes: Vec<LaneSpec> = lane_cpus
            .iter()
            .enumerate()
            .map(|(at, &cpu)| LaneSpec { id: first_id + at, silo, cpu, node: node_of_cpu(topology, cpu) })
            .collect();
        // An explicit CPU list bounds the helpers too: the operator keeps the rest for something else.
        let cpus = match wishes.lanes {
            LaneCount::Cpus(_) => lane_cpus.into_iter().collect(),
            _ => ground.cpus.clone(),
        };
        let helper_threads = wishes.helper_threads.unwrap_or_else(|| default_helpers(lanes.len())).max(1);
        self.silos.push(SiloLayout { node: ground.node, cpus, lanes, helper_threads, nics: Vec::new() });
    }

    fn assign_nics(&mut self, topology: &Topology) {
        let silo_nodes: Vec<u32> = self.silos.iter().filter_map(|silo| silo.node).collect();
        for nic in &topology.nics {
            let reference = NicRef { ifindex: nic.ifindex, name: nic.name.clone(), kind: nic.kind };
            let nearest = nic.node.and_then(|node| topology.nearest_node(node, silo_nodes.iter().copied()));
            // With one silo there is nothing to choose, known node or not.
            let silo = if self.silos.len() == 1 {
                Some(0)
            } else {
                nearest.and_then(|node| self.silos.iter().position(|silo| silo.node == Some(node)))
            };
            match silo {
                Some(silo) => self.silos[silo].nics.push(reference),
                None => self.shared_nics.push(reference),
            }
        }
    }
}

impl Default for Wishes {
    fn default() -> Self {
        Self { lanes: LaneCount::All, silos: true, share_cores: true, helper_threads: None }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(["SILO", "NODE", "LANES", "LANE CPUS", "HELPERS", "NICS"]);
        for (index, silo) in self.silos.iter().enumerate() {
            table.row([
                index.to_string(),
                or_dash(silo.node),
                silo.lanes.len().to_string(),
                silo.lanes.iter().map(|lane| lane.cpu).collect::<CpuSet>().to_string(),
                silo.helper_threads.to_string(),
                nic_names(&silo.nics),
            ]);
        }
        write!(f, "{table}")?;
        if !self.shared_nics.is_empty() {
            writeln!(f, "spread over all silos: {}", nic_names(&self.shared_nics))?;
        }
        Ok(())
    }
}

/// A silo before its lanes are chosen.
struct Ground {
    node: Option<u32>,
    /// Usable CPUs, for lanes and helpers.
    cpus: CpuSet,
    /// Speed of the silo's NICs in all, in Mb/s.
    nic_mbps: u64,
}

fn grounds(topology: &Topology, wishes: &Wishes) -> Result<Vec<Ground>, LayoutError> {
    let mut by_node: BTreeMap<Option<u32>, CpuSet> = BTreeMap::new();
    for cpu in topology.cpus.iter().filter(|cpu| cpu.usable()) {
        let home = if wishes.silos { cpu.node.map(|node| home_node(topology, node)) } else { None };
        by_node.entry(home).or_default().insert(cpu.id);
    }
    if by_node.is_empty() {
        return Err(LayoutError::NoCpu);
    }
    let ground =
        |(node, cpus): (Option<u32>, CpuSet)| Ground { node, cpus, nic_mbps: nic_mbps(topology, node) };
    Ok(by_node.into_iter().map(ground).collect())
}

/// Returns the node itself, or for one without memory the nearest that has some.
fn home_node(topology: &Topology, node: u32) -> u32 {
    let with_memory = topology.nodes.iter().filter(|node| node.memory_bytes > 0).map(|node| node.id);
    topology.nearest_node(node, with_memory).unwrap_or(node)
}

fn node_of_cpu(topology: &Topology, cpu: u32) -> Option<u32> {
    Some(home_node(topology, topology.cpu(cpu)?.node?))
}

/// Returns the speed of a node's NICs in all, in Mb/s; a NIC of unknown speed or with its link down counts a
/// little.
fn nic_mbps(topology: &Topology, node: Option<u32>) -> u64 {
    let devices = topology.nics.iter().filter(|nic| nic.kind == NicKind::Device);
    let here = devices.filter(|nic| nic.node.map(|node| home_node(topology, node)) == node);
    here.map(|nic| u64::from(nic.speed_mbps.unwrap_or(1))).sum()
}

/// Returns the lane CPUs of each ground.
fn choose_cpus(
    topology: &Topology,
    grounds: &[Ground],
    wishes: &Wishes,
) -> Result<Vec<Vec<u32>>, LayoutError> {
    if let LaneCount::Cpus(cpus) = &wishes.lanes {
        check_explicit(topology, cpus)?;
        return Ok(grounds.iter().map(|ground| ground.cpus.intersection(cpus).iter().collect()).collect());
    }
    let candidates: Vec<Vec<u32>> =
        grounds.iter().map(|ground| candidates(topology, ground, wishes.share_cores)).collect();
    let counts = match wishes.lanes {
        LaneCount::PerSilo(0) | LaneCount::Total(0) => return Err(LayoutError::NoLanes),
        LaneCount::PerSilo(wanted) => {
            check_per_silo(grounds, &candidates, wanted)?;
            vec![wanted; grounds.len()]
        }
        LaneCount::Total(wanted) => deal(grounds, &candidates, wanted)?,
        LaneCount::All | LaneCount::Cpus(_) => candidates.iter().map(Vec::len).collect(),
    };
    Ok(candidates
        .into_iter()
        .zip(counts)
        .map(|(cpus, count)| cpus.into_iter().take(count).collect())
        .collect())
}

/// Returns the CPUs that a lane may be pinned to, in the order of choice: a second thread of a core comes
/// after all first ones.
fn candidates(topology: &Topology, ground: &Ground, share_cores: bool) -> Vec<u32> {
    let usable = |id: &u32| ground.cpus.contains(*id);
    // Counted among usable siblings, so that a core whose first thread is forbidden still counts as a core.
    let thread = |cpu: &Cpu| cpu.siblings.iter().filter(usable).take_while(|&id| id < cpu.id).count();
    let mut ranked: Vec<(usize, u32)> =
        ground.cpus.iter().map(|id| (topology.cpu(id).map_or(0, thread), id)).collect();
    ranked.sort_unstable();
    ranked.into_iter().filter(|&(thread, _)| share_cores || thread == 0).map(|(_, id)| id).collect()
}

fn check_explicit(topology: &Topology, cpus: &CpuSet) -> Result<(), LayoutError> {
    let failing = |test: &dyn Fn(Option<&Cpu>) -> bool| -> CpuSet {
        cpus.iter().filter(|&id| !test(topology.cpu(id))).collect()
    };
    let unknown = failing(&|cpu| cpu.is_some());
    let offline = failing(&|cpu| cpu.is_some_and(|cpu| cpu.online));
    let forbidden = failing(&|cpu| cpu.is_some_and(Cpu::usable));
    match () {
        () if cpus.is_empty() => Err(LayoutError::NoLanes),
        () if !unknown.is_empty() => Err(LayoutError::UnknownCpus(unknown)),
        () if !offline.is_empty() => Err(LayoutError::OfflineCpus(offline)),
        () if !forbidden.is_empty() => Err(LayoutError::ForbiddenCpus(forbidden)),
        () => Ok(()),
    }
}

fn check_per_silo(grounds: &[Ground], candidates: &[Vec<u32>], wanted: usize) -> Result<(), LayoutError> {
    let Some(at) = candidates.iter().position(|cpus| cpus.len() < wanted) else { return Ok(()) };
    let silo = grounds[at].node.map_or_else(|| "the only silo".to_owned(), |node| format!("node {node}"));
    Err(LayoutError::TooManyPerSilo {
        wanted,
        silo,
        usable: candidates[at].len(),
        cpus: candidates[at].iter().copied().collect(),
        by_cores: grounds[at].cpus.len() >= wanted,
    })
}

/// Deals `wanted` lanes out in turn; a ground that has no CPU left is passed over.
fn deal(grounds: &[Ground], candidates: &[Vec<u32>], wanted: usize) -> Result<Vec<usize>, LayoutError> {
    let usable: usize = candidates.iter().map(Vec::len).sum();
    if wanted > usable {
        let all: usize = grounds.iter().map(|ground| ground.cpus.len()).sum();
        let cpus = candidates.iter().flatten().copied().collect();
        return Err(LayoutError::TooManyInAll { wanted, usable, cpus, by_cores: all >= wanted });
    }
    let mut order: Vec<usize> = (0..grounds.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(grounds[at].nic_mbps));
    let mut counts = vec![0; grounds.len()];
    let mut left = wanted;
    while left > 0 {
        for &at in &order {
            if left > 0 && counts[at] < candidates[at].len() {
                counts[at] += 1;
                left -= 1;
            }
        }
    }
    Ok(counts)
}

/// Returns the default number of helper threads: helpers block in the file system rather than compute, so
/// there are a few even beside one lane.
fn default_helpers(lanes: usize) -> usize {
    lanes.clamp(HELPERS_MIN, HELPERS_MAX)
}

fn core_hint(by_cores: bool) -> &'static str {
    if by_cores { "; letting lanes share cores would be enough" } else { "" }
}

fn nic_names(nics: &[NicRef]) -> String {
    if nics.is_empty() {
        return "-".to_owned();
    }
    nics.iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>().join(",")
}

const HELPERS_MIN: usize = 2;
const HELPERS_MAX: usize = 16;
