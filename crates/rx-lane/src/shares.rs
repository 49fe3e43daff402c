//! Who has how many calls in the hands of services.

use std::collections::HashMap;
use std::net::IpAddr;

use lane::budget::give_back;
use rx::{may_take_more, source_of};

/// The calls that services have in hand, by the host they came from. A host may have as many as are free.
#[derive(Debug)]
pub(super) struct HandlerShares {
    max: usize,
    running: usize,
    of_source: HashMap<IpAddr, usize>,
}

impl HandlerShares {
    pub(super) fn new(max: usize) -> Self {
        Self { max, running: 0, of_source: HashMap::new() }
    }

    /// Takes a place for a call from `ip`; false if its host has its share, or all are taken.
    pub(super) fn take(&mut self, ip: IpAddr) -> bool {
        let free = self.max.saturating_sub(self.running);
        let held = self.of_source.get(&source_of(ip)).copied().unwrap_or(0);
        if free == 0 || !may_take_more(held, free, HANDLERS_MIN) {
            return false;
        }
        self.running += 1;
        *self.of_source.entry(source_of(ip)).or_default() += 1;
        true
    }

    pub(super) fn give_back(&mut self, ip: IpAddr) {
        self.running -= 1;
        give_back(&mut self.of_source, source_of(ip), 1);
    }
}

/// Calls that a host may have in hand as long as any place is free.
const HANDLERS_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn one_host_takes_half_and_the_next_still_finds_places() {
        let mut shares = HandlerShares::new(1000);
        assert_eq!((0..5000).filter(|_| shares.take(ip(1))).count(), 500);
        assert_eq!((0..5000).filter(|_| shares.take(ip(2))).count(), 250);
        assert!(shares.take(ip(3)));
        (0..500).for_each(|_| shares.give_back(ip(1)));
        assert!(shares.take(ip(2)), "what one gives back the others may have");
        assert_eq!(shares.of_source.len(), 2);
    }

    #[test]
    fn last_places_go_to_hosts_that_have_few() {
        let mut shares = HandlerShares::new(40);
        let taken = |shares: &mut HandlerShares, last| (0..100).filter(|_| shares.take(ip(last))).count();
        assert_eq!((taken(&mut shares, 1), taken(&mut shares, 2)), (20, HANDLERS_MIN));
        assert_eq!(taken(&mut shares, 3), 4, "none is kept back from a host without any");
        assert_eq!(taken(&mut shares, 4), 0);
    }
}
