//! Other addresses of the server (MS-SMB2 2.2.32.5): what clients with several connections choose among.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lane::offload::offload;
use lane::probe::Address;
use lane::time::now;
use lane::topology::Nic;
use smb_wire::fsctl::interfaces::{Interface, RSS_CAPABLE};

use crate::server::ServerState;
use crate::settings::{InterfaceSection, SmbSection};

/// The interfaces that clients get: the machine's own, or those of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdvertisedInterfaces {
    /// The interfaces that are configured; of none, the address that the client came by.
    These(Vec<Interface>),
    /// This machine's addresses, as far as these listen there.
    InterfaceCache(Vec<SocketAddr>),
}

/// Caches the machine's addresses for a second, so that changed links show.
#[derive(Debug, Default)]
pub(crate) struct InterfaceCache(Mutex<Option<(Instant, Arc<[Interface]>)>>);

impl AdvertisedInterfaces {
    pub(crate) fn of(section: &SmbSection) -> Self {
        match section.interface.is_empty() {
            true => Self::InterfaceCache(section.listen.clone()),
            false => Self::These(section.interface.iter().zip(1..).map(configured).collect()),
        }
    }

    /// Returns the interfaces for a client that came by `here`.
    pub(crate) async fn of_client(&self, here: SocketAddr, server_state: &ServerState) -> Vec<Interface> {
        let here = here.ip().to_canonical();
        let told = match self {
            Self::These(these) => these.clone(),
            // A client on this machine needs no other way.
            Self::InterfaceCache(_) if here.is_loopback() => Vec::new(),
            Self::InterfaceCache(listen) => {
                let all = server_state.interface_cache.read(server_state.lane_nodes()).await;
                all.iter().filter(|interface| is_served(listen, interface.address)).copied().collect()
            }
        };
        match told.is_empty() {
            true => vec![Interface { index: 1, capability: 0, link_speed: SPEED_UNKNOWN, address: here }],
            false => told,
        }
    }
}

impl InterfaceCache {
    async fn read(&self, lane_nodes: Vec<u32>) -> Arc<[Interface]> {
        if let Some(fresh) = self.fresh() {
            return fresh;
        }
        // Where a helper fails there is nothing to tell, and the client stays with what it has.
        let read: Arc<[Interface]> =
            offload(None, move || read(&lane_nodes)).await.unwrap_or_default().into();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((now(), Arc::clone(&read)));
        read
    }

    fn fresh(&self) -> Option<Arc<[Interface]>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, known) = known.as_ref()?;
        (now().saturating_duration_since(*at) < FRESH).then(|| Arc::clone(known))
    }
}

/// Reads every address of the interfaces that are up: those on the nodes of lanes first, which serve them without a way
/// between nodes, and the fastest first among them.
fn read(lane_nodes: &[u32]) -> Vec<Interface> {
    of_machine(&Nic::of_this_machine(), &Address::of_this_machine().unwrap_or_default(), lane_nodes)
}

fn of_machine(nics: &[Nic], addresses: &[Address], lane_nodes: &[u32]) -> Vec<Interface> {
    let mut all: Vec<(bool, Interface)> = Vec::new();
    for address in addresses {
        // `/sys` may be that of another network namespace: then nothing is known but the address.
        let nic = nics.iter().find(|nic| nic.ifindex == address.ifindex);
        if nic.is_some_and(|nic| !nic.up) {
            continue;
        }
        let speed =
            nic.and_then(|nic| nic.speed_mbps).map_or(SPEED_UNKNOWN, |speed| u64::from(speed) * 1_000_000);
        let has_queues = nic.is_some_and(|nic| nic.rx_queues.len() > 1);
        let node = nic.and_then(|nic| nic.node);
        let is_far = node.is_some_and(|node| !lane_nodes.is_empty() && !lane_nodes.contains(&node));
        let interface = Interface {
            index: address.ifindex,
            capability: if has_queues { RSS_CAPABLE } else { 0 },
            link_speed: speed,
            address: address.ip,
        };
        all.push((is_far, interface));
    }
    all.sort_by_key(|(is_far, interface)| {
        (*is_far, std::cmp::Reverse(interface.link_speed), interface.index, interface.address)
    });
    all.truncate(TOLD_MAX);
    all.into_iter().map(|(_, interface)| interface).collect()
}

