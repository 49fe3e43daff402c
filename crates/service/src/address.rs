//! Addresses that count as one client in shares.

use std::net::{IpAddr, Ipv6Addr};

use lane::offload::Client;

/// Returns the client on whose account helper threads work for a peer.
pub fn client_of(peer: IpAddr) -> Client {
    Client::of(&address_of(peer))
}

/// Returns the address that a peer's shares are counted for: an IPv4 address, or an IPv6 /64, as a customer
/// has at least that.
pub fn address_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}
