//! Tests of findings about invented machines, and about this one.

use std::path::Path;

use lane::probe::{Area, Finding, Verdict, examine_files, examine_kernel, examine_machine, report};

use crate::topology::fixture::{Machine, ONE_NODE, TWO_NODES};

fn findings(machine: &Machine) -> Vec<Finding> {
    examine_files(machine.root(), &machine.read().unwrap())
}

fn finding(machine: &Machine, name: &str) -> Finding {
    let found = findings(machine).into_iter().find(|finding| finding.name == name);
    found.unwrap_or_else(|| panic!("no finding about {name}"))
}

/// Makes a machine with one file that the kernel would have.
fn with_file(description: &str, path: &str, content: &str) -> Machine {
    let machine = Machine::new(description);
    machine.write(path, content);
    machine
}

#[test]
fn every_bad_or_mediocre_finding_comes_with_advice() {
    let machine = with_file(TWO_NODES, "proc/sys/net/core/somaxconn", "128\n");
    for finding in findings(&machine).iter().chain(&examine_machine()) {
        assert_eq!(finding.advice.is_some(), finding.verdict != Verdict::Good, "{finding:?}");
    }
}

#[test]
fn kernel_below_6_1_is_bad() {
    let verdict = |release: &str| {
        finding(&with_file(ONE_NODE, "proc/sys/kernel/osrelease", release), "version").verdict
    };
    assert_eq!(verdict("6.1.0-56-cloud-amd64\n"), Verdict::Good);
    assert_eq!(verdict("6.12.117+deb12\n"), Verdict::Good);
    assert_eq!(verdict("7.0\n"), Verdict::Good);
    assert_eq!(verdict("5.15.0-91-generic\n"), Verdict::Bad);
    assert_eq!(verdict("banana\n"), Verdict::Bad);
}

