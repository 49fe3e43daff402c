//! Description of a guest's machine, and QEMU's arguments for it.

use anyhow::{bail, ensure};

/// A guest's hardware.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The machine's role; the scenario tells its guests apart by it.
    pub(crate) name: &'static str,
    /// NUMA nodes.
    pub(crate) nodes: u32,
    /// CPUs of each node.
    pub(crate) cpus_per_node: u32,
    /// Memory of each node, MiB.
    pub(crate) memory_mib_per_node: u32,
    /// Network cards.
    pub(crate) nics: Vec<Nic>,
    /// An empty disk of so many MiB, for what the host's files and memory cannot show: a page cache that fills.
    pub(crate) disk_mib: Option<u32>,
}

/// A network card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nic {
    /// The interface's name inside the guest.
    pub(crate) name: &'static str,
    /// Model that the guest's driver sees.
    pub(crate) model: Model,
    /// The NUMA node its slot belongs to; `None`: one whose node the firmware does not tell.
    pub(crate) node: Option<u32>,
    /// Cards with the same wire hear each other, in one guest or in two.
    pub(crate) wire: &'static str,
}

/// Models whose drivers tell their node in different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Model {
    /// `device/numa_node` is missing; the PCI parent has it.
    Virtio,
    /// `device/numa_node` is there, as with real cards.
    Vmxnet3,
}

impl Machine {
    /// Makes a machine of two nodes, each of two CPUs and 1 GiB. Node 0 has a virtio card and node 1 a vmxnet3 card.
    /// Each has a client's card at the other end of its wire: `n0` with `c0`, `n1` with `c1`.
    pub(crate) fn two_nodes() -> Self {
        let nic = |name, model, node, wire| Nic { name, model, node, wire };
        Self {
            name: "server",
            nodes: 2,
            cpus_per_node: 2,
            memory_mib_per_node: 1024,
            nics: vec![
                nic("n0", Model::Virtio, Some(0), "w0"),
                nic("n1", Model::Vmxnet3, Some(1), "w1"),
                nic("c0", Model::Virtio, None, "w0"),
                nic("c1", Model::Virtio, None, "w1"),
            ],
            disk_mib: None,
        }
    }

    pub(crate) fn memory_mib(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.memory_mib_per_node)
    }

    /// Returns the hardware address of a card, by its place in `nics`.
    pub(crate) fn mac(&self, nic: usize) -> String {
        let guest = self.name.bytes().fold(0_u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
        format!("52:54:00:4c:{guest:02x}:{nic:02x}")
    }

    /// Returns QEMU's arguments for CPUs, memory, slots and cards.
    pub(crate) fn arguments(&self, wires: &Wires) -> anyhow::Result<Vec<String>> {
        let cpus = self.nodes * self.cpus_per_node;
        let mut args = vec![
            "-smp".to_owned(),
            format!("{cpus},sockets={},cores={}", self.nodes, self.cpus_per_node),
            "-m".to_owned(),
            format!("{}M", self.memory_mib()),
        ];
        for node in 0..self.nodes {
            let first = node * self.cpus_per_node;
            let last = first + self.cpus_per_node - 1;
            args.extend([
                "-object".to_owned(),
                format!("memory-backend-ram,id=mem{node},size={}M", self.memory_mib_per_node),
                "-numa".to_owned(),
                format!("node,nodeid={node},cpus={first}-{last},memdev=mem{node}"),
                "-device".to_owned(),
                format!("pxb-pcie,id=pxb{node},bus=pcie.0,bus_nr={},numa_node={node}", 16 * (node + 1)),
            ]);
        }
        for (index, nic) in self.nics.iter().enumerate() {
            let bus = match nic.node {
                Some(node) => {
                    ensure!(node < self.nodes, "{} is on node {node}, there is none", nic.name);
                    args.extend([
                        "-device".to_owned(),
                        format!("pcie-root-port,id=slot{index},bus=pxb{node},chassis={}", index + 1),
                    ]);
                    format!("slot{index}")
                }
                None => "pcie.0".to_owned(),
            };
            let model = match nic.model {
                Model::Virtio => "virtio-net-pci",
                Model::Vmxnet3 => "vmxnet3",
            };
            let mac = self.mac(index);
            args.extend([
                "-netdev".to_owned(),
                wires.netdev(self.name, nic, index)?,
                "-device".to_owned(),
                format!("{model},id={},netdev=net{index},bus={bus},mac={mac}", nic.name),
            ]);
        }
        Ok(args)
    }
}

