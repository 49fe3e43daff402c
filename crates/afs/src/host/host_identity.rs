//! The identity of a client, by WhoAreYou, and the address that it calls from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use afs_wire::Interfaces;
use xdr::afs::AfsUuid;

/// The answer of a client to RXAFSCB_WhoAreYou: its UUID and its interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostIdentity {
    /// The client's identity; `None` for one that has none, as clients of before 1999.
    pub(crate) uuid: Option<AfsUuid>,
    /// Addresses of its own, as it knows them.
    pub(crate) interfaces: Vec<IpAddr>,
}

/// An address that a client calls from, with the epoch that tells clients apart that had it in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostAddress {
    /// The client's address and port.
    pub(crate) address: SocketAddr,
    /// Epoch of its connections: another one, and it may be another client.
    pub(crate) epoch: u32,
    /// Address of ours at which it calls: it knows the server by that.
    pub(crate) local: Option<IpAddr>,
}

impl HostIdentity {
    /// Reads the identity from an answer. An identity of all zeroes is none.
    pub(crate) fn of(interfaces: &Interfaces) -> Self {
        let uuid = Some(interfaces.uuid).filter(|uuid| *uuid != AfsUuid::default());
        let count = usize::try_from(interfaces.count).unwrap_or(0);
        let addresses = interfaces.addresses.iter().take(count).map(|&word| Ipv4Addr::from(word));
        let interfaces = addresses.filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
        Self { uuid, interfaces: interfaces.map(IpAddr::V4).collect() }
    }

    /// Returns whether the client loses breaks that overtake replies
    /// ([`Host::loses_overtaking_breaks`](super::Host::loses_overtaking_breaks)). A client without an
    /// identity is older than any that does.
    pub(crate) fn loses_overtaking(&self) -> bool {
        self.uuid.is_some() && self.interfaces.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_its_identity_and_the_addresses_that_it_counts() {
        let mut said = Interfaces { count: 3, uuid: AfsUuid([7; 16]), ..Interfaces::default() };
        said.addresses[..4].copy_from_slice(&[0x0a00_0001, 0x7f00_0001, 0xc0a8_0102, 0x0a00_0009]);
        let identity = HostIdentity::of(&said);
        assert_eq!(identity.uuid, Some(AfsUuid([7; 16])));
        assert_eq!(identity.interfaces, [IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 168, 1, 2])]);
        for count in [-1, i32::MAX] {
            said.count = count;
            assert!(HostIdentity::of(&said).interfaces.len() <= 32, "whatever it counts");
        }
        assert_eq!(HostIdentity::of(&Interfaces::default()), HostIdentity::default());
    }
}
