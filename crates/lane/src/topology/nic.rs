//! Network interfaces: nodes, speeds, and the CPUs that do the work of their queues.

use super::{CpuSet, Irq, Tree, irq};

/// A network interface of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Name of the interface, such as `eth0`. Names and orders change between boots; the index is what
    /// packets carry.
    pub name: String,
    /// Index of the interface, as `SKF_AD_IFINDEX` and `IP_PKTINFO` report it.
    pub ifindex: u32,
    /// Kind of the NIC.
    pub kind: NicKind,
    /// Node of the hardware; for a bond, bridge or VLAN the node that all interfaces below agree on.
    pub node: Option<u32>,
    /// Link speed in Mb/s; `None` when the link is down or has no speed.
    pub speed_mbps: Option<u32>,
    /// True if the link is up (`operstate`; interfaces that keep no state count as up).
    pub up: bool,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Names of the interfaces below a bond, bridge or VLAN.
    pub lower: Vec<String>,
    /// Receive queues of the device.
    pub rx_queues: Vec<RxQueue>,
    /// Transmit queues of the device.
    pub tx_queues: Vec<TxQueue>,
    /// Interrupts of the device, where readable.
    pub irqs: Vec<Irq>,
}

/// Kind of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NicKind {
    /// The interface is a device: a PCI function, a virtio device.
    Device,
    /// The interface is made of others: bond, bridge, VLAN.
    Stacked,
    /// The interface is the kernel's alone: loopback, veth, tunnels.
    Virtual,
}

/// A receive queue of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxQueue {
    /// Number of the queue within the interface.
    pub index: u32,
    /// CPUs over which receive packet steering spreads this queue; empty when off.
    pub rps_cpus: CpuSet,
}

/// A transmit queue of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxQueue {
    /// Number of the queue within the interface.
    pub index: u32,
    /// CPUs that send by this queue; empty when transmit steering is off.
    pub xps_cpus: CpuSet,
}

impl Nic {
    /// Reads the interfaces of this machine as they are now, in the order of their indices, by blocking reads
    /// of `/sys`.
    pub fn of_this_machine() -> Vec<Self> {
        read_all(&Tree::new(std::path::Path::new("/")))
    }
}

pub(super) fn read_all(tree: &Tree) -> Vec<Nic> {
    let mut nics: Vec<Nic> =
        tree.names(NET_DIR).into_iter().filter_map(|name| read_one(tree, name)).collect();
    nics.sort_by_key(|nic| nic.ifindex);
    for index in 0..nics.len() {
        if nics[index].kind == NicKind::Stacked {
            nics[index].node = common_node(&nics, &nics[index].lower, STACK_DEPTH_MAX);
        }
    }
    nics
}

fn read_one(tree: &Tree, name: String) -> Option<Nic> {
    let dir = format!("{NET_DIR}/{name}");
    let ifindex = tree.number(&format!("{dir}/ifindex"))?;
    let names = tree.names(&dir);
    let lower: Vec<String> =
        names.iter().filter_map(|entry| entry.strip_prefix("lower_")).map(str::to_owned).collect();
    let device = format!("{dir}/device");
    let kind = if tree.path(&device).exists() {
        NicKind::Device
    } else if lower.is_empty() {
        NicKind::Virtual
    } else {
        NicKind::Stacked
    };
    let operstate = tree.text(&format!("{dir}/operstate"));
    let mask =
        |file: String| tree.text(&file).and_then(|text| CpuSet::parse_mask(&text).ok()).unwrap_or_default();
    let queues = format!("{dir}/queues");
    Some(Nic {
        ifindex,
        kind,
        node: tree.hardware_node(&device),
        // -1 is the kernel's "unknown"; it does not parse as unsigned.
        speed_mbps: tree.number(&format!("{dir}/speed")).filter(|&speed| speed > 0 && speed != u32::MAX),
        up: matches!(operstate.as_deref(), Some("up" | "unknown")),
        mtu: tree.number(&format!("{dir}/mtu")).unwrap_or(0),
        lower,
        rx_queues: tree
            .numbered(&queues, "rx-")
            .into_iter()
            .map(|index| RxQueue { index, rps_cpus: mask(format!("{queues}/rx-{index}/rps_cpus")) })
            .collect(),
        tx_queues: tree
            .numbered(&queues, "tx-")
            .into_iter()
            .map(|index| TxQueue { index, xps_cpus: mask(format!("{queues}/tx-{index}/xps_cpus")) })
            .collect(),
        irqs: tree.hardware(&device).map(|hardware| irq::of_device(tree, &hardware)).unwrap_or_default(),
        name,
    })
}

/// Returns the node that all of `lower` share, looking through further stacked interfaces; `None` when they
/// differ.
fn common_node(nics: &[Nic], lower: &[String], depth: u32) -> Option<u32> {
    let depth = depth.checked_sub(1)?;
    let mut nodes = lower.iter().map(|name| {
        let nic = nics.iter().find(|nic| nic.name == *name)?;
        if nic.kind == NicKind::Stacked { common_node(nics, &nic.lower, depth) } else { nic.node }
    });
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

const NET_DIR: &str = "sys/class/net";
/// Most levels of stacked interfaces that the kernel allows (`MAX_NEST_DEV`).
const STACK_DEPTH_MAX: u32 = 8;
