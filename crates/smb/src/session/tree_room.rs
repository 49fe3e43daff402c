//! How many tree connects there may be: of a connection, of an address, of the process.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lane::budget::{ADDRESS_TIMES, give_back};
use service::address::address_of;
use smb_wire::Status;

/// How many tree connects the process has, and of whom.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeRooms(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    all: usize,
    addresses: HashMap<IpAddr, usize>,
    connections: HashMap<u64, usize>,
}

/// Room for one tree connect. Dropped, it is given back.
#[derive(Debug)]
pub(crate) struct TreeRoom {
    rooms: TreeRooms,
    address: IpAddr,
    connection: u64,
}

impl TreeRooms {
    /// Takes room for one tree connect of a connection: an address may have three times what is free, so that others always find some.
    ///
    /// # Errors
    /// `STATUS_INSUFFICIENT_RESOURCES`.
    pub(crate) fn take(&self, connection: u64, peer: IpAddr) -> Result<TreeRoom, Status> {
        let address = address_of(peer);
        let mut held = self.lock();
        let free = ALL_MAX.saturating_sub(held.all);
        let of_address = held.addresses.get(&address).copied().unwrap_or_default();
        let of_connection = held.connections.get(&connection).copied().unwrap_or_default();
        if free == 0 || of_address >= ADDRESS_TIMES * free || of_connection >= PER_CONNECTION_MAX {
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
        held.all += 1;
        held.addresses.insert(address, of_address + 1);
        held.connections.insert(connection, of_connection + 1);
        drop(held);
        Ok(TreeRoom { rooms: self.clone(), address, connection })
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TreeRoom {
    fn drop(&mut self) {
        let mut held = self.rooms.lock();
        held.all -= 1;
        give_back(&mut held.addresses, self.address, 1);
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
/// In all: less than a kilobyte each.
const ALL_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_its_bound_and_an_address_leaves_room_to_others() {
        let rooms = TreeRooms::default();
        let (mine, other): (IpAddr, IpAddr) = ("2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap());
        let mut taken: Vec<_> = (0..5000).map_while(|_| rooms.take(1, mine).ok()).collect();
        assert_eq!(taken.len(), PER_CONNECTION_MAX);
        for connection in 2..100 {
            let peer = format!("2001:db8::{connection}").parse().unwrap();
            taken.extend((0..5000).map_while(|_| rooms.take(connection, peer).ok()));
        }
        assert_eq!(taken.len(), ALL_MAX * 3 / 4, "an IPv6 network is one address");
        assert!(rooms.take(200, other).is_ok());
        drop(taken);
        let held = rooms.lock();
        assert!(held.all == 0 && held.addresses.is_empty() && held.connections.is_empty());
    }
}
