//! Interrupts of a device and the CPUs that handle them.

use std::path::Path;

use super::{CpuSet, Tree};

/// An interrupt line, usually of one NIC queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Irq {
    /// Number of the line in `/proc/interrupts`.
    pub number: u32,
    /// Name that the driver gives the line, such as `virtio0-input.0` or `mlx5_comp3@pci:0000:41:00.0`.
    pub name: Option<String>,
    /// CPUs that now get the interrupt; where the kernel does not say, CPUs that may get it.
    pub cpus: CpuSet,
    /// Node of the interrupt; `None` when unknown.
    pub node: Option<u32>,
}

/// Returns the message-signalled interrupts of the PCI function with the sysfs directory `hardware`.
pub(super) fn of_device(tree: &Tree, hardware: &Path) -> Vec<Irq> {
    let Ok(entries) = hardware.join("msi_irqs").read_dir() else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut irqs: Vec<Irq> = numbers.map(|number| read_one(tree, number)).collect();
    irqs.sort_by_key(|irq| irq.number);
    irqs
}

fn read_one(tree: &Tree, number: u32) -> Irq {
    let dir = format!("proc/irq/{number}");
    let list = |name: &str| tree.cpu_list(&format!("{dir}/{name}")).ok().filter(|cpus| !cpus.is_empty());
    // An interrupt that is in use has one directory, named by its driver.
    let name = tree.names(&dir).into_iter().find(|name| tree.path(&format!("{dir}/{name}")).is_dir());
    Irq {
        number,
        name,
        cpus: list("effective_affinity_list").or_else(|| list("smp_affinity_list")).unwrap_or_default(),
        node: tree.number(&format!("{dir}/node")),
    }
}
