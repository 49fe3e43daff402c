//! Builds a `/sys` and `/proc` of an invented machine in a temporary directory, from a few lines of text:
//!
//! ```text
//! node 0 cpus=0-3 mem=64 dist=10,21 huge=512    memory in GiB; 2 MiB huge pages
//! offline 7                                     present CPUs that are not online
//! smt 0,4 1,5                                   CPUs of one core
//! allowed 0-2                                   Cpus_allowed_list
//! pci eth0 index=2 node=0 speed=100000 irqs=30:0-1,31:2-3    a NIC that is a PCI function itself
//! virtio eth1 index=3 node=1                    a NIC below a virtio device: only its parent tells a node
//! virtual lo index=1
//! stacked bond0 index=4 lower=eth0,eth1
//! disk nvme0n1 node=0 gib=100
//! ```

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lane::topology::{CpuSet, Topology, TopologyError};

pub(crate) struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new(description: &str) -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        let mut online = CpuSet::new();
        let mut offline = CpuSet::new();
        for line in description.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let fields = Fields(&words);
            match words[0] {
                "node" => {
                    online.extend(fields.cpus("cpus").iter());
                    machine.node(words[1], &fields);
                }
                "offline" => offline.extend(words[1].parse::<CpuSet>().unwrap().iter()),
                "smt" => words[1..].iter().for_each(|core| machine.core(core)),
                "allowed" => {
                    machine.write("proc/self/status", &format!("Cpus_allowed_list:\t{}\n", words[1]))
                }
                "pci" => machine.device_nic(words[1], &fields, ""),
                "virtio" => machine.device_nic(words[1], &fields, "/virtio7"),
                "virtual" | "stacked" => machine.virtual_nic(words[1], &fields),
                "disk" => machine.disk(words[1], &fields),
                other => panic!("unknown word {other:?} in the description"),
            }
        }
        for cpu in online.iter().chain(offline.iter()) {
            machine.mkdir(&format!("{CPUS}/cpu{cpu}"));
        }
        machine.write(&format!("{CPUS}/online"), &format!("{online}\n"));
        machine
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn read(&self) -> Result<Topology, TopologyError> {
        Topology::read(self.root())
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn node(&self, id: &str, fields: &Fields) {
        let dir = format!("sys/devices/system/node/node{id}");
        let kib = fields.number("mem").unwrap_or(0) << 20;
        self.write(&format!("{dir}/cpulist"), &format!("{}\n", fields.cpus("cpus")));
        self.write(
            &format!("{dir}/distance"),
            &format!("{}\n", fields.text("dist").unwrap_or("10").replace(',', " ")),
        );
        self.write(
            &format!("{dir}/meminfo"),
            &format!("Node {id} MemTotal: {kib:12} kB\nNode {id} MemFree:  {:12} kB\n", kib / 2),
        );
        if let Some(huge) = fields.number("huge") {
            self.write(&format!("{dir}/hugepages/hugepages-2048kB/nr_hugepages"), &format!("{huge}\n"));
            self.write(
                &format!("{dir}/hugepages/hugepages-2048kB/free_hugepages"),
                &format!("{}\n", huge / 2),
            );
        }
    }

    fn core(&self, cpus: &str) {
        for cpu in cpus.split(',') {
            self.write(&format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list"), &format!("{cpus}\n"));
        }
    }

    /// Adds a device's NIC; `below_pci` is the path from the PCI function to the device that the interface
    /// belongs to.
    fn device_nic(&self, name: &str, fields: &Fields, below_pci: &str) {
        let pci = self.pci_function(name, fields);
        let device = format!("{pci}{below_pci}");
        let net = format!("{device}/net/{name}");
        self.nic_attributes(&net, fields);
        self.link(&net, &format!("{NET}/{name}"));
        self.link(&device, &format!("{net}/device"));
        for irq in fields.text("irqs").into_iter().flat_map(|irqs| irqs.split(',')) {
            let (number, cpus) = irq.split_once(':').unwrap();
            self.write(&format!("{pci}/msi_irqs/{number}"), "msix\n");
            self.write(&format!("proc/irq/{number}/smp_affinity_list"), "0-1023\n");
            self.write(&format!("proc/irq/{number}/effective_affinity_list"), &format!("{cpus}\n"));
            self.write(&format!("proc/irq/{number}/node"), "0\n");
            self.mkdir(&format!("proc/irq/{number}/{name}-queue-{number}"));
        }
    }

    fn virtual_nic(&self, name: &str, fields: &Fields) {
        let net = format!("sys/devices/virtual/net/{name}");
        self.nic_attributes(&net, fields);
        self.link(&net, &format!("{NET}/{name}"));
        for lower in fields.text("lower").into_iter().flat_map(|lower| lower.split(',')) {
            self.link(&format!("{NET}/{lower}"), &format!("{net}/lower_{lower}"));
        }
    }

    fn nic_attributes(&self, net: &str, fields: &Fields) {
        self.write(&format!("{net}/ifindex"), &format!("{}\n", fields.text("index").unwrap()));
        self.write(&format!("{net}/mtu"), "1500\n");
        self.write(&format!("{net}/operstate"), "up\n");
        self.write(&format!("{net}/speed"), &format!("{}\n", fields.text("speed").unwrap_or("-1")));
        self.write(&format!("{net}/queues/rx-0/rps_cpus"), "00000000,0000000c\n");
        self.write(&format!("{net}/queues/tx-0/xps_cpus"), "00000000,00000003\n");
    }

    fn disk(&self, name: &str, fields: &Fields) {
        let disk = format!("{}/block/{name}", self.pci_function(name, fields));
        self.write(&format!("{disk}/dev"), "259:0\n");
        self.write(&format!("{disk}/size"), &format!("{}\n", fields.number("gib").unwrap_or(0) << 21));
        self.write(&format!("{disk}/queue/rotational"), "0\n");
        self.link(&disk, &format!("sys/block/{name}"));
    }

    fn pci_function(&self, name: &str, fields: &Fields) -> String {
        let pci = format!("sys/devices/pci0000:00/of-{name}");
        self.write(&format!("{pci}/numa_node"), &format!("{}\n", fields.text("node").unwrap_or("-1")));
        pci
    }

    fn mkdir(&self, path: &str) {
        fs::create_dir_all(self.root().join(path)).unwrap();
    }

    fn link(&self, target: &str, path: &str) {
        let path: PathBuf = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.root().join(target), path).unwrap();
    }
}

