//! Networks that clients are counted by.

use std::net::{IpAddr, Ipv6Addr};

/// Network whose clients share a pool. An IPv4 address is a network by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// First address of the network, in canonical form.
    pub base: IpAddr,
    /// Number of leading bits that all addresses of the network have in common.
    pub prefix: u8,
}

impl Network {
    /// Returns the network of this prefix in which an IPv6 address lies; an IPv4 address is a network by
    /// itself, also where it is written in IPv6.
    pub fn of(address: IpAddr, prefix: u8) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                let below = 128 - u32::from(prefix.min(128));
                let bits = v6.to_bits().checked_shr(below).unwrap_or(0).checked_shl(below).unwrap_or(0);
                Self { base: Ipv6Addr::from_bits(bits).into(), prefix: prefix.min(128) }
            }
            v4 => Self { base: v4, prefix: 32 },
        }
    }

    /// Returns the smallest network of a client: its IPv4 address, or its IPv6 /64, as a customer has at
    /// least a /64.
    pub fn of_client(address: IpAddr) -> Self {
        Self::of(address, CLIENT_PREFIX)
    }

    /// Returns the networks that a client at this address counts for, the narrowest first: an IPv4 address
    /// alone; a /64, a /56 and a /48.
    pub fn all_of(address: IpAddr) -> impl Iterator<Item = Self> {
        let prefixes = match address.to_canonical() {
            IpAddr::V4(_) => &PREFIXES[..1],
            IpAddr::V6(_) => &PREFIXES[..],
        };
        prefixes.iter().map(move |&prefix| Self::of(address, prefix))
    }

    /// Returns whether the network is a single IPv4 address or an IPv6 /64.
    pub fn is_client(&self) -> bool {
        self.base.is_ipv4() || self.prefix == CLIENT_PREFIX
    }

    /// Returns whether an address lies in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        Self::of(address, self.prefix) == *self
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.base {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(base) => write!(f, "{base}/{}", self.prefix),
        }
    }
}

const CLIENT_PREFIX: u8 = 64;
/// IPv6 prefixes that count: a customer's least, a common provider's, a site's.
const PREFIXES: [u8; 3] = [CLIENT_PREFIX, 56, 48];

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_ipv6_address_lies_in_three_networks_and_an_ipv4_address_in_one() {
        let told = |text| Network::all_of(ip(text)).map(|network| network.to_string()).collect::<Vec<_>>();
        assert_eq!(
            told("2001:db8:1:2345::9"),
            ["2001:db8:1:2345::/64", "2001:db8:1:2300::/56", "2001:db8:1::/48"]
        );
        assert_eq!(told("192.0.2.1"), ["192.0.2.1"]);
        assert_eq!(told("::ffff:192.0.2.1"), ["192.0.2.1"]);
    }

    #[test]
    fn a_network_contains_what_shares_its_prefix() {
        let site = Network::of(ip("2001:db8:1:2345::9"), 48);
        assert!(site.contains(ip("2001:db8:1:ffff::")) && !site.contains(ip("2001:db8:2::")));
        assert!(!site.contains(ip("192.0.2.1")) && !site.is_client());
        let one = Network::of_client(ip("192.0.2.1"));
        assert!(one.is_client() && one.contains(ip("::ffff:192.0.2.1")) && !one.contains(ip("192.0.2.2")));
        assert_eq!(Network::of(ip("2001:db8::1"), 0).base, ip("::"));
        assert_eq!(Network::of(ip("2001:db8::1"), 200).base, ip("2001:db8::1"));
    }
}
