//! Tests of the nodes that connections are traced to, on machines with lists that tell the truth and with
//! lists that lie.

use lane::topology::{CpuSet, Evidence, Irq, Napi, Nic, NicKind, Node, Origins, RxQueue, Topology};

/// Makes a machine of two nodes with CPUs 0-1 and 2-3. It has `eth0` (index 2) on node 0, `eth1` (index 3) on
/// node 1, `bond0` (index 9) over both, and `lo`. Interrupts go to the CPUs given for each NIC.
fn machine(irqs: [&[u32]; 2]) -> Topology {
    let node = |id: u32| Node {
        id,
        cpus: (2 * id..2 * id + 2).collect(),
        memory_bytes: 1 << 30,
        free_bytes: 0,
        distances: vec![(id, 10), (1 - id, 20)],
        huge_pages: Vec::new(),
    };
    let mut eth0 = nic("eth0", 2, NicKind::Device);
    let mut eth1 = nic("eth1", 3, NicKind::Device);
    (eth0.node, eth1.node) = (Some(0), Some(1));
    (eth0.irqs, eth1.irqs) = (vec![irq("eth0-rx-0", irqs[0])], vec![irq("virtio1-input.0", irqs[1])]);
    let mut bond = nic("bond0", 9, NicKind::Stacked);
    bond.lower = vec!["eth0".into(), "eth1".into()];
    let nics = vec![nic("lo", 1, NicKind::Virtual), eth0, eth1, bond];
    Topology { nodes: vec![node(0), node(1)], nics, ..Topology::default() }
}

fn nic(name: &str, ifindex: u32, kind: NicKind) -> Nic {
    Nic {
        name: name.to_owned(),
        ifindex,
        kind,
        node: None,
        speed_mbps: None,
        up: true,
        mtu: 1500,
        lower: Vec::new(),
        rx_queues: vec![RxQueue { index: 0, rps_cpus: CpuSet::new() }],
        tx_queues: Vec::new(),
        irqs: Vec::new(),
    }
}

fn irq(name: &str, cpus: &[u32]) -> Irq {
    Irq { number: 30, name: Some(name.to_owned()), cpus: cpus.iter().copied().collect(), node: None }
}

fn origins(topology: &Topology) -> Origins {
    Origins::new(topology, &[], &[0, 1])
}

/// Returns the node for an interface and a CPU, with an unknown NAPI id.
fn by_cpu(origins: &Origins, interface: u32, cpu: u32) -> Option<u32> {
    origins.node_of(Some(interface), || Some(999), || Some(cpu)).map(|(node, _)| node)
}

#[test]
fn nic_settles_it_and_nothing_else_is_asked() {
    let origins = origins(&machine([&[3], &[0]]));
    let unasked = || -> Option<u32> { panic!("asked for more than was needed") };
    assert_eq!(origins.node_of(Some(2), unasked, unasked), Some((0, Evidence::Interface)));
    assert_eq!(origins.node_of(Some(3), unasked, unasked), Some((1, Evidence::Interface)));
    assert_eq!(origins.node_of(Some(1), unasked, unasked), None, "loopback is on no node");
}

#[test]
fn behind_a_bond_the_napi_instance_wins_over_the_cpu() {
    let napis = [Napi { id: 100, ifindex: 2 }, Napi { id: 101, ifindex: 3 }, Napi { id: 102, ifindex: 1 }];
    let origins = Origins::new(&machine([&[0], &[2]]), &napis, &[0, 1]);
    assert_eq!(origins.node_of(Some(9), || Some(101), || Some(0)), Some((1, Evidence::Napi)));
    assert_eq!(origins.best_evidence(9), Some(Evidence::Napi));
}

#[test]
fn without_a_napi_instance_the_cpu_is_asked_only_where_nics_are_known_to_be_below() {
    let origins = origins(&machine([&[0], &[2]]));
    assert_eq!(origins.node_of(Some(9), || None, || Some(0)), Some((0, Evidence::Cpu)));
    assert_eq!(origins.node_of(Some(77), || None, || Some(0)), None, "it may be a tunnel");
    assert_eq!(origins.node_of(None, || None, || Some(0)), None);
}

#[test]
fn cpu_that_handles_nics_of_one_node_names_it_even_from_the_other_node() {
    let honest = origins(&machine([&[0, 1], &[2, 3]]));
    assert_eq!((by_cpu(&honest, 9, 1), by_cpu(&honest, 9, 2)), (Some(0), Some(1)));
    assert_eq!(honest.best_evidence(9), Some(Evidence::Cpu));
    let crossed = origins(&machine([&[2], &[1]]));
    assert_eq!((by_cpu(&crossed, 9, 2), by_cpu(&crossed, 9, 1)), (Some(0), Some(1)));
}

#[test]
fn cpu_that_handles_nics_of_both_nodes_or_of_none_proves_nothing() {
    let origins = origins(&machine([&[0, 1], &[1, 2]]));
    assert_eq!(by_cpu(&origins, 9, 0), Some(0));
    assert_eq!(by_cpu(&origins, 9, 1), None);
    assert_eq!(by_cpu(&origins, 9, 3), None);
    assert_eq!(by_cpu(&origins, 9, 4096), None);
}

#[test]
fn receive_steering_counts_like_interrupts() {
    let mut topology = machine([&[0], &[2]]);
    topology.nics[1].rx_queues[0].rps_cpus = [2, 3].into_iter().collect();
    let origins = origins(&topology);
    assert_eq!(by_cpu(&origins, 9, 2), None, "packets of eth0 are spread to where eth1's interrupts go");
    assert_eq!(by_cpu(&origins, 9, 3), Some(0));
}

#[test]
fn interrupts_that_bring_no_packets_do_not_count() {
    let mut topology = machine([&[0], &[2]]);
    topology.nics[2].irqs.push(irq("virtio1-output.0", &[0]));
    topology.nics[2].irqs.push(irq("virtio1-config", &[0]));
    assert_eq!(by_cpu(&origins(&topology), 9, 0), Some(0));
}

#[test]
fn nic_that_does_not_tell_its_interrupts_takes_the_proof_from_every_cpu() {
    let mut topology = machine([&[0], &[2]]);
    topology.nics[2].irqs.clear();
    let origins = origins(&topology);
    assert_eq!((by_cpu(&origins, 9, 0), by_cpu(&origins, 9, 2)), (None, None));
    assert_eq!(origins.best_evidence(9), None);
}

#[test]
fn interface_that_came_later_is_traced_like_one_over_every_nic() {
    let origins = origins(&machine([&[0], &[2]]));
    assert_eq!(by_cpu(&origins, 77, 2), Some(1));
    assert_eq!(origins.node_of(None, || Some(5), || Some(0)), Some((0, Evidence::Cpu)));
}

#[test]
fn node_without_lanes_is_stood_in_for_by_the_nearest() {
    let origins = Origins::new(&machine([&[0], &[2]]), &[], &[1]);
    assert_eq!(origins.node_of(Some(2), || None, || None), Some((1, Evidence::Interface)));
}

#[test]
fn bonds_that_contain_each_other_end() {
    let mut topology = machine([&[0], &[2]]);
    let mut other = nic("bond1", 10, NicKind::Stacked);
    other.lower = vec!["bond0".into(), "eth1".into()];
    topology.nics[3].lower.push("bond1".into());
    topology.nics.push(other);
    assert_eq!(by_cpu(&origins(&topology), 10, 0), Some(0));
}
