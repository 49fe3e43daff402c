//! Addresses and ports: which host owns an address, which socket is bound where, and which socket of a
//! SO_REUSEPORT group a packet reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::{HostId, SocketId};
use crate::backend::sim::engine::{FNV_OFFSET, fnv};

/// The address book of the world.
#[derive(Default)]
pub(super) struct Ports {
    owners: BTreeMap<IpAddr, HostId>,
    addresses: BTreeMap<HostId, Vec<IpAddr>>,
    bindings: BTreeMap<(HostId, Protocol, u16), Vec<Binding>>,
    ephemeral: BTreeSet<(HostId, Protocol, u16)>,
    next_ephemeral: BTreeMap<(HostId, Protocol), u16>,
    steering: BTreeMap<(HostId, Protocol, u16), Steer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// View of a steering hook on a packet that opens a connection, or of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Steered<'a> {
    /// Address of the sender.
    pub from: SocketAddr,
    /// Address of the destination.
    pub to: SocketAddr,
    /// Bytes of the datagram; empty for a connection.
    pub payload: &'a [u8],
}

/// Hook that chooses a socket of a group by place, as a program attached with SO_ATTACH_REUSEPORT_CBPF does.
/// A place that does not exist, or `None`, falls back to the hash.
pub(super) type Steer = Box<dyn FnMut(Steered<'_>) -> Option<usize>>;

struct Binding {
    ip: IpAddr,
    reuse: bool,
    /// Sockets in the order of their binding; the last takes the place of a socket that leaves, as in the
    /// kernel.
    sockets: Vec<SocketId>,
}

impl Ports {
    pub(super) fn add_address(&mut self, host: HostId, ip: IpAddr) {
        self.lead_to(host, ip);
        self.addresses.entry(host).or_default().push(ip);
    }

    /// Leads packets for `ip` to `host`, which does not have that address itself.
    pub(super) fn lead_to(&mut self, host: HostId, ip: IpAddr) {
        let before = self.owners.insert(ip, host);
        assert!(before.is_none_or(|owner| owner == host), "{ip} belongs to another host");
    }

    pub(super) fn host_with(&self, ip: IpAddr) -> Option<HostId> {
        self.owners.get(&ip).copied()
    }

    /// Returns the host that packets from `from` to `ip` reach.
    pub(super) fn route(&self, from: HostId, ip: IpAddr) -> Option<HostId> {
        if ip.is_loopback() || ip.is_unspecified() { Some(from) } else { self.host_with(ip) }
    }

    /// Returns the address that `host` uses towards `to`, or `None` when no address is of that family.
    pub(super) fn source(&self, host: HostId, to: IpAddr) -> Option<IpAddr> {
        if to.is_loopback() {
            return Some(to);
        }
        let own = self.addresses.get(&host)?;
        own.iter().copied().find(|ip| ip.is_ipv4() == to.is_ipv4())
    }

    /// Returns the index of the interface with this address of `host`.
    pub(super) fn interface_of(&self, host: HostId, ip: IpAddr) -> Option<u32> {
        if ip.is_loopback() {
            return Some(1);
        }
        let place = self.addresses.get(&host)?.iter().position(|own| *own == ip)?;
        u32::try_from(place + 2).ok()
    }

    pub(super) fn owns(&self, host: HostId, ip: IpAddr) -> bool {
        ip.is_loopback() || self.addresses.get(&host).is_some_and(|own| own.contains(&ip))
    }

    /// Binds `socket`; port 0 draws a free one.
    pub(super) fn bind(
        &mut self,
        host: HostId,
        protocol: Protocol,
        addr: SocketAddr,
        reuse: bool,
        socket: SocketId,
    ) -> io::Result<SocketAddr> {
        if !addr.ip().is_unspecified() && !self.owns(host, addr.ip()) {
            return Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
        }
        let port = if addr.port() == 0 { self.draw_ephemeral(host, protocol)? } else { addr.port() };
        let bindings = self.bindings.entry((host, protocol, port)).or_default();
        let in_the_way = |other: &Binding| overlap(other.ip, addr.ip()) && !(other.reuse && reuse);
        if bindings.iter().any(in_the_way) {
            return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
        }
        match bindings.iter_mut().find(|other| other.ip == addr.ip()) {
            Some(group) => group.sockets.push(socket),
            None => bindings.push(Binding { ip: addr.ip(), reuse, sockets: vec![socket] }),
        }
        Ok(SocketAddr::new(addr.ip(), port))
    }

    pub(super) fn unbind(&mut self, host: HostId, protocol: Protocol, addr: SocketAddr, socket: SocketId) {
        let key = (host, protocol, addr.port());
        let Some(bindings) = self.bindings.get_mut(&key) else { return };
        for binding in &mut *bindings {
            if let Some(place) = binding.sockets.iter().position(|&other| other == socket) {
                binding.sockets.swap_remove(place);
            }
        }
        bindings.retain(|binding| !binding.sockets.is_empty());
        if bindings.is_empty() {
            self.bindings.remove(&key);
        }
        self.free_ephemeral(host, protocol, addr.port());
    }

    pub(super) fn set_steering(&mut self, host: HostId, protocol: Protocol, port: u16, steer: Option<Steer>) {
        match steer {
            Some(steer) => drop(self.steering.insert((host, protocol, port), steer)),
            None => drop(self.steering.remove(&(host, protocol, port))),
        }
    }

    /// Returns the socket that a packet reaches on `host`: a binding to the exact address before a wildcard.
    pub(super) fn receiver(
        &mut self,
        host: HostId,
        protocol: Protocol,
        packet: Steered<'_>,
    ) -> Option<SocketId> {
        let port = packet.to.port();
        let bindings = self.bindings.get(&(host, protocol, port))?;
        let exact = bindings.iter().find(|binding| binding.ip == packet.to.ip());
        let wildcard = || bindings.iter().find(|b| b.ip.is_unspecified() && overlap(b.ip, packet.to.ip()));
        let group = &exact.or_else(wildcard)?.sockets;
        if let [only] = group[..] {
            return Some(only);
        }
        let steer = self.steering.get_mut(&(host, protocol, port));
        let steered = steer.and_then(|steer| steer(packet)).and_then(|place| group.get(place));
        Some(*steered.unwrap_or_else(|| &group[hash(packet) as usize % group.len()]))
    }

    /// Draws a free port of the range that clients use.
    pub(super) fn draw_ephemeral(&mut self, host: HostId, protocol: Protocol) -> io::Result<u16> {
        let next = self.next_ephemeral.entry((host, protocol)).or_insert(EPHEMERAL.start);
        for _ in EPHEMERAL {
            let port = *next;
            *next = if port + 1 == EPHEMERAL.end { EPHEMERAL.start } else { port + 1 };
            let key = (host, protocol, port);
            if !self.bindings.contains_key(&key) && self.ephemeral.insert(key) {
                return Ok(port);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))
    }

    pub(super) fn free_ephemeral(&mut self, host: HostId, protocol: Protocol, port: u16) {
        self.ephemeral.remove(&(host, protocol, port));
    }
}

fn overlap(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() == other.is_ipv4() && (one == other || one.is_unspecified() || other.is_unspecified())
}

/// Hashes both addresses and ports, as the kernel does with another function.
fn hash(packet: Steered<'_>) -> u32 {
    let text = format!("{} {}", packet.from, packet.to);
    (fnv(FNV_OFFSET, text.as_bytes()) >> 32) as u32
}

const EPHEMERAL: std::ops::Range<u16> = 32_768..61_000;
