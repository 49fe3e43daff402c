//! Who signs in: accounts as NTLM asks for them, and whose sign-ins fail.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use identity::Accounts;
use service::address::address_of;
use zeroize::Zeroizing;

/// The server's users, whatever domain a client believes them in.
pub(crate) struct Users<'a>(pub(crate) &'a Accounts);

impl Users<'_> {
    /// The user as the accounts have him: Windows and macOS send names as they were typed.
    pub(crate) fn name(&self, user: &str) -> String {
        let is_known = |name: &str| self.0.user(name).is_ok();
        let lower = user.to_lowercase();
        if !is_known(user) && is_known(&lower) { lower } else { user.to_owned() }
    }
}

/// The same as one sign-in asks for them.
pub(crate) struct Asked<'a> {
    pub(crate) users: Users<'a>,
    /// `None`: however many fail, all are looked at.
    pub(crate) failures: Option<&'a Failures>,
    /// From where,
    pub(crate) address: IpAddr,
    /// and when.
    pub(crate) now: Instant,
}

impl smb_auth::Accounts for Asked<'_> {
    fn nt_hash(&self, _: &str, user: &str) -> Zeroizing<[u8; 16]> {
        Zeroizing::new(*self.users.0.nt_hash(&self.users.name(user)).expose())
    }

    fn is_known(&self, _: &str, user: &str) -> bool {
        !matches!(self.users.0.user(&self.users.name(user)), Err(identity::Refused::Unknown))
    }

    fn is_held_off(&self, _: &str, user: &str) -> bool {
        self.failures.is_some_and(|failures| !failures.may_try_as(self.address, user, self.now))
    }
}

/// Sign-ins that failed. A name may fail so often at once from an address, and then so often a minute, so that who shares his
/// address with a client that has a wrong password is not held off with it; an address may fail ten times as often with whatever
/// names. Touched by sign-ins alone.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    failed: Mutex<HashMap<Key, Failed>>,
    /// Names are kept as what this makes of them: nobody chooses what collides, or how much memory a name takes.
    hasher: RandomState,
}

/// An address, and the name in small letters, or all names.
type Key = (IpAddr, Option<u64>);

#[derive(Clone, Copy, Debug)]
struct Failed {
    count: u32,
    since: Instant,
}

impl Failed {
    /// How many still count.
    fn left(&self, limit: Limit, now: Instant) -> u32 {
        let forgiven =
            now.saturating_duration_since(self.since).as_millis() / limit.forgiven_after.as_millis();
        self.count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

impl Failures {
    /// Whether `address` may try.
    pub(crate) fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        self.is_within((address_of(address), None), now)
    }

    /// Whether it may try with this name.
    pub(crate) fn may_try_as(&self, address: IpAddr, user: &str, now: Instant) -> bool {
        self.is_within(self.key(address, user), now)
    }

    /// One has failed; without a name, it did not come as far as that.
    pub(crate) fn failed(&self, address: IpAddr, user: Option<&str>, now: Instant) {
        let mut failed = self.lock();
        for key in [Some((address_of(address), None)), user.map(|user| self.key(address, user))] {
            let Some(key) = key else { continue };
            let is_new = !failed.contains_key(&key);
            if is_new && failed.len() >= REMEMBERED_MAX {
                failed.retain(|key, failed| failed.left(Limit::of(key), now) > 0);
            }
            if is_new && failed.len() >= REMEMBERED_MAX {
                // So many addresses at once are one's who has as many as he likes: what is forgotten is the oldest.
                let oldest = failed.iter().min_by_key(|(_, failed)| failed.since).map(|(key, _)| *key);
                oldest.map(|oldest| failed.remove(&oldest));
            }
            let failed = failed.entry(key).or_insert(Failed { count: 0, since: now });
            *failed = Failed { count: failed.left(Limit::of(&key), now) + 1, since: now };
        }
    }

    /// One has gone well: what failed with this name before was a slip.
    pub(crate) fn succeeded(&self, address: IpAddr, user: &str) {
        self.lock().remove(&self.key(address, user));
    }

    fn is_within(&self, key: Key, now: Instant) -> bool {
        let limit = Limit::of(&key);
        self.lock().get(&key).is_none_or(|failed| failed.left(limit, now) < limit.at_once)
    }

    fn key(&self, address: IpAddr, user: &str) -> Key {
        (address_of(address), Some(self.hasher.hash_one(user.to_lowercase())))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Failed>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often may fail.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// Before who fails has to wait.
    at_once: u32,
    /// After so long one failure counts no more.
    forgiven_after: Duration,
}

impl Limit {
    /// With one name from one address: no password is guessed so.
    const NAME: Self = Self { at_once: 20, forgiven_after: Duration::from_secs(3) };
    /// From one address, behind which there may be many clients.
    const ADDRESS: Self = Self { at_once: 200, forgiven_after: Duration::from_millis(300) };

    fn of(key: &Key) -> Self {
        if key.1.is_some() { Self::NAME } else { Self::ADDRESS }
    }
}

/// Names of addresses, and addresses, that are remembered.
const REMEMBERED_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses() -> [IpAddr; 2] {
        ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap())
    }

