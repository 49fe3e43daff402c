//! NUMA nodes: CPUs, memory, distances and huge pages.

use super::{CpuSet, TopologyError, Tree};

/// A NUMA node. A node may have CPUs without memory, or memory without CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the node in the kernel.
    pub id: u32,
    /// Online CPUs of the node.
    pub cpus: CpuSet,
    /// Bytes of memory in all; 0 for a node without memory.
    pub memory_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Distance to each node by the ACPI SLIT, itself included: 10 is local.
    pub distances: Vec<(u32, u32)>,
    /// Reserved huge pages, one entry for each size.
    pub huge_pages: Vec<HugePages>,
}

/// Huge pages of one size on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Number of pages reserved.
    pub total: u64,
    /// Number of reserved pages that are not in use.
    pub free: u64,
}

pub(super) fn read_all(tree: &Tree) -> Result<Vec<Node>, TopologyError> {
    let ids = tree.numbered(NODE_DIR, "node");
    let read_one = |&id: &u32| {
        let dir = format!("{NODE_DIR}/node{id}");
        let meminfo = tree.text(&format!("{dir}/meminfo")).unwrap_or_default();
        let distances = tree.text(&format!("{dir}/distance")).unwrap_or_default();
        // The row has one figure for each online node, in the order of their ids.
        let distances = distances.split_whitespace().map_while(|figure| figure.parse().ok());
        Ok(Node {
            id,
            cpus: tree.cpu_list(&format!("{dir}/cpulist"))?,
            memory_bytes: meminfo_bytes(&meminfo, "MemTotal:"),
            free_bytes: meminfo_bytes(&meminfo, "MemFree:"),
            distances: ids.iter().copied().zip(distances).collect(),
            huge_pages: huge_pages(tree, &dir),
        })
    };
    ids.iter().map(read_one).collect()
}

/// Returns a figure of `meminfo`, which has lines such as `Node 0 MemTotal: 8152048 kB`, in bytes.
fn meminfo_bytes(meminfo: &str, key: &str) -> u64 {
    let words = meminfo.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let figure = words.into_iter().find_map(|words| match words[..] {
        ["Node", _, found, figure, "kB"] if found == key => figure.parse::<u64>().ok(),
        _ => None,
    });
    figure.unwrap_or(0).saturating_mul(1024)
}

fn huge_pages(tree: &Tree, node_dir: &str) -> Vec<HugePages> {
    let dir = format!("{node_dir}/hugepages");
    let mut sizes: Vec<HugePages> = tree
        .names(&dir)
        .iter()
        .filter_map(|name| {
            let size_kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            Some(HugePages {
                page_bytes: size_kib.saturating_mul(1024),
                total: tree.number(&format!("{dir}/{name}/nr_hugepages"))?,
                free: tree.number(&format!("{dir}/{name}/free_hugepages"))?,
            })
        })
        .collect();
    sizes.sort_by_key(|pages| pages.page_bytes);
    sizes
}

const NODE_DIR: &str = "sys/devices/system/node";