#[test]
fn socket_memory_settings_are_compared_with_what_a_fast_link_needs() {
    let machine = with_file(ONE_NODE, "proc/sys/net/core/rmem_max", "212992\n");
    let receive = finding(&machine, "net.core.rmem_max");
    assert_eq!((receive.verdict, receive.found.as_str()), (Verdict::Warn, "212992"));
    assert!(receive.advice.unwrap().starts_with("sysctl -w net.core.rmem_max=16777216,"));
    machine.write("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
    let send = finding(&machine, "net.ipv4.tcp_wmem");
    assert!(send.advice.unwrap().starts_with("sysctl -w 'net.ipv4.tcp_wmem=4096 16384 16777216',"));
    machine.write("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t67108864\n");
    assert_eq!(finding(&machine, "net.ipv4.tcp_wmem").verdict, Verdict::Good);
}

#[test]
fn numa_balancing_matters_on_several_nodes_only() {
    let verdict = |description: &str| {
        let machine = with_file(description, "proc/sys/kernel/numa_balancing", "1\n");
        finding(&machine, "kernel.numa_balancing").verdict
    };
    assert_eq!((verdict(ONE_NODE), verdict(TWO_NODES)), (Verdict::Good, Verdict::Warn));
}

#[test]
fn huge_pages_are_good_reserved_or_transparent() {
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    let never = "always madvise [never]\n";
    assert_eq!(finding(&with_file(ONE_NODE, path, never), "huge pages").verdict, Verdict::Warn);
    let reserved = finding(&with_file(TWO_NODES, path, never), "huge pages");
    assert_eq!(reserved.found, "512 MiB reserved and free; transparent: never");
    assert_eq!(reserved.verdict, Verdict::Good);
    let madvise = with_file(ONE_NODE, path, "always [madvise] never\n");
    assert_eq!(finding(&madvise, "huge pages").verdict, Verdict::Good);
}

#[test]
fn interrupts_off_the_nics_node_are_named_with_the_command_that_moves_them() {
    let machine = Machine::new(
        "node 0 cpus=0-3 mem=8 dist=10,21\n node 1 cpus=4-7 mem=8 dist=21,10\n\
         pci eth0 index=2 node=1 speed=100000 irqs=30:4-7,31:0-1,32:5",
    );
    let interrupts = finding(&machine, "eth0 interrupts");
    assert_eq!((interrupts.verdict, interrupts.found.as_str()), (Verdict::Warn, "on CPUs 0-1,4-7"));
    let advice = interrupts.advice.unwrap();
    assert!(advice.ends_with("for i in 31; do echo 4-7 > /proc/irq/$i/smp_affinity_list; done"), "{advice}");
    assert_eq!(finding(&machine, "eth0 receive queues").verdict, Verdict::Warn);
    assert_eq!(finding(&machine, "eth0 receive queues").wanted, "4, one for each CPU near it");
}

#[test]
fn transmit_queue_that_mixes_nodes_is_named() {
    let machine = Machine::new(TWO_NODES);
    assert_eq!(finding(&machine, "eth0 transmit steering").verdict, Verdict::Good);
    machine.write("sys/class/net/eth0/queues/tx-0/xps_cpus", "ff\n");
    let mixed = finding(&machine, "eth0 transmit steering");
    assert_eq!((mixed.verdict, mixed.found.as_str()), (Verdict::Warn, "mixed in tx-0"));
}

#[test]
fn nic_of_unknown_node_matters_on_several_nodes_only() {
    let unknown = "\n virtio eth7 index=9";
    assert_eq!(finding(&Machine::new(&format!("{ONE_NODE}{unknown}")), "eth7").verdict, Verdict::Good);
    assert_eq!(finding(&Machine::new(&format!("{TWO_NODES}{unknown}")), "eth7").verdict, Verdict::Warn);
    let bond = Machine::new(&format!("{TWO_NODES}\n stacked bond0 index=4 lower=eth0,eth1"));
    assert!(finding(&bond, "bond0").advice.unwrap().contains("an address of its own"));
}

#[test]
fn clocks_that_sink_and_quotas_below_the_lanes_are_told() {
    let machine = Machine::new(ONE_NODE);
    assert!(
        findings(&machine).iter().all(|finding| finding.area != Area::Cpu),
        "nothing to tell on this one"
    );
    machine.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
    assert_eq!(finding(&machine, "clock governor").verdict, Verdict::Good);
    machine.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
    assert_eq!(finding(&machine, "clock governor").found, "performance, powersave");
    assert_eq!(finding(&machine, "clock governor").verdict, Verdict::Warn);

    machine.write("proc/self/cgroup", "1:name=systemd:/x\n0::/service/linerate\n");
    let quota = "sys/fs/cgroup/service/linerate/cpu.max";
    machine.write(quota, "150000 100000\n");
    assert_eq!(finding(&machine, "CPU quota").found, "1.5 CPUs");
    assert_eq!(finding(&machine, "CPU quota").verdict, Verdict::Warn);
    machine.write(quota, "max 100000\n");
    assert_eq!(finding(&machine, "CPU quota").verdict, Verdict::Good);
}

#[test]
fn watches_too_few_for_a_large_tree_are_told() {
    let machine = with_file(ONE_NODE, "proc/sys/fs/inotify/max_user_watches", "8192\n");
    assert_eq!(finding(&machine, "fs.inotify.max_user_watches").verdict, Verdict::Warn);
}

#[test]
fn report_lists_findings_and_then_advice_worst_first() {
    let machine = with_file(TWO_NODES, "proc/sys/kernel/osrelease", "5.10.0\n");
    machine.write("proc/sys/net/core/somaxconn", "128\n");
    machine.write("proc/sys/kernel/numa_balancing", "0\n");
    insta::assert_snapshot!(report(&findings(&machine)).to_string());
}

#[test]
fn running_kernel_is_asked_for_every_feature_once() {
    let findings = examine_kernel(Path::new("/"));
    for name in ["ring", "openat2", "kernel TLS", "UDP segmentation (GSO)", "open files", "locked memory"] {
        assert!(findings.iter().any(|finding| finding.name == name), "{name} is missing in {findings:?}");
    }
    if findings.iter().any(|finding| finding.name == "ring" && finding.verdict == Verdict::Good) {
        let absent: Vec<_> = findings.iter().filter(|finding| finding.found == "absent").collect();
        assert!(
            absent.iter().all(|finding| finding.verdict != Verdict::Bad),
            "a ring of 6.1 has these: {absent:?}"
        );
    }
}
