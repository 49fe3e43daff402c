//! Limits of tree connects: of a connection, of an address or a user, of the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use budget::{Books, Consumer, Shares, give_back};
use smb_wire::Status;

/// The slots for tree connects, counted by connection, address and user.
#[derive(Clone, Debug)]
pub(crate) struct TreeConnectSlots(Arc<Mutex<SlotsHeld>>);

#[derive(Debug)]
struct SlotsHeld {
    books: Books,
    connections: HashMap<u64, usize>,
}

/// A slot for one tree connect. Dropped, it is free again.
#[derive(Debug)]
pub(crate) struct TreeConnectSlot {
    rooms: TreeConnectSlots,
    consumer: Consumer,
    connection: u64,
}

impl TreeConnectSlots {
    /// Takes room for one tree connect of a connection: its client's address and user may have three times what is free, so that others
    /// always find some.
    ///
    /// # Errors
    /// `STATUS_INSUFFICIENT_RESOURCES`.
    pub(crate) fn take(&self, connection: u64, consumer: Consumer) -> Result<TreeConnectSlot, Status> {
        let mut held = self.lock();
        let of_connection = held.connections.get(&connection).copied().unwrap_or_default();
        if of_connection >= PER_CONNECTION_MAX || held.books.take(consumer, 1).is_err() {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        held.connections.insert(connection, of_connection + 1);
        drop(held);
        Ok(TreeConnectSlot { rooms: self.clone(), consumer, connection })
    }

    /// Returns how many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().books.held()
    }

    fn lock(&self) -> MutexGuard<'_, SlotsHeld> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TreeConnectSlots {
    fn default() -> Self {
        let books = Books::new(ALL_MAX, Shares::THRICE);
        Self(Arc::new(Mutex::new(SlotsHeld { books, connections: HashMap::new() })))
    }
}

impl Drop for TreeConnectSlot {
    fn drop(&mut self) {
        let mut held = self.rooms.lock();
        held.books.give_back(self.consumer, 1);
        give_back(&mut held.connections, self.connection, 1);
    }
}

/// Made by one connection.
const PER_CONNECTION_MAX: usize = 4096;
//@ limit: tree connects
//@ section: SMB
//@ unit: tree
//@ connection: {PER_CONNECTION_MAX}, and as many of a session
//@ address: three times what is free
//@ all: process: {}
//@ empty: STATUS_INSUFFICIENT_RESOURCES; others feel nothing
//@ counter: smb_trees_refused
//@ attack: smb-trees
/// Most tree connects in all: less than a kilobyte each.
const ALL_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use budget::UserNumber;

    use super::*;

    fn v6(high: u128, low: u128) -> IpAddr {
        Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 64 | low).into()
    }

    #[test]
    fn a_connection_has_its_bound() {
        let rooms = TreeConnectSlots::default();
        let mine = v6(0, 1).into();
        let taken: Vec<_> = (0..5000).map_while(|_| rooms.take(1, mine).ok()).collect();
        assert_eq!(taken.len(), PER_CONNECTION_MAX);
        assert!(rooms.take(2, mine).is_ok());
        drop(taken);
        let held = rooms.lock();
        assert!(held.books.is_empty() && held.connections.is_empty());
    }

    #[test]
    fn an_address_a_network_and_a_user_leave_room_to_others() {
        let user = Some(UserNumber(7));
        let crowds: [(Vec<Consumer>, usize); 4] = [
            ((1..100).map(|low| v6(0, low).into()).collect(), 3),
            ((0..100).map(|high| v6(high, 1).into()).collect(), 4),
            ((0..100).map(|high| v6(high << 8, 1).into()).collect(), 6),
            ((0..100).map(|last| Consumer { address: [192, 0, 2, last].into(), user }).collect(), 3),
        ];
        for (crowd, times) in crowds {
            let rooms = TreeConnectSlots::default();
            let mut taken = Vec::new();
            for (connection, consumer) in crowd.iter().enumerate() {
                let take = || rooms.take(connection as u64, *consumer).ok();
                taken.extend((0..5000).map_while(|_| take()));
            }
            let share = ALL_MAX * times / (times + 1);
            assert!((share - 1..=share + 1).contains(&taken.len()), "{} of {share}", taken.len());
            let other = Consumer { address: [198, 51, 100, 7].into(), user: Some(UserNumber(8)) };
            assert!(rooms.take(200, other).is_ok());
        }
    }
}
