//! A topology as tables for the terminal: nodes, NICs, disks.

use std::fmt;

use super::table::{Table, or_dash, size, speed};
use super::{CpuSet, Nic, NicKind, Node, Topology};

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = [self.node_table(), self.nic_table(), self.disk_table()];
        for (index, table) in tables.iter().filter(|table| !table.is_empty()).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{table}")?;
        }
        Ok(())
    }
}

impl Topology {
    fn node_table(&self) -> Table {
        let mut table =
            Table::new(["NODE", "CPUS", "USABLE", "CORES", "MEMORY", "FREE", "HUGE PAGES", "DISTANCES"]);
        for node in &self.nodes {
            table.row(self.node_row(node));
        }
        if self.nodes.is_empty() {
            let usable = self.usable_cpus();
            let cores = self.cores(&usable).to_string();
            let none = || "-".to_owned();
            table.row([
                none(),
                self.online_cpus().to_string(),
                usable.to_string(),
                cores,
                none(),
                none(),
                none(),
                none(),
            ]);
        }
        table
    }

    fn node_row(&self, node: &Node) -> [String; 8] {
        let usable = node.cpus.intersection(&self.usable_cpus());
        let huge_pages = node.huge_pages.iter().filter(|pages| pages.total > 0);
        let huge_pages = huge_pages.map(|pages| format!("{}x{}", pages.total, size(pages.page_bytes)));
        let distances = node.distances.iter().map(|(id, distance)| format!("{id}:{distance}"));
        [
            node.id.to_string(),
            non_empty(&node.cpus),
            non_empty(&usable),
            self.cores(&usable).to_string(),
            size(node.memory_bytes),
            size(node.free_bytes),
            joined_or_dash(huge_pages),
            joined_or_dash(distances),
        ]
    }

    fn nic_table(&self) -> Table {
        let mut table =
            Table::new(["NIC", "INDEX", "NODE", "SPEED", "LINK", "MTU", "QUEUES", "IRQ CPUS", "OVER"]);
        for nic in &self.nics {
            table.row(nic_row(nic));
        }
        table
    }

    fn disk_table(&self) -> Table {
        let mut table = Table::new(["DISK", "NUMBER", "NODE", "SIZE", "KIND"]);
        for disk in &self.disks {
            let kind = if disk.rotational { "rotating" } else { "solid" };
            let number = format!("{}:{}", disk.number.0, disk.number.1);
            table.row([
                disk.name.clone(),
                number,
                or_dash(disk.node),
                size(disk.size_bytes),
                kind.to_owned(),
            ]);
        }
        table
    }

    /// Returns the number of cores that the CPUs of `set` belong to.
    fn cores(&self, set: &CpuSet) -> usize {
        let first_thread = |id| self.cpu(id).and_then(|cpu| cpu.siblings.first()).unwrap_or(id);
        set.iter().map(first_thread).collect::<CpuSet>().len()
    }
}

fn nic_row(nic: &Nic) -> [String; 9] {
    let irq_cpus: CpuSet = nic.irqs.iter().flat_map(|irq| irq.cpus.iter()).collect();
    let over = match nic.kind {
        NicKind::Device => "device".to_owned(),
        NicKind::Virtual => "-".to_owned(),
        NicKind::Stacked => nic.lower.join(","),
    };
    [
        nic.name.clone(),
        nic.ifindex.to_string(),
        or_dash(nic.node),
        speed(nic.speed_mbps),
        if nic.up { "up" } else { "down" }.to_owned(),
        nic.mtu.to_string(),
        format!("{}/{}", nic.rx_queues.len(), nic.tx_queues.len()),
        non_empty(&irq_cpus),
        over,
    ]
}

fn non_empty(set: &CpuSet) -> String {
    if set.is_empty() { "-".to_owned() } else { set.to_string() }
}

fn joined_or_dash(parts: impl Iterator<Item = String>) -> String {
    let joined = parts.collect::<Vec<_>>().join(" ");
    if joined.is_empty() { "-".to_owned() } else { joined }
}