struct Fields<'a>(&'a [&'a str]);

impl<'a> Fields<'a> {
    fn text(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.text(key).map(|text| text.parse().unwrap())
    }

    fn cpus(&self, key: &str) -> CpuSet {
        self.text(key).unwrap_or("").parse().unwrap()
    }
}

pub(crate) const ONE_NODE: &str = "
    node 0 cpus=0-1 mem=8
    virtual lo index=1
    virtio eth0 index=2 irqs=30:0,31:1
    disk vda gib=20
";

pub(crate) const TWO_NODES: &str = "
    node 0 cpus=0-3 mem=64 dist=10,21 huge=512
    node 1 cpus=4-7 mem=32 dist=21,10
    smt 0,2 1,3 4,6 5,7
    virtual lo index=1
    pci eth0 index=2 node=0 speed=25000 irqs=30:0-1,31:2-3
    virtio eth1 index=3 node=1 speed=100000
    disk nvme0n1 node=1 gib=100
";

/// Machine with sub-NUMA clustering: eight nodes in two packages, ids with a gap, NICs on three of them.
pub(crate) const EIGHT_NODES: &str = "
    node 0 cpus=0-1 mem=16 dist=10,11,11,11,21,21,21,21
    node 1 cpus=2-3 mem=16 dist=11,10,11,11,21,21,21,21
    node 2 cpus=4-5 mem=16 dist=11,11,10,11,21,21,21,21
    node 3 cpus=6-7 mem=16 dist=11,11,11,10,21,21,21,21
    node 8 cpus=8-9 mem=16 dist=21,21,21,21,10,11,11,11
    node 9 cpus=10-11 mem=16 dist=21,21,21,21,11,10,11,11
    node 10 cpus=12-13 mem=16 dist=21,21,21,21,11,11,10,11
    node 11 cpus=14-15 mem=16 dist=21,21,21,21,11,11,11,10
    pci eth0 index=5 node=1 speed=100000
    pci eth1 index=6 node=9 speed=100000
    pci eth2 index=7 node=11 speed=10000
";

const CPUS: &str = "sys/devices/system/cpu";
const NET: &str = "sys/class/net";
