//! Table of leases, process-wide: by client and key (MS-SMB2 3.3.1.12), each of one object. The table also
//! gives out the numbers of holders and opens.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::event::Refused;
use crate::{Holder, OpenId};

/// Key by which a client names a lease: its ClientGuid and a key that it chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseKey {
    /// ClientGuid of the client's connections.
    pub client: [u8; 16],
    /// LeaseKey that the client chose.
    pub key: [u8; 16],
}

/// Leases of a process. `P` is the place of a lease: its object and stream.
#[derive(Debug)]
pub struct Leases<P> {
    shards: Box<[Mutex<LeaseShard<P>>]>,
    hasher: RandomState,
    next: AtomicU64,
    per_client_max: usize,
    of_clients: Mutex<HashMap<[u8; 16], usize>>,
}

type LeaseShard<P> = HashMap<LeaseKey, LeaseEntry<P>>;

#[derive(Debug)]
struct LeaseEntry<P> {
    holder: Holder,
    /// Number of opens with this key.
    named: usize,
    place: Option<P>,
    /// Number of the counted opens that are bound to the place.
    bound: usize,
}

/// Reference to a lease by its number. The last reference to a key ends the lease when it is dropped.
pub struct LeaseRef<P> {
    leases: Arc<Leases<P>>,
    key: LeaseKey,
    holder: Holder,
    is_bound: bool,
}

/// Error of a lease key that is in use for another file (STATUS_INVALID_PARAMETER).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease is of another file")]
pub struct LeaseOfOtherFile;

impl<P: Clone + PartialEq> Leases<P> {
    /// Makes an empty table with at most `per_client_max` leases of one client.
    pub fn new(per_client_max: usize) -> Arc<Self> {
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            next: AtomicU64::new(1),
            per_client_max,
            of_clients: Mutex::default(),
        })
    }

    /// Returns the number of the next open.
    pub fn next_open(&self) -> OpenId {
        OpenId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a reference to the lease with this key, granted or not.
    ///
    /// # Errors
    /// [`Refused::TooMany`] when the client names as many as it may.
    pub fn name(self: &Arc<Self>, key: LeaseKey) -> Result<LeaseRef<P>, Refused> {
        let mut shard = self.shard(&key);
        if let Some(entry) = shard.get_mut(&key) {
            entry.named += 1;
            let holder = entry.holder;
            return Ok(LeaseRef { leases: Arc::clone(self), key, holder, is_bound: false });
        }
        let mut of_clients = self.of_clients.lock().expect("nobody panics while holding it");
        let of_client = of_clients.entry(key.client).or_default();
        if *of_client >= self.per_client_max {
            return Err(Refused::TooMany);
        }
        *of_client += 1;
        drop(of_clients);
        let holder = Holder(self.next.fetch_add(1, Ordering::Relaxed));
        shard.insert(key, LeaseEntry { holder, named: 1, place: None, bound: 0 });
        Ok(LeaseRef { leases: Arc::clone(self), key, holder, is_bound: false })
    }

    /// Returns the number and place of the lease with this key, for an acknowledgement that names nothing
    /// else.
    pub fn find(&self, key: &LeaseKey) -> Option<(Holder, P)> {
        let shard = self.shard(key);
        let entry = shard.get(key)?;
        Some((entry.holder, entry.place.clone()?))
    }

    /// Returns the number of leases.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().expect("nobody panics while holding it").len()).sum()
    }

    /// Returns whether the table has no lease.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: &LeaseKey) -> MutexGuard<'_, LeaseShard<P>> {
        let at = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[at].lock().expect("nobody panics while holding it")
    }
}

impl<P> LeaseRef<P> {
    /// Returns the number of the lease.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Returns the key of the lease.
    pub fn key(&self) -> LeaseKey {
        self.key
    }
}

impl<P: Clone + PartialEq> LeaseRef<P> {
    /// Binds the lease to `place`, for an open of it that lasts as long as this reference.
    ///
    /// # Errors
    /// [`LeaseOfOtherFile`] while it is another place's.
    pub fn bind(&mut self, place: P) -> Result<(), LeaseOfOtherFile> {
        let mut shard = self.leases.shard(&self.key);
        let entry = shard.get_mut(&self.key).expect("it stays while it is named");
        match &entry.place {
            Some(known) if *known != place => return Err(LeaseOfOtherFile),
            _ => entry.place = Some(place),
        }
        if !std::mem::replace(&mut self.is_bound, true) {
            entry.bound += 1;
        }
        Ok(())
    }
}

impl<P> Drop for LeaseRef<P> {
    fn drop(&mut self) {
        let at = self.leases.hasher.hash_one(self.key) as usize % SHARDS;
        let mut shard = self.leases.shards[at].lock().expect("nobody panics while holding it");
        let entry = shard.get_mut(&self.key).expect("it stays while it is named");
        debug_assert!(entry.bound <= entry.named, "a lease is bound by who names it");
        entry.named -= 1;
        entry.bound -= usize::from(self.is_bound);
        let place = if entry.bound == 0 { entry.place.take() } else { None };
        if entry.named == 0 {
            shard.remove(&self.key);
            let mut of_clients = self.leases.of_clients.lock().expect("nobody panics while holding it");
            let of_client = of_clients.get_mut(&self.key.client).expect("each lease is counted");
            debug_assert!(*of_client > 0, "each lease of a client is counted");
            *of_client -= 1;
            if *of_client == 0 {
                of_clients.remove(&self.key.client);
            }
        }
        drop(shard);
        // Outside of the lock: it may be the last that holds the object.
        drop(place);
    }
}

impl<P> std::fmt::Debug for LeaseRef<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Named").field("key", &self.key).field("holder", &self.holder).finish_non_exhaustive()
    }
}

const SHARDS: usize = 64;
