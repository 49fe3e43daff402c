//! How many transfers there are, and whose: a share for each address.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;

use service::address::address_of;

/// Transfers of a lane, by address (IPv6: by /64).
#[derive(Debug, Default)]
pub(super) struct Places {
    held: RefCell<HashMap<IpAddr, usize>>,
    all: Cell<usize>,
    /// Streams that stores receive by.
    receiving: Cell<usize>,
}

impl Places {
    /// A place among `max`; an address that has as many as are free gets no more.
    pub(super) fn take(&self, ip: IpAddr, max: usize) -> bool {
        let address = address_of(ip);
        let mut held = self.held.borrow_mut();
        let own = held.get(&address).copied().unwrap_or(0);
        let free = max.saturating_sub(self.all.get());
        // Also at its first it needs one that is free.
        if own >= free {
            return false;
        }
        held.insert(address, own + 1);
        self.all.set(self.all.get() + 1);
        true
    }

    /// Gives one back.
    pub(super) fn leave(&self, ip: IpAddr) {
        let address = address_of(ip);
        let mut held = self.held.borrow_mut();
        if let Some(own) = held.get_mut(&address) {
            *own -= 1;
            if *own == 0 {
                held.remove(&address);
            }
            self.all.set(self.all.get() - 1);
        }
    }

    /// Transfers.
    pub(super) fn len(&self) -> usize {
        self.all.get()
    }

    /// Up to `wanted` streams to receive by, of at most `max`: one at least, or none where there are none.
    pub(super) fn receive(&self, wanted: usize, max: usize) -> usize {
        // Nobody gets more than half of what is free, but for the last.
        let free = max.saturating_sub(self.receiving.get());
        let got = wanted.min(free.div_ceil(2));
        self.receiving.set(self.receiving.get() + got);
        got
    }

    /// So many receive no longer.
    pub(super) fn end_receive(&self, count: usize) {
        self.receiving.set(self.receiving.get() - count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_leaves_half_of_the_places_to_others() {
        let places = Places::default();
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let taken = |last| (0..20).take_while(|_| places.take(address(last), 16)).count();
        assert_eq!((taken(1), taken(2), taken(3)), (8, 4, 2));
        assert_eq!(places.len(), 14);
        (0..8).for_each(|_| places.leave(address(1)));
        assert_eq!((places.len(), taken(4)), (6, 5));
    }

    #[test]
    fn streams_that_receive_are_shared_out_until_there_are_none() {
        let places = Places::default();
        assert_eq!([8, 8, 8, 8, 8].map(|wanted| places.receive(wanted, 8)), [4, 2, 1, 1, 0]);
        places.end_receive(3);
        assert_eq!(places.receive(1, 8), 1);
    }
}
