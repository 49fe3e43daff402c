//! Who counts as one in shares: the host or network that an address belongs to.

use std::net::{IpAddr, Ipv6Addr};

/// The address without its port; of IPv6 the first 64 bits, since whoever has one address there has them all.
pub(crate) fn source_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => {
            let bits = u128::from(ip) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(bits))
        }
    }
}

/// A range of addresses: those that share the first `prefix` bits of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    prefix: u8,
}

impl AddressRange {
    /// The addresses that share the first `prefix` bits of `ip`; a longer prefix than the address has bits means the
    /// address alone.
    pub fn new(ip: IpAddr, prefix: u8) -> Self {
        Self { first: ip.to_canonical(), prefix }
    }

    /// Whether `ip` is one of them. An IPv4 address written in IPv6 counts as IPv4.
    pub fn contains(&self, ip: IpAddr) -> bool {
        let (bits, differ) = match (self.first, ip.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (32, u128::from(u32::from(a) ^ u32::from(b))),
            (IpAddr::V6(a), IpAddr::V6(b)) => (128, u128::from(a) ^ u128::from(b)),
            _ => return false,
        };
        differ.checked_shr(bits - u32::from(self.prefix).min(bits)).unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn ipv6_addresses_of_one_network_are_one_source() {
        assert_eq!(source_of(ip("2001:db8::1")), source_of(ip("2001:db8::ffff:2")));
        assert_ne!(source_of(ip("2001:db8::1")), source_of(ip("2001:db8:0:1::1")));
        assert_eq!(source_of(ip("::ffff:192.0.2.1")), source_of(ip("192.0.2.1")));
        assert_ne!(source_of(ip("192.0.2.1")), source_of(ip("192.0.2.2")));
    }

    #[test]
    fn range_holds_what_shares_its_prefix() {
        let range = AddressRange::new(ip("10.1.2.3"), 16);
        assert!(range.contains(ip("10.1.255.0")) && range.contains(ip("::ffff:10.1.0.1")));
        assert!(!range.contains(ip("10.2.0.0")) && !range.contains(ip("2001:db8::1")));
        assert!(AddressRange::new(ip("0.0.0.0"), 0).contains(ip("203.0.113.9")));
        assert!(AddressRange::new(ip("::"), 0).contains(ip("2001:db8::1")));
        let one = AddressRange::new(ip("192.0.2.1"), 99);
        assert!(one.contains(ip("192.0.2.1")) && !one.contains(ip("192.0.2.2")));
    }
}