/// Wires that join the cards of all guests of a scenario.
#[derive(Debug)]
pub(crate) struct Wires {
    /// Wire, guest, and how many cards it has there.
    ends: Vec<(&'static str, &'static str)>,
    sockets: std::path::PathBuf,
}

impl Wires {
    /// Makes the wires. `sockets` is a directory for those that lead from guest to guest.
    pub(crate) fn new(machines: &[Machine], sockets: &std::path::Path) -> Self {
        let ends =
            machines.iter().flat_map(|machine| machine.nics.iter().map(|nic| (nic.wire, machine.name)));
        Self { ends: ends.collect(), sockets: sockets.to_owned() }
    }

    fn netdev(&self, guest: &str, nic: &Nic, index: usize) -> anyhow::Result<String> {
        let guests: Vec<&str> =
            self.ends.iter().filter(|(wire, _)| *wire == nic.wire).map(|&(_, guest)| guest).collect();
        if guests.iter().all(|&other| other == guest) {
            let mut names: Vec<&str> = self.ends.iter().map(|&(wire, _)| wire).collect();
            names.sort_unstable();
            names.dedup();
            let hub = names.iter().position(|&wire| wire == nic.wire).unwrap_or_default();
            return Ok(format!("hubport,id=net{index},hubid={hub}"));
        }
        let [first, second] = guests[..] else {
            bail!("wire {} has {} ends; one that leads from guest to guest has two", nic.wire, guests.len());
        };
        ensure!(first != second, "wire {} has both ends in one guest and in another", nic.wire);
        let role = if first == guest { "server=on" } else { "server=off" };
        let path = self.sockets.join(format!("{}.wire", nic.wire));
        Ok(format!("stream,id=net{index},{role},addr.type=unix,addr.path={}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn joined(machines: &[Machine]) -> Vec<anyhow::Result<String>> {
        let wires = Wires::new(machines, Path::new("/s"));
        machines.iter().map(|machine| machine.arguments(&wires).map(|args| args.join(" "))).collect()
    }

    #[test]
    fn a_card_hangs_in_a_slot_of_its_node_and_its_wire_is_a_hub() {
        let args = joined(&[Machine::two_nodes()]).remove(0).unwrap();
        assert!(args.contains("pxb-pcie,id=pxb1,bus=pcie.0,bus_nr=32,numa_node=1"), "{args}");
        assert!(args.contains("pcie-root-port,id=slot1,bus=pxb1,"), "{args}");
        assert!(args.contains("vmxnet3,id=n1,netdev=net1,bus=slot1,"), "{args}");
        assert!(
            args.contains("hubport,id=net1,hubid=1") && args.contains("hubport,id=net3,hubid=1"),
            "{args}"
        );
    }

    #[test]
    fn a_wire_between_two_guests_has_one_listening_end() {
        let end = |name| {
            let nic = Nic { name: "e", model: Model::Virtio, node: None, wire: "w" };
            Machine { name, nics: vec![nic], ..Machine::two_nodes() }
        };
        let args = joined(&[end("a"), end("b")]);
        assert!(args[0].as_ref().unwrap().contains("server=on,addr.type=unix,addr.path=/s/w.wire"));
        assert!(args[1].as_ref().unwrap().contains("server=off,addr.type=unix,addr.path=/s/w.wire"));
        assert!(joined(&[end("a"), end("b"), end("c")]).iter().all(Result::is_err));
    }

    #[test]
    fn a_card_on_a_node_that_is_not_there_is_refused() {
        let mut machine = Machine::two_nodes();
        machine.nics[0].node = Some(2);
        assert!(joined(&[machine])[0].is_err());
    }
}
