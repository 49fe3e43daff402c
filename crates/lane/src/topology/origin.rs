//! Nodes of connections, found from the traces that connections leave in their sockets. Selectors see
//! interfaces, so a connection through a bond of NICs of several nodes comes to any lane; this tells where it
//! belongs.
//!
//! Evidence, best first; what comes later is asked only where what came before is silent:
//! 1. the interface, where it is a NIC or a stack of NICs of one node;
//! 2. the NAPI instance of the last packet: it belongs to one NIC, even behind a bond (known from Linux 6.8 on);
//! 3. the CPU that handled the packet, where of the NICs below the interface only those of one node have
//!    interrupts or receive steering there. What counts is where interrupts *go*, not where they ought to: a CPU
//!    that handles NICs of two nodes proves nothing, and a CPU of the wrong node may prove the right NIC.

use super::{CpuSet, Napi, Nic, NicKind, Topology};

/// Table that the evidence is compared with. A snapshot: interrupts move and NAPI ids change, so make a new
/// one at times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins {
    /// Interfaces, sorted by index.
    interfaces: Vec<Interface>,
    /// Node of each NAPI instance, sorted by id.
    napis: Vec<(u32, u32)>,
    /// Devices assumed below interfaces that came after the snapshot was made.
    anywhere: Below,
}

/// Evidence by which a connection was traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The interface tells the node.
    Interface,
    /// The NAPI instance tells the node.
    Napi,
    /// The CPU that handled the last packet tells the node.
    Cpu,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Interface {
    ifindex: u32,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Node(u32),
    /// NICs of several nodes, or of none known, are below a bond or bridge.
    Below(Below),
    /// No hardware is below the interface.
    Nowhere,
}

/// Node for each CPU, where packets of only one node's NICs are handled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Below {
    node_of_cpu: Vec<Option<u32>>,
}

impl Origins {
    /// Makes the table of a machine with the NAPI instances `napis` (none where the kernel does not list
    /// them). A node without lanes is stood in for by the nearest of `lane_nodes`.
    pub fn new(topology: &Topology, napis: &[Napi], lane_nodes: &[u32]) -> Self {
        let home = |node: u32| topology.nearest_node(node, lane_nodes.iter().copied());
        let node_of = |nic: &Nic| nic.node.and_then(home);
        let interfaces = topology.nics.iter().map(|nic| {
            let place = match (node_of(nic), nic.kind) {
                (Some(node), _) => Place::Node(node),
                (None, NicKind::Stacked) => Place::Below(Below::of(&leaves(topology, nic), &node_of)),
                (None, NicKind::Device | NicKind::Virtual) => Place::Nowhere,
            };
            Interface { ifindex: nic.ifindex, place }
        });
        let mut interfaces: Vec<Interface> = interfaces.collect();
        interfaces.sort_by_key(|interface| interface.ifindex);
        let nic_of = |ifindex: u32| topology.nics.iter().find(|nic| nic.ifindex == ifindex);
        let mut napis: Vec<(u32, u32)> =
            napis.iter().filter_map(|napi| Some((napi.id, node_of(nic_of(napi.ifindex)?)?))).collect();
        napis.sort_unstable();
        let devices: Vec<&Nic> = topology.nics.iter().filter(|nic| nic.kind == NicKind::Device).collect();
        Self { interfaces, napis, anywhere: Below::of(&devices, &node_of) }
    }

    /// Returns the node that a connection came in on, and the evidence. The traces are asked for in their
    /// order, each at most once, and only as far as needed.
    pub fn node_of(
        &self,
        interface: Option<u32>,
        napi: impl FnOnce() -> Option<u32>,
        cpu: impl FnOnce() -> Option<u32>,
    ) -> Option<(u32, Evidence)> {
        let (below, is_hardware) = match interface.map(|ifindex| self.place(ifindex)) {
            Some(Some(Place::Node(node))) => return Some((*node, Evidence::Interface)),
            Some(Some(Place::Nowhere)) => return None,
            Some(Some(Place::Below(below))) => (below, true),
            Some(None) | None => (&self.anywhere, false),
        };
        let napi = napi();
        let found = napi.and_then(|napi| self.napis.binary_search_by_key(&napi, |&(id, _)| id).ok());
        if let Some(at) = found {
            return Some((self.napis[at].1, Evidence::Napi));
        }
        // Loopback and tunnels have no instance, so without one there may be no NIC to find. Of those that are there,
        // some drivers tell none of packets that they have merged (LRO).
        if napi.is_none() && !is_hardware {
            return None;
        }
        let node = *below.node_of_cpu.get(usize::try_from(cpu()?).ok()?)?;
        Some((node?, Evidence::Cpu))
    }

