//! CPUs: those online, those that share a core, those that this process may use.

use super::{CpuSet, Node, TopologyError, Tree};

/// A hardware thread of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Number of the thread in the kernel.
    pub id: u32,
    /// Memory node of the thread; `None` for an offline CPU or a kernel without NUMA.
    pub node: Option<u32>,
    /// Number of the physical package (socket).
    pub package: Option<u32>,
    /// Hardware threads of the same core, this one included.
    pub siblings: CpuSet,
    /// True if the kernel schedules on the thread.
    pub online: bool,
    /// True if the affinity mask and the cgroup's cpuset let this process use the thread.
    pub allowed: bool,
}

impl Cpu {
    /// Returns whether a thread of this process can run here.
    pub fn usable(&self) -> bool {
        self.online && self.allowed
    }
}

pub(super) fn read_all(tree: &Tree, nodes: &[Node]) -> Result<Vec<Cpu>, TopologyError> {
    let online = tree.cpu_list(&format!("{CPU_DIR}/online"))?;
    let mut present = online.clone();
    present.extend(tree.numbered(CPU_DIR, "cpu"));
    Ok(present.iter().map(|id| read_one(tree, nodes, id, online.contains(id))).collect())
}

/// Returns the CPUs of `Cpus_allowed_list` in `proc/self/status`; `None` where there is no such file.
pub(super) fn allowed_by_status(tree: &Tree) -> Result<Option<CpuSet>, TopologyError> {
    let Some(status) = tree.text(STATUS) else { return Ok(None) };
    let Some(list) = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")) else {
        return Ok(None);
    };
    list.parse().map(Some).map_err(|source| TopologyError::Parse { path: tree.path(STATUS), source })
}

fn read_one(tree: &Tree, nodes: &[Node], id: u32, online: bool) -> Cpu {
    let dir = format!("{CPU_DIR}/cpu{id}/topology");
    // Offline CPUs have no topology directory; `core_cpus_list` is the newer name.
    let siblings = tree
        .cpu_list(&format!("{dir}/core_cpus_list"))
        .or_else(|_| tree.cpu_list(&format!("{dir}/thread_siblings_list")))
        .ok()
        .filter(|siblings| siblings.contains(id))
        .unwrap_or_else(|| [id].into_iter().collect());
    Cpu {
        id,
        node: nodes.iter().find(|node| node.cpus.contains(id)).map(|node| node.id),
        package: tree.number(&format!("{dir}/physical_package_id")),
        siblings,
        online,
        allowed: true,
    }
}

const CPU_DIR: &str = "sys/devices/system/cpu";
const STATUS: &str = "proc/self/status";
