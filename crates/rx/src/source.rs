//! Sources of shares: the host or network that an address belongs to, and its connections.

use std::collections::HashMap;
use std::net::IpAddr;

use budget::{Books, Network, Shares};

use crate::packet::BufferAccount;

/// Hosts and networks of the peers, with the connections of each.
#[derive(Debug)]
pub(crate) struct Sources {
    connections: Books,
    slab: slab::Slab<SourceRecord>,
    by_ip: HashMap<IpAddr, u32>,
}

#[derive(Debug)]
struct SourceRecord {
    ip: IpAddr,
    peers: u32,
}

impl Sources {
    /// Makes an empty table of sources, which may have `connections_max` connections together.
    pub(crate) fn new(connections_max: usize) -> Self {
        let connections = Books::new(connections_max, Shares::ONCE.with_min(CONNECTIONS_MIN));
        Self { connections, slab: slab::Slab::new(), by_ip: HashMap::new() }
    }

    /// Counts a new peer, and returns the account of its host.
    pub(crate) fn enter(&mut self, ip: IpAddr) -> BufferAccount {
        let ip = source_of(ip);
        let slab = &mut self.slab;
        let key = *self.by_ip.entry(ip).or_insert_with(|| slab.insert(SourceRecord { ip, peers: 0 }) as u32);
        slab[key as usize].peers += 1;
        BufferAccount(BufferAccount::FIRST_SOURCE + key)
    }

    /// Removes a peer that is forgotten.
    pub(crate) fn leave(&mut self, account: BufferAccount) {
        let key = index(account);
        self.slab[key].peers -= 1;
        if self.slab[key].peers == 0 {
            let source = self.slab.remove(key);
            self.by_ip.remove(&source.ip);
        }
    }

    /// Returns whether a host has only one peer.
    pub(crate) fn is_last_peer(&self, account: BufferAccount) -> bool {
        self.slab[index(account)].peers == 1
    }

    pub(crate) fn add_connection(&mut self, account: BufferAccount) {
        self.connections.charge(self.slab[index(account)].ip.into(), 1);
    }

    pub(crate) fn remove_connection(&mut self, account: BufferAccount) {
        self.connections.give_back(self.slab[index(account)].ip.into(), 1);
    }

    pub(crate) fn connections(&self) -> &Books {
        &self.connections
    }
}

fn index(account: BufferAccount) -> usize {
    (account.0 - BufferAccount::FIRST_SOURCE) as usize
}

/// Returns whether a source that holds `held` of a shared resource may take more: as much as is free, and a
/// few in any case. So one holder has at most half of the resource, two a third each, and a newcomer always
/// finds some (dynamic thresholds, Choudhury and Hahne 1998).
pub fn may_take_more(held: usize, free: usize, minimum: usize) -> bool {
    held < free.max(minimum)
}

/// Returns the source of an address: of IPv6 the first 64 bits, since a host with one address there has them
/// all.
pub fn source_of(ip: IpAddr) -> IpAddr {
    Network::of_client(ip).base
}

/// Connections that a host may have as long as any are free.
const CONNECTIONS_MIN: usize = 16;

/// Range of addresses that share the first `prefix` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    first: IpAddr,
    prefix: u8,
}

impl AddressRange {
    /// Makes the range of addresses that share the first `prefix` bits of `ip`; a longer prefix than the
    /// address has bits means the address alone.
    pub fn new(ip: IpAddr, prefix: u8) -> Self {
        Self { first: ip.to_canonical(), prefix }
    }

    /// Returns whether `ip` is in the range. An IPv4 address written in IPv6 counts as IPv4.
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
    fn greedy_holders_end_with_equal_shares_and_leave_one_for_the_next() {
        for holders in 1..10 {
            let mut held = vec![0; holders];
            let mut free = 1000;
            // The first is there long before the others; what it holds passes through its hands.
            for turn in 0..200_000 {
                let who = if turn < 1_000 { 0 } else { turn % holders };
                if turn / holders % 5 == 0 && held[who] > 0 {
                    (held[who], free) = (held[who] - 1, free + 1);
                } else if may_take_more(held[who], free, 1) && free > 0 {
                    (held[who], free) = (held[who] + 1, free - 1);
                }
            }
            let share = 1000 / (holders + 1);
            assert!(held.iter().all(|held| held.abs_diff(share) <= share / 4 + 2), "{held:?}");
            assert!(free >= share * 3 / 4, "{free} free of {holders}");
        }
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