    #[test]
    fn a_name_that_fails_too_often_waits_there_and_nobody_else_does() {
        let failures = Failures::default();
        let (now, [one, other]) = (Instant::now(), addresses());
        for _ in 0..Limit::NAME.at_once {
            assert!(failures.may_try_as(one, "alice", now));
            failures.failed(one, Some("alice"), now);
        }
        assert!(!failures.may_try_as(one, "ALICE", now), "in whatever letters");
        assert!(failures.may_try(one, now) && failures.may_try_as(one, "bob", now));
        assert!(failures.may_try_as(other, "alice", now));
        let forgiven_after = Limit::NAME.forgiven_after;
        assert!(!failures.may_try_as(one, "alice", now + forgiven_after / 2));
        let later = now + forgiven_after;
        assert!(failures.may_try_as(one, "alice", later));
        failures.failed(one, Some("alice"), later);
        assert!(!failures.may_try_as(one, "alice", later), "one is forgiven at a time");
        failures.succeeded(one, "Alice");
        assert!(failures.may_try_as(one, "alice", later));
    }

    #[test]
    fn an_address_that_tries_name_after_name_waits_and_others_do_not() {
        let failures = Failures::default();
        let (now, [one, other]) = (Instant::now(), addresses());
        for number in 0..Limit::ADDRESS.at_once {
            assert!(failures.may_try(one, now));
            failures.failed(one, Some(&number.to_string()), now);
        }
        assert!(!failures.may_try(one, now) && failures.may_try(other, now));
        assert!(failures.may_try(one, now + Limit::ADDRESS.forgiven_after));
    }

    #[test]
    fn as_much_is_remembered_as_there_is_room_for_and_the_latest_is_among_it() {
        let failures = Failures::default();
        let (now, [_, other]) = (Instant::now(), addresses());
        for number in 0..REMEMBERED_MAX as u32 {
            let address = IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + number));
            failures.failed(address, None, now);
        }
        for _ in 0..Limit::NAME.at_once {
            failures.failed(other, Some("alice"), now + Duration::from_millis(1));
        }
        assert!(!failures.may_try_as(other, "alice", now));
        assert_eq!(failures.lock().len(), REMEMBERED_MAX);
    }
    #[test]
    fn a_name_is_found_as_it_was_typed_or_in_small_letters() {
        let text = "version = 1\n[user.alice]\nid = 1000\n";
        let accounts = Accounts::parse(text).unwrap();
        let (users, failures) = (Users(&accounts), Failures::default());
        assert_eq!(["ALICE", "alice", "BOB"].map(|name| users.name(name)), ["alice", "alice", "BOB"]);
        use smb_auth::Accounts as _;
        let [address, _] = addresses();
        let asked = Asked { users, failures: Some(&failures), address, now: Instant::now() };
        assert!(asked.is_known("WORKGROUP", "Alice") && !asked.is_known("", "carol"));
    }
}
