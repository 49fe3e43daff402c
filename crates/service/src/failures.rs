//! Recent failures, such as sign-ins, by address or name: a burst may fail at once, and then so many a
//! minute. The table is bounded.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use budget::Network;

/// Limit of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Failures after which a client has to wait.
    pub at_once: u32,
    /// Time after which one failure no longer counts.
    pub forgiven_after: Duration,
}

/// Recent failures by key, in a bounded table.
#[derive(Debug)]
pub struct Failures<K> {
    failed: HashMap<K, Failed>,
    keys_max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    count: u32,
    since: Instant,
    limit: Limit,
}

impl Limit {
    /// Returns the limit of a network where this is that of an address or a /64: each wider level allows four
    /// times as many failures.
    pub fn of(self, network: Network) -> Self {
        let times = match network.prefix {
            48 if network.base.is_ipv6() => 16,
            56 if network.base.is_ipv6() => 4,
            _ => 1,
        };
        Self { at_once: self.at_once * times, forgiven_after: self.forgiven_after / times }
    }
}

impl Failed {
    /// Returns the number of failures that still count.
    fn left(&self, now: Instant) -> u32 {
        let forgiven = now.saturating_duration_since(self.since).as_millis()
            / self.limit.forgiven_after.as_millis().max(1);
        self.count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

impl<K: Copy + Eq + Hash> Failures<K> {
    /// Makes an empty table of at most `keys_max` keys.
    pub fn new(keys_max: usize) -> Self {
        Self { failed: HashMap::new(), keys_max }
    }

    /// Notes a failure of `key`, under this limit.
    pub fn note(&mut self, key: K, limit: Limit, now: Instant) {
        if !self.failed.contains_key(&key) && self.failed.len() >= self.keys_max {
            self.failed.retain(|_, failed| failed.left(now) > 0);
            if self.failed.len() >= self.keys_max {
                // So many keys at once come of one client with as many as it likes: the oldest is forgotten.
                let oldest = self.failed.iter().min_by_key(|(_, failed)| failed.since).map(|(key, _)| *key);
                oldest.map(|oldest| self.failed.remove(&oldest));
            }
        }
        let failed = self.failed.entry(key).or_insert(Failed { count: 0, since: now, limit });
        let left = failed.left(now);
        // The time that has passed towards forgiving the next one still counts.
        let since = if left == 0 { now } else { failed.since + limit.forgiven_after * (failed.count - left) };
        *failed = Failed { count: left + 1, since, limit };
    }

    /// Returns whether the key may be tried again.
    pub fn may_try(&self, key: &K, now: Instant) -> bool {
        self.failed.get(key).is_none_or(|failed| failed.left(now) < failed.limit.at_once)
    }

    /// Returns whether any failures of the key still count.
    pub fn any(&self, key: &K, now: Instant) -> bool {
        self.failed.get(key).is_some_and(|failed| failed.left(now) > 0)
    }

    /// Forgets the failures of a key.
    pub fn forget(&mut self, key: &K) {
        self.failed.remove(key);
    }

    /// Returns the number of keys with failures.
    pub fn len(&self) -> usize {
        self.failed.len()
    }

    /// Returns whether no key has failures.
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty()
    }
}

impl Failures<Network> {
    /// Notes a failure at this address, for it and its networks. `limit` is that of the address.
    pub fn note_at(&mut self, peer: IpAddr, limit: Limit, now: Instant) {
        for network in Network::all_of(peer) {
            self.note(network, limit.of(network), now);
        }
    }

    /// Returns whether this address and all its networks may be tried again.
    pub fn may_try_at(&self, peer: IpAddr, now: Instant) -> bool {
        Network::all_of(peer).all(|network| self.may_try(&network, now))
    }

    /// Returns whether failures of this address, or of its networks, still count.
    pub fn any_at(&self, peer: IpAddr, now: Instant) -> bool {
        Network::all_of(peer).any(|network| self.any(&network, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Limit = Limit { at_once: 10, forgiven_after: Duration::from_secs(6) };

    #[test]
    fn so_many_at_once_and_then_one_after_the_other() {
        let (mut failures, now) = (Failures::new(4), Instant::now());
        for _ in 0..LIMIT.at_once {
            assert!(failures.may_try(&1, now));
            failures.note(1, LIMIT, now);
        }
        assert!(!failures.may_try(&1, now + Duration::from_secs(5)) && failures.may_try(&2, now));
        let later = now + Duration::from_secs(7);
        assert!(failures.may_try(&1, later));
        failures.note(1, LIMIT, later);
        assert!(!failures.may_try(&1, later));
        assert!(failures.may_try(&1, now + Duration::from_secs(12)), "the next when its time has come");
        (10..20).for_each(|key| failures.note(key, LIMIT, later));
        assert_eq!(failures.len(), 4);
        assert!(failures.any(&19, later) && !failures.any(&19, later + LIMIT.forgiven_after));
    }

    #[test]
    fn whoever_has_a_wide_network_is_held_off_by_it_and_its_neighbours_are_not() {
        let now = Instant::now();
        // Addresses of one /64, of the /64s of a /56, of those of a /48.
        for (shift, limit) in [(0, 10), (64, 40), (72, 160)] {
            let mut failures = Failures::new(4096);
            let address = |n: u32| -> IpAddr {
                std::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(n % 200) << shift).into()
            };
            let mut tries = 0;
            while failures.may_try_at(address(tries), now) {
                failures.note_at(address(tries), LIMIT, now);
                tries += 1;
                assert!(tries <= 1000);
            }
            assert_eq!(tries, limit);
            assert!(failures.may_try_at("2001:db8:1::1".parse().unwrap(), now));
            assert!(failures.may_try_at("192.0.2.1".parse().unwrap(), now));
        }
    }
}
