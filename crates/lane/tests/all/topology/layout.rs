//! Tests of lanes and silos on the fixture machines.

use lane::layout::{LaneCount, Layout, LayoutError, Wishes};

use crate::topology::fixture::{EIGHT_NODES, Machine, ONE_NODE, TWO_NODES};
use crate::topology::set;

fn lay_out(machine: &str, wishes: &Wishes) -> Result<Layout, LayoutError> {
    Layout::new(&Machine::new(machine).read().unwrap(), wishes)
}

fn with(lanes: LaneCount) -> Wishes {
    Wishes { lanes, ..Wishes::default() }
}

/// Returns `node:cpus` of each silo.
fn shape(layout: &Layout) -> Vec<String> {
    let silo = |silo: &lane::layout::SiloLayout| {
        let cpus: Vec<String> = silo.lanes.iter().map(|lane| lane.cpu.to_string()).collect();
        format!("{}:{}", silo.node.map_or("-".to_owned(), |node| node.to_string()), cpus.join(","))
    };
    layout.silos.iter().map(silo).collect()
}

fn nics(layout: &Layout, silo: usize) -> Vec<&str> {
    layout.silos[silo].nics.iter().map(|nic| nic.name.as_str()).collect()
}

#[test]
fn default_is_a_lane_on_every_cpu_and_a_silo_for_every_node() {
    let layout = lay_out(TWO_NODES, &Wishes::default()).unwrap();
    assert_eq!(shape(&layout), ["0:0,1,2,3", "1:4,5,6,7"]);
    assert_eq!(layout.silos[1].cpus, set("4-7"));
    assert_eq!(layout.lanes().map(|lane| lane.id).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert!(layout.silos[1].lanes.iter().all(|lane| lane.silo == 1));
    assert_eq!(layout.silos[0].helper_threads, 4);
}

#[test]
fn nic_belongs_to_the_silo_of_its_node_and_unknown_ones_to_none() {
    let layout = lay_out(TWO_NODES, &Wishes::default()).unwrap();
    assert_eq!((nics(&layout, 0), nics(&layout, 1)), (vec!["eth0"], vec!["eth1"]));
    assert_eq!(layout.silo_of_nic(3), Some(1));
    assert_eq!(layout.shared_nics[0].name, "lo");
    assert_eq!(layout.silo_of_nic(1), None);
}

#[test]
fn only_silo_owns_every_nic() {
    let layout = lay_out(ONE_NODE, &Wishes::default()).unwrap();
    assert_eq!(nics(&layout, 0), ["lo", "eth0"]);
    assert!(layout.shared_nics.is_empty());
}

#[test]
fn silos_off_gives_one_silo_without_a_node() {
    let layout = lay_out(TWO_NODES, &Wishes { silos: false, ..Wishes::default() }).unwrap();
    assert_eq!(shape(&layout), ["-:0,1,2,3,4,5,6,7"]);
    assert_eq!(nics(&layout, 0).len(), 3);
}

#[test]
fn first_threads_of_cores_are_taken_before_second_ones() {
    let layout = lay_out(TWO_NODES, &with(LaneCount::PerSilo(2))).unwrap();
    assert_eq!(shape(&layout), ["0:0,1", "1:4,5"]);
    assert_eq!(layout.silos[0].cpus, set("0-3"), "helpers may use the rest of the node");
    let layout = lay_out(TWO_NODES, &with(LaneCount::PerSilo(3))).unwrap();
    assert_eq!(shape(&layout), ["0:0,1,2", "1:4,5,6"]);
}

#[test]
fn cores_are_not_shared_when_unwanted() {
    let layout = lay_out(TWO_NODES, &Wishes { share_cores: false, ..Wishes::default() }).unwrap();
    assert_eq!(shape(&layout), ["0:0,1", "1:4,5"]);
    let first_threads_forbidden = format!("{TWO_NODES}\n allowed 2-7");
    let layout =
        lay_out(&first_threads_forbidden, &Wishes { share_cores: false, ..Wishes::default() }).unwrap();
    assert_eq!(shape(&layout), ["0:2,3", "1:4,5"], "a core whose first thread is forbidden is still a core");
}

#[test]
fn total_is_dealt_out_from_the_silo_with_the_fastest_nic() {
    assert_eq!(shape(&lay_out(TWO_NODES, &with(LaneCount::Total(1))).unwrap()), ["1:4"]);
    assert_eq!(shape(&lay_out(TWO_NODES, &with(LaneCount::Total(3))).unwrap()), ["0:0", "1:4,5"]);
    let lopsided = "node 0 cpus=0 mem=8 dist=10,21\n node 1 cpus=1-3 mem=8 dist=21,10";
    assert_eq!(shape(&lay_out(lopsided, &with(LaneCount::Total(4))).unwrap()), ["0:0", "1:1,2,3"]);
}

#[test]
fn nic_on_a_node_without_lanes_is_served_by_the_nearest_silo() {
    let layout = lay_out(EIGHT_NODES, &with(LaneCount::Cpus(set("0,8")))).unwrap();
    assert_eq!(shape(&layout), ["0:0", "8:8"]);
    assert_eq!(nics(&layout, 0), ["eth0"]);
    assert_eq!(nics(&layout, 1), ["eth1", "eth2"]);
}

#[test]
fn explicit_cpus_bound_the_helpers_too() {
    let layout = lay_out(TWO_NODES, &with(LaneCount::Cpus(set("1,3,6")))).unwrap();
    assert_eq!(shape(&layout), ["0:1,3", "1:6"]);
    assert_eq!(layout.silos[0].cpus, set("1,3"));
}

#[test]
fn cpus_of_a_memoryless_node_work_for_the_nearest_with_memory() {
    let machine = "
        node 0 cpus=0-1 mem=8 dist=10,20,30
        node 1 cpus=2-3 mem=0 dist=20,10,15
        node 2 cpus=4-5 mem=8 dist=30,15,10
        pci eth0 index=2 node=1
    ";
    let layout = lay_out(machine, &Wishes::default()).unwrap();
    assert_eq!(shape(&layout), ["0:0,1", "2:2,3,4,5"]);
    assert_eq!(nics(&layout, 1), ["eth0"]);
}

#[test]
fn node_with_memory_but_no_cpus_has_no_silo() {
    let machine =
        "node 0 cpus=0-1 mem=8 dist=10,40\n node 1 cpus= mem=64 dist=40,10\n pci eth0 index=2 node=1";
    let layout = lay_out(machine, &Wishes::default()).unwrap();
    assert_eq!(shape(&layout), ["0:0,1"]);
    assert_eq!(nics(&layout, 0), ["eth0"]);
}

#[test]
fn kernel_without_numa_gets_one_silo() {
    let machine = Machine::new("");
    machine.write("sys/devices/system/cpu/online", "0-3\n");
    let layout = Layout::new(&machine.read().unwrap(), &Wishes::default()).unwrap();
    assert_eq!(shape(&layout), ["-:0,1,2,3"]);
}

#[test]
fn too_many_lanes_are_refused_with_what_there_is() {
    let error = lay_out(TWO_NODES, &with(LaneCount::PerSilo(5))).unwrap_err();
    assert_eq!(error.to_string(), "5 lanes in each silo asked for, but node 0 has only 4 usable CPUs (0-3)");
    let error = lay_out(TWO_NODES, &Wishes { share_cores: false, ..with(LaneCount::Total(8)) }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "8 lanes asked for, but this process has only 4 usable CPUs (0-1,4-5); \
         letting lanes share cores would be enough"
    );
    assert_eq!(lay_out(TWO_NODES, &with(LaneCount::Total(0))), Err(LayoutError::NoLanes));
}

#[test]
fn explicit_cpus_that_cannot_be_used_are_named() {
    let machine = format!("{TWO_NODES}\n offline 8\n allowed 0-6,8");
    let refused = |cpus: &str| lay_out(&machine, &with(LaneCount::Cpus(set(cpus)))).unwrap_err();
    assert_eq!(refused("0,9-10"), LayoutError::UnknownCpus(set("9-10")));
    assert_eq!(refused("0,8"), LayoutError::OfflineCpus(set("8")));
    assert_eq!(refused("6,7"), LayoutError::ForbiddenCpus(set("7")));
    assert_eq!(refused(""), LayoutError::NoLanes);
}

#[test]
fn display_shows_silos_and_shared_nics() {
    insta::assert_snapshot!(lay_out(TWO_NODES, &Wishes::default()).unwrap().to_string());
}