/// Returns whether a client that comes by this address is served.
fn is_served(listen: &[SocketAddr], address: IpAddr) -> bool {
    listen.iter().any(|listens| {
        let ip = listens.ip();
        ip == address || ip.is_unspecified() && (ip.is_ipv6() || address.is_ipv4())
    })
}

fn configured((section, index): (&InterfaceSection, u32)) -> Interface {
    Interface {
        index,
        capability: if section.rss { RSS_CAPABLE } else { 0 },
        link_speed: section.speed,
        address: section.address,
    }
}

/// Bits a second of an interface that tells no speed.
const SPEED_UNKNOWN: u64 = 1_000_000_000;
/// Time for which the machine is not asked again.
const FRESH: Duration = Duration::from_secs(1);
//@ limit: this machine's addresses, told to clients with several connections
//@ section: SMB
//@ unit: address
//@ all: process: {}, read once in {FRESH}
//@ empty: those of a moment ago are told
//@ counter: none
//@ attack: none, the machine has them
//@ reach: server
/// Addresses that one answer tells.
const TOLD_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use lane::topology::{NicKind, RxQueue};

    use super::*;

    fn nic(ifindex: u32, speed_mbps: Option<u32>, up: bool, queues: u32) -> Nic {
        let queue = |index| RxQueue { index, rps_cpus: lane::topology::CpuSet::new() };
        Nic {
            name: format!("eth{ifindex}"),
            ifindex,
            kind: NicKind::Device,
            node: None,
            speed_mbps,
            up,
            mtu: 1500,
            lower: Vec::new(),
            rx_queues: (0..queues).map(queue).collect(),
            tx_queues: Vec::new(),
            irqs: Vec::new(),
        }
    }

    fn address(ifindex: u32, ip: &str) -> Address {
        Address { ifindex, ip: ip.parse().unwrap(), prefix: 24 }
    }

    #[test]
    fn the_fastest_interface_comes_first_with_one_index_for_all_its_addresses() {
        let nics = [nic(2, Some(1000), true, 1), nic(3, Some(25_000), true, 8), nic(4, None, false, 1)];
        let addresses = [
            address(2, "192.0.2.1"),
            address(3, "2001:db8::1"),
            address(3, "192.0.2.3"),
            address(4, "192.0.2.4"),
        ];
        let told = of_machine(&nics, &addresses, &[]);
        let told: Vec<_> = told
            .iter()
            .map(|it| {
                (it.index, it.address.to_string(), it.link_speed / 1_000_000, it.capability == RSS_CAPABLE)
            })
            .collect();
        let expected =
            [(3, "192.0.2.3", 25_000, true), (3, "2001:db8::1", 25_000, true), (2, "192.0.2.1", 1000, false)];
        assert_eq!(told, expected.map(|(index, ip, speed, rss)| (index, ip.to_owned(), speed, rss)));
    }

    #[test]
    fn interfaces_whose_node_has_lanes_come_before_faster_ones_of_others() {
        let nics = [
            Nic { node: Some(1), ..nic(2, Some(25_000), true, 8) },
            Nic { node: Some(0), ..nic(3, Some(10_000), true, 8) },
            nic(4, Some(1000), true, 1),
        ];
        let addresses = [address(2, "192.0.2.2"), address(3, "192.0.2.3"), address(4, "192.0.2.4")];
        let order = |lane_nodes: &[u32]| -> Vec<_> {
            of_machine(&nics, &addresses, lane_nodes).iter().map(|interface| interface.index).collect()
        };
        assert_eq!(order(&[0]), [3, 4, 2]);
        assert_eq!(order(&[0, 1]), [2, 3, 4]);
        assert_eq!(order(&[]), [2, 3, 4], "lanes that are on no node in particular are near to all");
    }

    #[test]
    fn only_addresses_that_are_listened_at_are_told() {
        let served = |listen: &str, ip: &str| is_served(&[listen.parse().unwrap()], ip.parse().unwrap());
        assert!(served("0.0.0.0:445", "192.0.2.1") && !served("0.0.0.0:445", "2001:db8::1"));
        assert!(served("[::]:445", "192.0.2.1") && served("[::]:445", "2001:db8::1"));
        assert!(served("192.0.2.1:445", "192.0.2.1") && !served("192.0.2.1:445", "192.0.2.2"));
    }

    #[test]
    fn this_machine_tells_no_loopback() {
        assert!(read(&[]).iter().all(|interface| !interface.address.is_loopback() && interface.index != 0));
    }
}