    /// Returns the best evidence by which connections through an interface can be traced to a node; `None`
    /// for those that cannot.
    pub fn best_evidence(&self, ifindex: u32) -> Option<Evidence> {
        match self.place(ifindex)? {
            Place::Node(_) => Some(Evidence::Interface),
            Place::Nowhere => None,
            Place::Below(_) if !self.napis.is_empty() => Some(Evidence::Napi),
            Place::Below(below) => below.node_of_cpu.iter().any(Option::is_some).then_some(Evidence::Cpu),
        }
    }

    fn place(&self, ifindex: u32) -> Option<&Place> {
        let at = self.interfaces.binary_search_by_key(&ifindex, |interface| interface.ifindex).ok()?;
        Some(&self.interfaces[at].place)
    }
}

impl Below {
    fn of(nics: &[&Nic], node_of: &impl Fn(&Nic) -> Option<u32>) -> Self {
        let mut claims: Vec<Claim> = Vec::new();
        for nic in nics {
            let node = node_of(nic);
            let cpus = receiving_cpus(nic);
            // A NIC that does not tell its interrupts may have them anywhere.
            if cpus.is_empty() {
                return Self::default();
            }
            for cpu in cpus.iter().map(|cpu| cpu as usize) {
                if cpu >= claims.len() {
                    claims.resize(cpu + 1, Claim::Free);
                }
                claims[cpu] = match (claims[cpu], node) {
                    (Claim::Free, Some(node)) => Claim::Of(node),
                    (Claim::Of(before), Some(node)) if before == node => Claim::Of(node),
                    _ => Claim::Contested,
                };
            }
        }
        let node = |claim| if let Claim::Of(node) = claim { Some(node) } else { None };
        Self { node_of_cpu: claims.into_iter().map(node).collect() }
    }
}

/// NICs that have packets handled by a CPU.
#[derive(Clone, Copy)]
enum Claim {
    Free,
    Of(u32),
    Contested,
}

/// Returns the devices below a stacked interface, through further stacked ones.
fn leaves<'a>(topology: &'a Topology, nic: &'a Nic) -> Vec<&'a Nic> {
    let mut found = Vec::new();
    let mut open: Vec<&str> = nic.lower.iter().map(String::as_str).collect();
    let mut seen = Vec::new();
    while let Some(name) = open.pop() {
        let Some(lower) = topology.nic(name).filter(|_| !seen.contains(&name)) else { continue };
        seen.push(name);
        match lower.kind {
            NicKind::Device => found.push(lower),
            NicKind::Stacked => open.extend(lower.lower.iter().map(String::as_str)),
            NicKind::Virtual => {}
        }
    }
    found
}

/// Returns the CPUs on which packets of a NIC may be handled: where interrupts go now, and where receive
/// steering spreads packets.
fn receiving_cpus(nic: &Nic) -> CpuSet {
    let receives = |name: &str| !NOT_RECEIVING.iter().any(|part| name.contains(part));
    let irqs = nic.irqs.iter().filter(|irq| irq.name.as_deref().is_none_or(receives));
    let mut cpus: CpuSet = irqs.flat_map(|irq| irq.cpus.iter()).collect();
    if !cpus.is_empty() {
        cpus.extend(nic.rx_queues.iter().flat_map(|queue| queue.rps_cpus.iter()));
    }
    cpus
}

/// Interrupts that bring no packets, by parts of their names: of virtio, vmxnet3, mlx5, and Intel's NICs.
const NOT_RECEIVING: [&str; 5] = ["-output.", "-config", "-event-", "_async", ":misc"];
