//! Numbers of transfers, by client: a share for each address.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;

use budget::{Books, Shares};

/// Transfers of a lane. An address may have as many as are free; an IPv6 /56 twice, a /48 three times as many.
#[derive(Debug)]
pub(super) struct TransferSlots {
    books: RefCell<Books>,
    /// Streams that stores receive by.
    receiving: Cell<usize>,
}

impl Default for TransferSlots {
    fn default() -> Self {
        // Each call passes the limit.
        Self { books: RefCell::new(Books::new(0, Shares::ONCE)), receiving: Cell::new(0) }
    }
}

impl TransferSlots {
    /// Takes a place among `max`, if the address and its networks may have one more.
    pub(super) fn take(&self, ip: IpAddr, max: usize) -> bool {
        let mut books = self.books.borrow_mut();
        books.set_limit(max);
        books.take(ip.into(), 1).is_ok()
    }

    /// Gives one back.
    pub(super) fn leave(&self, ip: IpAddr) {
        self.books.borrow_mut().give_back(ip.into(), 1);
    }

    /// Transfers.
    pub(super) fn len(&self) -> usize {
        self.books.borrow().held()
    }

    /// Reserves up to `wanted` streams to receive by, of at most `max`: one at least, or none where none is free.
    pub(super) fn receive(&self, wanted: usize, max: usize) -> usize {
        // No client gets more than half of what is free, but for the last.
        let free = max.saturating_sub(self.receiving.get());
        let got = wanted.min(free.div_ceil(2));
        self.receiving.set(self.receiving.get() + got);
        got
    }

    /// Gives back the places of so many transfers that receive no longer.
    pub(super) fn end_receive(&self, count: usize) {
        self.receiving.set(self.receiving.get() - count);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn one_address_leaves_half_of_the_places_to_others() {
        let transfer_slots = TransferSlots::default();
        let taken = |last| (0..20).take_while(|_| transfer_slots.take(address(last), 16)).count();
        assert_eq!((taken(1), taken(2), taken(3)), (8, 4, 2));
        assert_eq!(transfer_slots.len(), 14);
        (0..8).for_each(|_| transfer_slots.leave(address(1)));
        assert_eq!((transfer_slots.len(), taken(4)), (6, 5));
    }

    #[test]
    fn networks_leave_places_to_others_from_however_many_addresses() {
        let v6 = |high: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | 1));
        for (step, share) in [(1, 40), (256, 45)] {
            let transfer_slots = TransferSlots::default();
            let taken: Vec<_> =
                (0..200).map(|n| v6(n % 100 * step)).filter(|ip| transfer_slots.take(*ip, 60)).collect();
            assert_eq!(taken.len(), share);
            assert!(transfer_slots.take(address(1), 60));
            taken.into_iter().for_each(|ip| transfer_slots.leave(ip));
            assert_eq!(transfer_slots.len(), 1);
        }
    }

    #[test]
    fn streams_that_receive_are_shared_out_until_there_are_none() {
        let transfer_slots = TransferSlots::default();
        assert_eq!([8, 8, 8, 8, 8].map(|wanted| transfer_slots.receive(wanted, 8)), [4, 2, 1, 1, 0]);
        transfer_slots.end_receive(3);
        assert_eq!(transfer_slots.receive(1, 8), 1);
    }
}
