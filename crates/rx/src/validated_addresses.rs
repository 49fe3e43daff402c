//! Addresses that were validated by a cookie of ours and have no connection yet.
//!
//! Where newcomers come faster than connections can be kept for them, nothing is stored of one until its address has
//! answered, and then only that it has: the next packet that begins a call finds it here.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::source::source_of;

#[derive(Debug, Default)]
pub(crate) struct ValidatedAddresses {
    at: HashMap<SocketAddr, Instant>,
    /// Addresses in the order of their proofs; an address proved again stands here once for each proof.
    order: VecDeque<(Instant, SocketAddr)>,
    /// Number of addresses by host or network.
    of_source: HashMap<IpAddr, u32>,
}

impl ValidatedAddresses {
    /// Remembers a proof. Returns false where the source has as many addresses here as it may.
    pub(crate) fn insert(&mut self, now: Instant, address: SocketAddr, lifetime: Duration) -> bool {
        while self
            .order
            .front()
            .is_some_and(|(at, _)| self.order.len() >= PROVED_MAX || now >= *at + lifetime)
        {
            let Some((at, oldest)) = self.order.pop_front() else { break };
            if self.at.get(&oldest) == Some(&at) {
                self.forget(oldest);
            }
        }
        let known = self.at.contains_key(&address);
        let count = self.of_source.entry(source_of(address.ip())).or_default();
        if !known && *count >= PROVED_PER_SOURCE {
            return false;
        }
        *count += u32::from(!known);
        self.at.insert(address, now);
        self.order.push_back((now, address));
        true
    }

    pub(crate) fn contains(&self, now: Instant, address: SocketAddr, lifetime: Duration) -> bool {
        self.at.get(&address).is_some_and(|at| now < *at + lifetime)
    }

    fn forget(&mut self, address: SocketAddr) {
        self.at.remove(&address);
        let source = source_of(address.ip());
        if let Some(count) = self.of_source.get_mut(&source) {
            debug_assert!(*count > 0, "an address is forgotten once");
            *count -= 1;
            if *count == 0 {
                self.of_source.remove(&source);
            }
        }
    }
}

//@ limit: proofs without a connection
//@ section: Rx
//@ unit: proof, for 60 s
//@ address: {PROVED_PER_SOURCE} of a host (IPv6: /64)
//@ all: lane: 16,384
//@ empty: the oldest gives way; a newcomer is asked once more
//@ counter: rx_cookies{step="refused"}, rx_cookies
//@ attack: rx-spoofed-flood
/// Most proofs that are remembered. Beyond, the oldest is dropped.
const PROVED_MAX: usize = 16 * 1024;
/// Most proofs of one source.
const PROVED_PER_SOURCE: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    fn address(host: u32, port: u16) -> SocketAddr {
        SocketAddr::from((host.to_be_bytes(), port))
    }

    #[test]
    fn proofs_expire_and_the_oldest_give_way() {
        let (mut proved, now) = (ValidatedAddresses::default(), Instant::now());
        assert!(proved.insert(now, address(1, 1), LIFETIME));
        assert!(proved.contains(now + LIFETIME / 2, address(1, 1), LIFETIME));
        assert!(!proved.contains(now + LIFETIME, address(1, 1), LIFETIME));
        (0..PROVED_MAX as u32).for_each(|n| assert!(proved.insert(now, address(100 + n, 1), LIFETIME)));
        assert!(!proved.contains(now, address(1, 1), LIFETIME));
        assert!(proved.at.len() <= PROVED_MAX && proved.order.len() <= PROVED_MAX);
        assert!(proved.insert(now + LIFETIME, address(2, 2), LIFETIME));
        assert_eq!((proved.at.len(), proved.order.len(), proved.of_source.len()), (1, 1, 1));
    }

    #[test]
    fn one_source_takes_its_share_and_no_more() {
        let (mut proved, now) = (ValidatedAddresses::default(), Instant::now());
        let taken = (0..5000).filter(|&port| proved.insert(now, address(7, port), LIFETIME)).count();
        assert_eq!(taken, PROVED_PER_SOURCE as usize);
        assert!(proved.insert(now, address(7, 0), LIFETIME), "one it has already");
        assert!(proved.insert(now, address(8, 1), LIFETIME));
    }
}
