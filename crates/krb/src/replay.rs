//! The authenticators that were accepted lately: one is good for one sign-in (RFC 4120 3.2.3).

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::Time;

/// Remembers authenticators until they are too old to be accepted anyway. One for all lanes of a process.
///
/// An authenticator is known by the checksum at the end of its ciphertext. A client's authenticators lie in one of 16 shards,
/// each with a lock and a sixteenth of the room: a client that floods keeps out itself and those of its shard. What is there
/// is given up only when room is needed and its time is over; where there is none, the newcomer is refused.
pub struct ReplayCache {
    shards: [Mutex<Shard>; SHARDS],
    entries_per_shard: usize,
}

impl ReplayCache {
    /// Creates a cache of this many authenticators, at about 60 bytes each; memory is taken as they come.
    ///
    /// An authenticator stays for two times the clock skew, 10 minutes: 262,144 are 430 sign-ins a second, all the
    /// time.
    pub fn new(entries_max: usize) -> Self {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::default()));
        Self { shards, entries_per_shard: entries_max.div_ceil(SHARDS).max(1) }
    }

    /// Returns the number of remembered authenticators.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).seen.len()).sum()
    }

    /// Returns true if no authenticator is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes an authenticator that is right in all else. Of two lanes that bring the same one, one wins.
    pub(crate) fn accept(
        &self,
        client: &str,
        sealed_authenticator: &[u8],
        expires: Time,
        now: Time,
    ) -> Result<(), ReplayRefused> {
        let tag = Tag::of(sealed_authenticator);
        let shard = client.bytes().fold(0usize, |all, byte| all.wrapping_mul(31).wrapping_add(byte.into()));
        // A panic while the lock is held leaves at worst a tag that nothing removes: that refuses, it accepts no
        // replay.
        let mut shard = self.shards[shard % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
        if shard.seen.contains(&tag) {
            return Err(ReplayRefused::Replayed);
        }
        if shard.order.len() >= self.entries_per_shard {
            shard.forget_expired(now);
        }
        if shard.order.len() >= self.entries_per_shard {
            return Err(ReplayRefused::Full);
        }
        shard.order.push_back((expires.seconds, tag));
        shard.seen.insert(tag);
        Ok(())
    }
}

impl std::fmt::Debug for ReplayCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplayCache").field("len", &self.len()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Shard {
    seen: BTreeSet<Tag>,
    /// The same, oldest first, with the seconds until which they are needed.
    order: VecDeque<(i64, Tag)>,
}

impl Shard {
    fn forget_expired(&mut self, now: Time) {
        while let Some((expires, tag)) = self.order.front()
            && *expires < now.seconds
        {
            self.seen.remove(tag);
            self.order.pop_front();
        }
    }
}

/// The last 12 bytes of a ciphertext: its checksum, or half of it at least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tag([u8; 12]);

impl Tag {
    fn of(sealed: &[u8]) -> Self {
        Self(sealed.last_chunk().copied().unwrap_or_default())
    }
}

/// Reason why an authenticator is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayRefused {
    /// The authenticator was accepted before.
    Replayed,
    /// The cache has no room to remember it.
    Full,
}

const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(
        cache: &ReplayCache,
        client: &str,
        sealed: u32,
        expires: i64,
        now: i64,
    ) -> Result<(), ReplayRefused> {
        let sealed = [&[9; 30][..], &sealed.to_be_bytes(), &[1; 8]].concat();
        cache.accept(client, &sealed, Time::from_seconds(expires), Time::from_seconds(now))
    }

    #[test]
    fn an_authenticator_is_accepted_once() {
        let cache = ReplayCache::new(64);
        assert_eq!(accept(&cache, "alice", 1, 100, 0), Ok(()));
        assert_eq!(accept(&cache, "alice", 1, 100, 0), Err(ReplayRefused::Replayed));
        assert_eq!(accept(&cache, "alice", 2, 100, 0), Ok(()));
        // Also if the clock is set back and forth.
        for now in [1_000, -1_000] {
            assert_eq!(accept(&cache, "alice", 1, 100, now), Err(ReplayRefused::Replayed));
        }
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn a_full_cache_refuses_until_the_oldest_is_too_old_to_be_replayed() {
        let cache = ReplayCache::new(SHARDS * 10);
        for number in 0..10 {
            assert_eq!(accept(&cache, "alice", number, 600, 0), Ok(()));
        }
        for number in 10..1_000 {
            assert_eq!(accept(&cache, "alice", number, 600, 1), Err(ReplayRefused::Full));
        }
        assert_eq!(cache.len(), 10);
        assert_eq!(accept(&cache, "alice", 11, 1_200, 600), Err(ReplayRefused::Full));
        assert_eq!(accept(&cache, "alice", 11, 1_201, 601), Ok(()));
        assert_eq!(cache.len(), 1);
    }

    #[test]
    fn a_client_that_floods_leaves_room_for_others() {
        let cache = ReplayCache::new(SHARDS * 10);
        for number in 0..1_000 {
            let _ = accept(&cache, "mallory", number, 600, 0);
        }
        let others = (0..100)
            .filter(|number| accept(&cache, &format!("user{number}"), 5_000 + number, 600, 0).is_ok());
        assert!(others.count() > 80);
    }

    /// Trap 8: one authenticator on two lanes at once, one wins.
    #[test]
    fn one_of_many_threads_wins() {
        let cache = ReplayCache::new(1 << 16);
        let wins = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..1_000 {
                        if accept(&cache, "alice", number, 600, 0).is_ok() {
                            wins.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(wins.into_inner(), 1_000);
    }
}
