//! Cache of recently verified passwords, for clients that send the password with every request, as HTTP's
//! Basic does.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use blake2::Blake2sMac256;
use blake2::digest::{KeyInit, Mac};
use zeroize::Zeroizing;

use crate::accounts::Accounts;
use crate::principal::Principal;
use crate::secret::Secret;
use crate::verifier::fill_random;

/// Recently verified pairs of name and password, one cache for each lane. It keeps no password but a hash of
/// each pair, keyed by random bytes that never leave it, so it tells a reader of memory no more than that
/// memory does anyway.
///
/// A pair counts for [`keep`](Self::new) and only with the accounts that verified it: after a reload each client is
/// verified once more, so that a changed password, a disabled user and a changed group act at once. When there is no
/// room the oldest goes. Wrong passwords are not kept: each costs its verification.
pub struct Verified {
    key: Zeroizing<[u8; 32]>,
    entries: HashMap<Digest, Entry>,
    /// Keys of the entries, oldest first, each once.
    order: VecDeque<Digest>,
    capacity: usize,
    keep: Duration,
}

type Digest = [u8; 32];

struct Entry {
    principal: Principal,
    until: Instant,
}

impl Verified {
    /// Makes a cache of `capacity` pairs, about 200 bytes each, that count for `keep`.
    ///
    /// # Panics
    /// If the machine has no randomness.
    pub fn new(capacity: usize, keep: Duration) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        fill_random(&mut *key);
        Self { key, entries: HashMap::new(), order: VecDeque::new(), capacity, keep }
    }

    /// Returns the principal of a name and password that `accounts` verified less than `keep` before `now`.
    /// Takes about a microsecond.
    pub fn get(&self, accounts: &Accounts, name: &str, password: &Secret, now: Instant) -> Option<Principal> {
        let entry = self.entries.get(&self.digest(name, password))?;
        let counts = entry.until > now && entry.principal.generation() == accounts.generation();
        counts.then(|| entry.principal.clone())
    }

    /// Remembers that [`Accounts::verify`] accepted this pair, and returned `principal`.
    pub fn put(&mut self, name: &str, password: &Secret, principal: &Principal, now: Instant) {
        if self.capacity == 0 {
            return;
        }
        let digest = self.digest(name, password);
        let entry = Entry { principal: principal.clone(), until: now + self.keep };
        if self.entries.insert(digest, entry).is_some() {
            self.order.retain(|known| *known != digest);
        } else if self.entries.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
        self.order.push_back(digest);
    }

    /// Returns the number of pairs, expired ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the cache has no pairs.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn digest(&self, name: &str, password: &Secret) -> Digest {
        let mut mac = Blake2sMac256::new(&(*self.key).into());
        // The length keeps `a` + `bc` from `ab` + `c`.
        mac.update(&(name.len() as u64).to_be_bytes());
        mac.update(name.as_bytes());
        mac.update(password.expose());
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified").field("entries", &self.entries.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNTS: &str = "version = 1\n[user.alice]\nid = 1000\n[user.bob]\nid = 1001\n";

    #[test]
    fn a_pair_counts_for_a_while_and_only_whole() {
        let accounts = Accounts::parse(ACCOUNTS).unwrap();
        let alice = accounts.user("alice").unwrap();
        let mut verified = Verified::new(10, Duration::from_secs(60));
        let now = Instant::now();
        let right = Secret::from("open sesame");
        assert!(verified.get(&accounts, "alice", &right, now).is_none());
        verified.put("alice", &right, &alice, now);
        let get = |name: &str, password: &str, after: u64| {
            let now = now + Duration::from_secs(after);
            verified.get(&accounts, name, &password.into(), now).map(|who| who.id())
        };
        assert_eq!(get("alice", "open sesame", 59), Some(alice.id()));
        assert_eq!(get("alice", "open sesame", 60), None);
        for (name, password) in
            [("alice", "open"), ("bob", "open sesame"), ("aliceopen", " sesame"), ("", "")]
        {
            assert_eq!(get(name, password, 0), None, "{name:?} {password:?}");
        }
    }

    #[test]
    fn after_a_reload_everybody_is_verified_again() {
        let [before, after] = [ACCOUNTS; 2].map(|text| Accounts::parse(text).unwrap());
        let mut verified = Verified::new(10, Duration::from_secs(60));
        let (password, now) = (Secret::from("open sesame"), Instant::now());
        verified.put("alice", &password, &before.user("alice").unwrap(), now);
        assert!(verified.get(&after, "alice", &password, now).is_none());
        verified.put("alice", &password, &after.user("alice").unwrap(), now);
        assert_eq!(verified.len(), 1);
        let found = verified.get(&after, "alice", &password, now).unwrap();
        assert_eq!(found.generation(), after.generation());
        assert!(verified.get(&before, "alice", &password, now).is_none());
    }

    #[test]
    fn the_oldest_gives_way() {
        let accounts = Accounts::parse(ACCOUNTS).unwrap();
        let alice = accounts.user("alice").unwrap();
        let mut verified = Verified::new(2, Duration::from_secs(60));
        let now = Instant::now();
        for password in ["one", "two", "one", "three"] {
            verified.put("alice", &password.into(), &alice, now);
        }
        assert_eq!((verified.len(), verified.order.len()), (2, 2));
        let knows = |password: &str| verified.get(&accounts, "alice", &password.into(), now).is_some();
        assert!(knows("one") && !knows("two") && knows("three"));
        let mut none = Verified::new(0, Duration::from_secs(60));
        none.put("alice", &"one".into(), &alice, now);
        assert!(none.is_empty() && !format!("{none:?}").contains("one"));
    }
}
