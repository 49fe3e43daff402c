//! Places of CPUs, memory, NICs and disks, read from sysfs and procfs.
//!
//! The file system root is a parameter, so a test feeds a tree of any machine. What the kernel does not tell
//! (a NIC without a node, a link that is down) is `None`, never an error: siloing is an optimisation.

mod block;
mod cpu;
mod cpuset;
mod display;
mod irq;
mod link;
mod napi;
mod nic;
mod node;
mod origin;
mod sysfs;
pub(crate) mod table;

use std::path::{Path, PathBuf};

pub use block::BlockDevice;
pub use cpu::Cpu;
pub use cpuset::{CpuSet, ParseCpuSetError};
pub use irq::Irq;
pub use link::carries;
pub use napi::{Napi, napis};
pub use nic::{Nic, NicKind, RxQueue, TxQueue};
pub use node::{HugePages, Node};
pub use origin::{Evidence, Origins};
pub(crate) use sysfs::Tree;

/// CPUs, memory, NICs and disks of one machine, with their places. All vectors are sorted by id (nodes,
/// CPUs), interface index (NICs) or name (disks).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Memory nodes; empty when the kernel was built without NUMA. Ids may be sparse.
    pub nodes: Vec<Node>,
    /// Present CPUs, online or not.
    pub cpus: Vec<Cpu>,
    /// Network interfaces, virtual ones too.
    pub nics: Vec<Nic>,
    /// Whole block devices, without partitions.
    pub disks: Vec<BlockDevice>,
}

/// Reason why a machine could not be described.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// A file that every Linux machine has could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file holds something other than the kernel writes there.
    #[error("cannot understand {path}: {source}")]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// Error in the file's content.
        source: ParseCpuSetError,
    },
    /// The online CPUs and those that this process may use have none in common.
    #[error(
        "no CPU is both online ({online}) and allowed to this process ({allowed}); check the cgroup's cpuset"
    )]
    NoCpu {
        /// CPUs that are online.
        online: CpuSet,
        /// CPUs that are allowed (affinity mask, cgroup cpuset).
        allowed: CpuSet,
    },
}

impl Topology {
    /// Reads the running machine, limited to the CPUs that the process's main thread may use
    /// (`sched_getaffinity`, which follows the cgroup's cpuset).
    pub fn of_this_machine() -> Result<Self, TopologyError> {
        let mut topology = Self::read(Path::new("/"))?;
        // Without the process's mask the kernel's own list, read above, stands.
        if let Ok(mask) = rustix::thread::sched_getaffinity(Some(rustix::process::getpid())) {
            let allowed =
                (0..rustix::thread::CpuSet::MAX_CPU as u32).filter(|&id| mask.is_set(id as usize)).collect();
            topology.limit_cpus(&allowed)?;
        }
        Ok(topology)
    }

    /// Reads the machine with `/sys` and `/proc` below `root`. `proc/self/status` there, when present, says
    /// which CPUs are allowed.
    pub fn read(root: &Path) -> Result<Self, TopologyError> {
        let tree = Tree::new(root);
        let nodes = node::read_all(&tree)?;
        let cpus = cpu::read_all(&tree, &nodes)?;
        let nics = nic::read_all(&tree);
        let disks = block::read_all(&tree);
        let mut topology = Self { nodes, cpus, nics, disks };
        if let Some(allowed) = cpu::allowed_by_status(&tree)? {
            topology.limit_cpus(&allowed)?;
        }
        Ok(topology)
    }

    /// Marks every CPU outside `allowed` as not allowed; CPUs already marked stay so.
    pub fn limit_cpus(&mut self, allowed: &CpuSet) -> Result<(), TopologyError> {
        for cpu in &mut self.cpus {
            cpu.allowed &= allowed.contains(cpu.id);
        }
        if self.usable_cpus().is_empty() {
            return Err(TopologyError::NoCpu { online: self.online_cpus(), allowed: allowed.clone() });
        }
        Ok(())
    }

    /// Returns the CPUs that are online.
    pub fn online_cpus(&self) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect()
    }

    /// Returns the CPUs that are online and allowed to this process.
    pub fn usable_cpus(&self) -> CpuSet {
        self.cpus.iter().filter(|cpu| cpu.usable()).map(|cpu| cpu.id).collect()
    }

    /// Returns the CPU with this id.
    pub fn cpu(&self, id: u32) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|index| &self.cpus[index])
    }

    /// Returns the node with this id.
    pub fn node(&self, id: u32) -> Option<&Node> {
        self.nodes.binary_search_by_key(&id, |node| node.id).ok().map(|index| &self.nodes[index])
    }

    /// Returns the interface with this name.
    pub fn nic(&self, name: &str) -> Option<&Nic> {
        self.nics.iter().find(|nic| nic.name == name)
    }

    /// Returns the node of `candidates` with the smallest distance from node `from` (which is the nearest to
    /// itself); the lowest id among equals.
    pub fn nearest_node(&self, from: u32, candidates: impl IntoIterator<Item = u32>) -> Option<u32> {
        candidates.into_iter().min_by_key(|&to| (from != to, self.distance(from, to), to))
    }

    /// Returns the ACPI SLIT distance of two nodes: 10 is local. An unknown pair counts as farthest.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        let known = self.node(from).and_then(|node| node.distances.iter().find(|(id, _)| *id == to));
        known.map_or(u32::MAX, |&(_, distance)| distance)
    }
}
