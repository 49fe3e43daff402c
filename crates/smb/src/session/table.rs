//! Every session of the process, found by id from any lane.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use budget::{Books, Consumer, Shares};
use smb_wire::Status;

use super::Session;

/// The table, in shards: each has its own lock.
#[derive(Debug)]
pub(crate) struct Sessions {
    shards: [Mutex<HashMap<u64, SessionEntry>>; SHARDS],
    books: Mutex<Books>,
    next: AtomicU32,
    key: RandomState,
}

#[derive(Debug)]
struct SessionEntry {
    session: Arc<Session>,
    consumer: Consumer,
}

impl Sessions {
    /// Chooses the id of a session that is to be made. Ids cannot be predicted from each other.
    pub(crate) fn next_id(&self) -> u64 {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let id = u64::from(self.scattered(number));
            if id != 0 && !self.shard(id).contains_key(&id) {
                return id;
            }
        }
    }

    /// Adds the session of a client, if its address and user may have one more among at most `max`: each may hold three times what
    /// is free, so that others always find room.
    ///
    /// # Errors
    /// `STATUS_INSUFFICIENT_RESOURCES`.
    pub(crate) fn add(&self, consumer: Consumer, max: usize, session: &Arc<Session>) -> Result<(), Status> {
        let mut books = self.books();
        books.set_limit(max);
        books.take(consumer, 1).map_err(|_| Status::INSUFFICIENT_RESOURCES)?;
        drop(books);
        self.shard(session.id).insert(session.id, SessionEntry { session: Arc::clone(session), consumer });
        Ok(())
    }

    /// Returns the session of this id.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Session>> {
        self.shard(id).get(&id).map(|entry| Arc::clone(&entry.session))
    }

    /// Returns all sessions.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        let of_shard = |shard: &Mutex<HashMap<u64, SessionEntry>>| -> Vec<_> {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            shard.values().map(|entry| Arc::clone(&entry.session)).collect()
        };
        self.shards.iter().flat_map(of_shard).collect()
    }

    /// Takes a session out; `None` if another lane has.
    pub(crate) fn remove(&self, id: u64) -> Option<Arc<Session>> {
        let SessionEntry { session, consumer } = self.shard(id).remove(&id)?;
        self.books().give_back(consumer, 1);
        Some(session)
    }

    /// Returns how many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.books().held()
    }

    /// Maps each number to another, in an unpredictable order: four rounds of a Feistel network. 32 bits, as
    /// some clients take no more of a session's id.
    fn scattered(&self, number: u32) -> u32 {
        let (left, right) = (0..4u32).fold((number >> 16, number & 0xffff), |(left, right), round| {
            (right, left ^ (self.key.hash_one((round, right)) as u32 & 0xffff))
        });
        left << 16 | right
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, HashMap<u64, SessionEntry>> {
        self.shards[id as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            // Each call passes the limit.
            books: Mutex::new(Books::new(0, Shares::THRICE)),
            next: AtomicU32::new(0),
            key: RandomState::new(),
        }
    }
}

const SHARDS: usize = 64;
