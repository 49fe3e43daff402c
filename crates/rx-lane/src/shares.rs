//! Shares of the calls that services handle, by source.

use std::net::IpAddr;

use budget::{Books, Shares};

/// Calls that services handle, by host. A host may have as many as are free; an IPv6 /56 twice, a /48 three
/// times as many.
#[derive(Debug)]
pub(super) struct HandlerShares(Books);

impl HandlerShares {
    pub(super) fn new(max: usize) -> Self {
        Self(Books::new(max, Shares::ONCE.with_min(HANDLERS_MIN)))
    }

    /// Takes a place for a call from `ip`; false when the host or network has its share, or all places are
    /// taken.
    pub(super) fn take(&mut self, ip: IpAddr) -> bool {
        self.0.take(ip.into(), 1).is_ok()
    }

    pub(super) fn give_back(&mut self, ip: IpAddr) {
        self.0.give_back(ip.into(), 1);
    }
}

/// Calls that a host may have as long as any place is free.
const HANDLERS_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

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
    }

    #[test]
    fn networks_leave_places_from_however_many_addresses() {
        let v6 = |high: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | 1));
        // By /56 and by /48.
        for (step, share) in [(1, 667), (256, 750)] {
            let mut shares = HandlerShares::new(1000);
            let taken: Vec<_> = (0..5000).map(|n| v6(n % 256 * step)).filter(|ip| shares.take(*ip)).collect();
            assert_eq!(taken.len(), share);
            assert!((0..40).all(|_| shares.take(ip(1))));
            taken.into_iter().for_each(|ip| shares.give_back(ip));
            assert_eq!(shares.0.held(), 40);
        }
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
