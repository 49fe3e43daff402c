//! Address translation in front of a host, for datagrams. A host that sends from behind it is seen at a
//! public address and at ports that change when the translator forgets.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::HostId;

/// The address translators of the world, by host.
#[derive(Default)]
pub(super) struct Nats {
    nats: BTreeMap<HostId, Nat>,
}

/// One translator: every destination sees the same port (RFC 4787: endpoint-independent mapping and filtering).
struct Nat {
    public: IpAddr,
    by_private: BTreeMap<SocketAddr, u16>,
    by_public: BTreeMap<u16, SocketAddr>,
    next_port: u16,
}

impl Nats {
    /// Puts a translator before `host`, in place of an earlier one.
    pub(super) fn install(&mut self, host: HostId, public: IpAddr) {
        let next_port = self.nats.get(&host).map_or(FIRST_PORT, |nat| nat.next_port);
        let nat = Nat { public, by_private: BTreeMap::new(), by_public: BTreeMap::new(), next_port };
        self.nats.insert(host, nat);
    }

    /// Forgets the ports given out: others see the same sockets at new ports from now on.
    pub(super) fn rebind(&mut self, host: HostId) {
        if let Some(nat) = self.nats.get_mut(&host) {
            nat.by_private.clear();
            nat.by_public.clear();
        }
    }

    /// Returns the sender's address that others see.
    pub(super) fn outward(&mut self, host: HostId, from: SocketAddr) -> SocketAddr {
        let Some(nat) = self.nats.get_mut(&host) else { return from };
        if let Some(&port) = nat.by_private.get(&from) {
            return SocketAddr::new(nat.public, port);
        }
        let port = nat.next_port;
        nat.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
        // Ports come round again only after tens of thousands; the mapping that had this one has lost it.
        if let Some(before) = nat.by_public.insert(port, from) {
            nat.by_private.remove(&before);
        }
        nat.by_private.insert(from, port);
        SocketAddr::new(nat.public, port)
    }

    /// Returns the address behind the translator that a datagram to `host` is for; `None` without a mapping.
    pub(super) fn inward(&self, host: HostId, to: SocketAddr) -> Option<SocketAddr> {
        match self.nats.get(&host) {
            Some(nat) if nat.public == to.ip() => nat.by_public.get(&to.port()).copied(),
            _ => Some(to),
        }
    }
}

const FIRST_PORT: u16 = 10_000;
