//! Directory of connections and their lanes, where several lanes share an address.
//!
//! Touched when a connection is accepted, when it ends, and when a packet comes for one that the lane does not know;
//! never for a packet that finds its connection. An entry lives exactly as long as its lane's connection, so the
//! limits on connections bound it, spoofed floods included.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::connection_key::ConnectionKey;

/// Server connections of all lanes, with their owners.
#[derive(Debug)]
pub(crate) struct Directory {
    stripes: Box<[Stripe]>,
    stripe_of: RandomState,
}

/// Part of the directory with its own lock and its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    owners: Mutex<HashMap<ConnectionKey, u16>>,
}

impl Directory {
    pub(super) fn new(lanes: usize) -> Self {
        let stripes = (lanes * STRIPES_PER_LANE).next_power_of_two();
        Self { stripes: (0..stripes).map(|_| Stripe::default()).collect(), stripe_of: RandomState::new() }
    }

    /// Makes `lane` the owner unless there is one; `Err` names another lane that is. Of two lanes that claim
    /// at once, one wins.
    pub(super) fn claim(&self, key: ConnectionKey, lane: usize) -> Result<(), usize> {
        match self.stripe(&key).entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(u16::try_from(lane).expect("a selector names at most 256 lanes"));
                Ok(())
            }
            Entry::Occupied(owner) if usize::from(*owner.get()) == lane => Ok(()),
            Entry::Occupied(owner) => Err(usize::from(*owner.get())),
        }
    }

    /// Returns the lane that owns the connection.
    pub(super) fn owner(&self, key: &ConnectionKey) -> Option<usize> {
        self.stripe(key).get(key).map(|&lane| usize::from(lane))
    }

    /// Ends `lane`'s ownership; another lane's stays.
    pub(super) fn release(&self, key: &ConnectionKey, lane: usize) {
        if let Entry::Occupied(owner) = self.stripe(key).entry(*key)
            && usize::from(*owner.get()) == lane
        {
            owner.remove();
        }
    }

    /// Ends all that a lane owns.
    pub(super) fn retire(&self, lane: usize) {
        for stripe in &self.stripes {
            stripe.lock().retain(|_, owner| usize::from(*owner) != lane);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().len()).sum()
    }

    fn stripe(&self, key: &ConnectionKey) -> MutexGuard<'_, HashMap<ConnectionKey, u16>> {
        let hash = self.stripe_of.hash_one(key) as usize;
        self.stripes[hash & (self.stripes.len() - 1)].lock()
    }
}

impl Stripe {
    /// Locks the part, also after a panic of another holder, which leaves no entry half written.
    fn lock(&self) -> MutexGuard<'_, HashMap<ConnectionKey, u16>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parts for each lane, enough that lanes which accept at the same time seldom meet.
const STRIPES_PER_LANE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(cid: u32) -> ConnectionKey {
        ConnectionKey::client(0x8000_0001, cid)
    }

    #[test]
    fn first_claim_wins_until_it_is_released_by_its_owner() {
        let directory = Directory::new(3);
        assert_eq!(directory.claim(key(4), 1), Ok(()));
        assert_eq!(directory.claim(key(4), 1), Ok(()), "a lane may claim again what it owns");
        assert_eq!(directory.claim(key(4), 2), Err(1));
        directory.release(&key(4), 2);
        assert_eq!(directory.owner(&key(4)), Some(1), "nobody releases what is another's");
        directory.release(&key(4), 1);
        assert_eq!((directory.owner(&key(4)), directory.len()), (None, 0));
        assert_eq!(directory.claim(key(4), 2), Ok(()));
    }

    #[test]
    fn lane_that_ends_leaves_its_connections_to_the_others() {
        let directory = Directory::new(2);
        (0..100).for_each(|n| assert!(directory.claim(key(n << 2), n as usize % 2).is_ok()));
        directory.retire(0);
        assert_eq!(directory.len(), 50);
        assert!((0..100).all(|n| directory.claim(key(n << 2), 1).is_ok()));
    }

    #[test]
    fn lanes_that_claim_at_once_have_one_winner_each_time() {
        let directory = Directory::new(4);
        let won: usize = std::thread::scope(|threads| {
            let claims = |lane| (0..2000).filter(|n| directory.claim(key(n << 2), lane).is_ok()).count();
            let lanes: Vec<_> = (0..4).map(|lane| threads.spawn(move || claims(lane))).collect();
            lanes.into_iter().map(|lane| lane.join().unwrap()).sum()
        });
        assert_eq!((won, directory.len()), (2000, 2000));
    }
}
