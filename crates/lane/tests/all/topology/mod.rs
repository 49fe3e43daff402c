//! Tests that read machines from sysfs trees, and lay lanes out on them.

mod fixture;
mod layout;
mod network;
mod origin;
mod probe;

use fixture::{EIGHT_NODES, Machine, ONE_NODE, TWO_NODES};
use lane::topology::{CpuSet, NicKind, Topology, TopologyError};

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

#[test]
fn two_nodes_are_read_as_described() {
    let topology = Machine::new(TWO_NODES).read().unwrap();
    assert_eq!(topology.nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(topology.nodes[1].cpus, set("4-7"));
    assert_eq!(topology.nodes[1].memory_bytes, 32 << 30);
    assert_eq!(topology.nodes[1].free_bytes, 16 << 30);
    assert_eq!((topology.distance(0, 0), topology.distance(0, 1)), (10, 21));
    assert_eq!(topology.nodes[0].huge_pages[0].page_bytes, 2 << 20);
    assert_eq!((topology.nodes[0].huge_pages[0].total, topology.nodes[0].huge_pages[0].free), (512, 256));
    assert_eq!(topology.cpu(6).unwrap().siblings, set("4,6"));
    assert_eq!(topology.cpu(6).unwrap().node, Some(1));
    assert_eq!(topology.disks[0].node, Some(1));
    assert_eq!(topology.disks[0].size_bytes, 100 << 30);
    assert_eq!(topology.disks[0].number, (259, 0));
}

#[test]
fn nic_node_is_found_on_the_device_or_on_the_pci_parent_above_virtio() {
    let topology = Machine::new(TWO_NODES).read().unwrap();
    let direct = topology.nic("eth0").unwrap();
    assert_eq!((direct.ifindex, direct.node, direct.speed_mbps), (2, Some(0), Some(25_000)));
    let virtio = topology.nic("eth1").unwrap();
    assert_eq!((virtio.ifindex, virtio.node, virtio.kind), (3, Some(1), NicKind::Device));
    let loopback = topology.nic("lo").unwrap();
    assert_eq!((loopback.node, loopback.speed_mbps, loopback.kind), (None, None, NicKind::Virtual));
}

#[test]
fn node_minus_one_is_unknown() {
    let topology = Machine::new(ONE_NODE).read().unwrap();
    assert_eq!(topology.nic("eth0").unwrap().node, None);
    assert_eq!(topology.disks[0].node, None);
}

#[test]
fn interrupts_carry_name_and_effective_cpus_even_above_virtio() {
    let topology = Machine::new(ONE_NODE).read().unwrap();
    let irqs = &topology.nic("eth0").unwrap().irqs;
    assert_eq!(irqs.iter().map(|irq| irq.number).collect::<Vec<_>>(), [30, 31]);
    assert_eq!(irqs[1].cpus, set("1"), "the effective list is preferred to the permitted one");
    assert_eq!(irqs[1].name.as_deref(), Some("eth0-queue-31"));
    assert_eq!(irqs[1].node, Some(0));
}

#[test]
fn queue_steering_masks_are_read() {
    let topology = Machine::new(TWO_NODES).read().unwrap();
    let nic = topology.nic("eth0").unwrap();
    assert_eq!(nic.tx_queues[0].xps_cpus, set("0-1"));
    assert_eq!(nic.rx_queues[0].rps_cpus, set("2-3"));
}

#[test]
fn bond_has_the_node_its_slaves_agree_on() {
    let same = Machine::new(&format!(
        "{TWO_NODES}\n pci eth9 index=9 node=0\n stacked bond0 index=4 lower=eth0,eth9"
    ));
    let bond = same.read().unwrap().nic("bond0").unwrap().clone();
    assert_eq!((bond.kind, bond.node), (NicKind::Stacked, Some(0)));
    assert_eq!(bond.lower, ["eth0", "eth9"]);
    let mixed = Machine::new(&format!("{TWO_NODES}\n stacked bond0 index=4 lower=eth0,eth1"));
    assert_eq!(mixed.read().unwrap().nic("bond0").unwrap().node, None);
    let vlan_on_bond = Machine::new(&format!(
        "{TWO_NODES}\n stacked vlan5 index=3 lower=bond0\n stacked bond0 index=4 lower=eth0"
    ));
    assert_eq!(vlan_on_bond.read().unwrap().nic("vlan5").unwrap().node, Some(0));
}

#[test]
fn sparse_node_ids_keep_their_distances() {
    let topology = Machine::new(EIGHT_NODES).read().unwrap();
    assert_eq!(topology.distance(1, 11), 21);
    assert_eq!(topology.distance(9, 11), 11);
    assert_eq!(topology.nearest_node(11, [0, 1, 8]), Some(8));
    assert_eq!(topology.nearest_node(9, [9, 8]), Some(9));
    assert_eq!(topology.distance(0, 4), u32::MAX, "node 4 does not exist");
}

#[test]
fn offline_cpus_are_listed_but_not_usable() {
    let topology = Machine::new("node 0 cpus=0-2 mem=8\n offline 3").read().unwrap();
    assert_eq!(topology.cpus.len(), 4);
    assert!(!topology.cpu(3).unwrap().online);
    assert_eq!(topology.cpu(3).unwrap().node, None);
    assert_eq!(topology.usable_cpus(), set("0-2"));
}

#[test]
fn affinity_and_cpuset_limit_the_usable_cpus() {
    let mut topology = Machine::new(&format!("{TWO_NODES}\n allowed 1-5")).read().unwrap();
    assert_eq!(topology.usable_cpus(), set("1-5"));
    topology.limit_cpus(&set("4-7")).unwrap();
    assert_eq!(topology.usable_cpus(), set("4-5"), "limits add up");
    assert_eq!(topology.online_cpus(), set("0-7"));
}

#[test]
fn allowing_no_online_cpu_is_an_error_that_names_both_lists() {
    let error = Machine::new(&format!("{ONE_NODE}\n allowed 8-9")).read().unwrap_err();
    assert!(matches!(error, TopologyError::NoCpu { .. }));
    assert_eq!(
        error.to_string(),
        "no CPU is both online (0-1) and allowed to this process (8-9); check the cgroup's cpuset"
    );
}

#[test]
fn kernel_without_numa_has_cpus_and_no_nodes() {
    let machine = Machine::new("");
    machine.write("sys/devices/system/cpu/online", "0-3\n");
    let topology = machine.read().unwrap();
    assert_eq!(topology.nodes, []);
    assert_eq!(topology.usable_cpus(), set("0-3"));
    assert!(topology.cpus.iter().all(|cpu| cpu.node.is_none()));
}

#[test]
fn missing_and_malformed_files_are_named() {
    let empty = tempfile::tempdir().unwrap();
    let error = Topology::read(empty.path()).unwrap_err().to_string();
    assert!(error.contains("sys/devices/system/cpu/online"), "{error}");
    let machine = Machine::new(ONE_NODE);
    machine.write("sys/devices/system/cpu/online", "0-banana\n");
    let error = machine.read().unwrap_err().to_string();
    assert!(error.contains("cpu/online: \"0-banana\" is neither"), "{error}");
}

#[test]
fn display_is_an_aligned_table() {
    let machine = Machine::new(&format!("{TWO_NODES}\n stacked bond0 index=4 lower=eth0,eth1\n allowed 0-6"));
    insta::assert_snapshot!(machine.read().unwrap().to_string());
}

#[test]
fn this_machine_is_read() {
    let topology = Topology::of_this_machine().unwrap();
    assert!(topology.usable_cpus().is_subset(&topology.online_cpus()));
    assert!(topology.nic("lo").is_some_and(|lo| lo.ifindex > 0 && lo.up));
    if let Some(node) = topology.nodes.first() {
        assert!(node.memory_bytes > node.free_bytes, "{node:?}");
    }
}
