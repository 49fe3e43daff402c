//! Huge pages, and settings that move pages between nodes.

use super::{Area, Finding, Verdict, sysctl_advice};
use crate::topology::table::size;
use crate::topology::{Topology, Tree};

pub(super) fn all(tree: &Tree, topology: &Topology) -> Vec<Finding> {
    [huge_pages(tree, topology), numa_balancing(tree, topology), zone_reclaim(tree)]
        .into_iter()
        .flatten()
        .collect()
}

/// Checks huge pages. Buffer pools take reserved ones, else ask for transparent ones.
fn huge_pages(tree: &Tree, topology: &Topology) -> Option<Finding> {
    let reserved = topology.nodes.iter().flat_map(|node| &node.huge_pages);
    let free: u64 = reserved.map(|pages| pages.free.saturating_mul(pages.page_bytes)).sum();
    let modes = tree.text("sys/kernel/mm/transparent_hugepage/enabled");
    // The mode in force stands in brackets.
    let mode = modes.as_deref().and_then(|modes| modes.split(['[', ']']).nth(1)).unwrap_or("absent");
    let reserved =
        if free > 0 { format!("{} reserved and free", size(free)) } else { "none reserved".to_owned() };
    let found = format!("{reserved}; transparent: {mode}");
    let wanted = "some reserved, or transparent: madvise or always";
    let advice = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or reserve pages with \
                  `sysctl -w vm.nr_hugepages=256`; buffers cost more TLB misses without";
    let holds = free > 0 || matches!(mode, "madvise" | "always");
    Some(Finding::new(Area::Memory, "huge pages", found, wanted).unless(holds, Verdict::Warn, advice))
}

/// Checks NUMA balancing. Lanes are pinned and their memory is local by first touch; the kernel's guesses
/// only cost faults.
fn numa_balancing(tree: &Tree, topology: &Topology) -> Option<Finding> {
    let found = tree.text("proc/sys/kernel/numa_balancing")?;
    let several_nodes = topology.nodes.len() > 1;
    let wanted = if several_nodes { "0" } else { "any, there is one node" };
    let holds = !several_nodes || found == "0";
    let advice = sysctl_advice("kernel.numa_balancing", 0);
    Some(Finding::new(Area::Memory, "kernel.numa_balancing", found, wanted).unless(
        holds,
        Verdict::Warn,
        advice,
    ))
}

/// Checks zone reclaim. Above 0 the kernel drops cached file pages of a node rather than use another node's
/// free memory.
fn zone_reclaim(tree: &Tree) -> Option<Finding> {
    let found = tree.text("proc/sys/vm/zone_reclaim_mode")?;
    let holds = found == "0";
    let advice = sysctl_advice("vm.zone_reclaim_mode", 0);
    Some(Finding::new(Area::Memory, "vm.zone_reclaim_mode", found, "0").unless(holds, Verdict::Warn, advice))
}
