//! What a process has a bounded number of, such as descriptors, and how much of it each of its clients may hold.
//!
//! A client is known by its address, and by the networks that the address lies in: of IPv6 somebody has a /64 at least, often a
//! /56, sometimes a /48. What is free bounds what any of them may hold: an address (or a /64) three times as much as is left
//! to all others, a /56 four times, a /48 six times. So one client takes three quarters at most, whoever has a whole /48 six sevenths,
//! and a newcomer always finds some. What the server holds for itself is no client's: it is kept out of the limit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many of something, and who holds how many of them.
#[derive(Debug)]
pub struct Budget {
    books: Mutex<Books>,
    counters: Arc<BudgetCounters>,
}

/// What a client holds of a [`Budget`], until this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    address: IpAddr,
    count: usize,
}

/// A network that clients share what there is by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// First address of the network.
    pub base: IpAddr,
    /// Bits that all its addresses have in common.
    pub prefix: u8,
}

/// Why there is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Short {
    /// Nobody can have so many now.
    #[error("all are in use")]
    All,
    /// The address, or a network that it lies in, holds its share.
    #[error("the clients of {0} hold as many as they may")]
    Network(Network),
}

crate::counter_block! {
    /// What a budget counts.
    pub struct BudgetCounters {
        gauge limit: "How many clients may hold together.",
        gauge held: "How many clients hold.",
        count refused_all as refused [why = "all"]: "Refused to clients: all were in use, or the client held its share.",
        count refused_share as refused [why = "share"]: "Refused to clients: all were in use, or the client held its share.",
    }
}

#[derive(Debug)]
struct Books {
    limit: usize,
    held: usize,
    networks: HashMap<Network, usize>,
}

impl Budget {
    /// Of this many.
    pub fn new(limit: usize) -> Arc<Self> {
        let books = Mutex::new(Books { limit, held: 0, networks: HashMap::new() });
        let budget = Self { books, counters: Arc::default() };
        budget.counters.limit.set(limit as u64);
        Arc::new(budget)
    }

    /// From now on there are this many. Who holds more keeps them.
    pub fn set_limit(&self, limit: usize) {
        self.books().limit = limit;
        self.counters.limit.set(limit as u64);
    }

    /// What it counts.
    pub fn counters(&self) -> &Arc<BudgetCounters> {
        &self.counters
    }

    /// `count` more for a client at `peer`.
    ///
    /// # Errors
    /// [`Short`], which is counted.
    pub fn take(self: &Arc<Self>, peer: IpAddr, count: usize) -> Result<Share, Short> {
        let mut books = self.books();
        books.may_have(peer, count).inspect_err(|short| match short {
            Short::All => self.counters.refused_all.increment(),
            Short::Network(_) => self.counters.refused_share.increment(),
        })?;
        Ok(self.given(&mut books, peer, count))
    }

    /// The same whatever the client holds, for what is held already or what gives way by itself.
    pub fn charge(self: &Arc<Self>, peer: IpAddr, count: usize) -> Share {
        self.given(&mut self.books(), peer, count)
    }

    fn given(self: &Arc<Self>, books: &mut Books, address: IpAddr, count: usize) -> Share {
        books.held += count;
        for (network, _) in networks_of(address) {
            *books.networks.entry(network).or_default() += count;
        }
        self.counters.held.set(books.held as u64);
        Share { budget: Arc::clone(self), address, count }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn may_have(&self, peer: IpAddr, count: usize) -> Result<(), Short> {
        let free = self.limit.saturating_sub(self.held);
        if count > free {
            return Err(Short::All);
        }
        for (network, times) in networks_of(peer) {
            let held = self.networks.get(&network).copied().unwrap_or_default();
            if held.saturating_add(count) > free.saturating_mul(times) {
                return Err(Short::Network(network));
            }
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut books = self.budget.books();
        books.held -= self.count;
        for (network, _) in networks_of(self.address) {
            give_back(&mut books.networks, network, self.count);
        }
        self.budget.counters.held.set(books.held as u64);
    }
}

impl Network {
    /// That of this prefix in which an IPv6 address lies; an IPv4 address is one by itself.
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
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.base {
            IpAddr::V4(address) => write!(f, "{address}"),
            IpAddr::V6(base) => write!(f, "{base}/{}", self.prefix),
        }
    }
}

/// Takes so many from what `held` has of a key; one that nothing is left of is forgotten.
pub fn give_back<K: Eq + Hash>(held: &mut HashMap<K, usize>, key: K, count: usize) {
    if let Entry::Occupied(mut entry) = held.entry(key) {
        *entry.get_mut() -= count;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

/// The networks that a client's shares are counted for, the narrowest first, and how many times what is free each may hold.
pub fn networks_of(peer: IpAddr) -> impl Iterator<Item = (Network, usize)> {
    let levels = match peer.to_canonical() {
        IpAddr::V4(_) => &LEVELS[..1],
        IpAddr::V6(_) => &LEVELS[..],
    };
    levels.iter().map(move |&(prefix, times)| (Network::of(peer, prefix), times))
}

//@ limit: descriptors that clients have the process hold
//@ section: Logs, control and descriptors
//@ unit: descriptor: connection 1, SMB open 2 and more, body or AFS call of more than 64 KiB 1
//@ address: {} times what is free; of IPv6 that for a /64, 4 for a /56, 6 for a /48
//@ all: process: what the hard limit of open files leaves beside the server's own and files that it can open again
//@ empty: SMB: STATUS_TOO_MANY_OPENED_FILES; HTTP: 503; AFS: VBUSY; a quarter at least is for others
//@ counter: descriptors_held, descriptors_refused
//@ attack: http-places-taken
/// An address may hold so many times what is free, so that others always find some.
pub const ADDRESS_TIMES: usize = 3;
/// Prefixes of IPv6, and how many times what is free a network of each may hold.
const LEVELS: [(u8, usize); 3] = [(64, ADDRESS_TIMES), (56, 4), (48, 6)];

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes by ones from address after address of these until none gets any more; how many there are then.
    fn all_of(budget: &Arc<Budget>, addresses: &[IpAddr]) -> Vec<Share> {
        let mut held = Vec::new();
        loop {
            let before = held.len();
            held.extend(addresses.iter().filter_map(|&address| budget.take(address, 1).ok()));
            if held.len() == before {
                return held;
            }
        }
    }

    #[test]
    fn a_client_leaves_some_to_others_however_wide_its_network_is() {
        let v4: IpAddr = "192.0.2.1".parse().unwrap();
        let v6 =
            |high: u128, low: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | low));
        let of_64: Vec<_> = (0..256).map(|low| v6(0, low)).collect();
        let of_56: Vec<_> = (0..256).map(|high| v6(high, 1)).collect();
        let of_48: Vec<_> = (0..4096).map(|high| v6(high * 16, 1)).collect();
        for (clients, times) in [(&vec![v4], 3), (&of_64, 3), (&of_56, 4), (&of_48, 6)] {
            let budget = Budget::new(7_000);
            let held = all_of(&budget, clients);
            let free = 7_000 - held.len();
            assert!(
                held.len() <= times * (free + 1) && held.len() + 2 >= times * free,
                "{} of {times}",
                held.len()
            );
            assert!(budget.counters().refused_share.get() > 0);
            // Another client, and one whose network is next to it, find some.
            for other in ["198.51.100.7", "2001:db8:1::1"] {
                assert!(budget.take(other.parse().unwrap(), 16).is_ok(), "{other}");
            }
            drop(held);
            assert_eq!((budget.counters().held.get(), budget.books().networks.len()), (0, 0));
        }
    }

    #[test]
    fn addresses_of_ipv4_are_the_same_in_ipv6_and_no_network() {
        let budget = Budget::new(100);
        let _held = budget.charge("::ffff:192.0.2.1".parse().unwrap(), 75);
        assert!(matches!(budget.take("192.0.2.1".parse().unwrap(), 1), Err(Short::Network(_))));
        assert!(budget.take("192.0.2.2".parse().unwrap(), 1).is_ok());
        assert_eq!(budget.take("192.0.2.3".parse().unwrap(), 26).err(), Some(Short::All));
        assert_eq!((budget.counters().refused_share.get(), budget.counters().refused_all.get()), (1, 1));
        budget.set_limit(10);
        assert_eq!(budget.take("192.0.2.4".parse().unwrap(), 1).err(), Some(Short::All));
    }
}
