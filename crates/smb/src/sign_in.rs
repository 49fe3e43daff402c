//! Who signs in: accounts as NTLM asks for them, and addresses whose sign-ins fail.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
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

impl smb_auth::Accounts for Users<'_> {
    fn nt_hash(&self, _: &str, user: &str) -> Zeroizing<[u8; 16]> {
        Zeroizing::new(*self.0.nt_hash(&self.name(user)).expose())
    }

    fn is_known(&self, _: &str, user: &str) -> bool {
        !matches!(self.0.user(&self.name(user)), Err(identity::Refused::Unknown))
    }
}

/// Sign-ins that failed, by address: each may fail so often at once, and so often a minute. Touched by sign-ins alone.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<HashMap<IpAddr, Failed>>);

#[derive(Clone, Copy, Debug)]
struct Failed {
    count: u32,
    since: Instant,
}

impl Failed {
    /// How many still count.
    fn left(&self, now: Instant) -> u32 {
        let forgiven = now.saturating_duration_since(self.since).as_secs() / FORGIVEN_AFTER.as_secs();
        self.count.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX))
    }
}

impl Failures {
    /// Whether `address` may try.
    pub(crate) fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.get(&address_of(address)).is_none_or(|failed| failed.left(now) < AT_ONCE)
    }

    /// One has failed.
    pub(crate) fn failed(&self, address: IpAddr, now: Instant) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES_MAX {
            failures.retain(|_, failed| failed.left(now) > 0);
        }
        if failures.len() >= ADDRESSES_MAX {
            // So many addresses at once are one's who has as many as he likes: what is forgotten is the oldest.
            let oldest = failures.iter().min_by_key(|(_, failed)| failed.since).map(|(address, _)| *address);
            oldest.map(|address| failures.remove(&address));
        }
        let failed = failures.entry(address_of(address)).or_insert(Failed { count: 0, since: now });
        *failed = Failed { count: failed.left(now) + 1, since: now };
    }
}

/// An address may fail so often before it has to wait.
const AT_ONCE: u32 = 20;
/// After so long one failure counts no more.
const FORGIVEN_AFTER: Duration = Duration::from_secs(3);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_fails_too_often_waits_and_others_do_not() {
        let failures = Failures::default();
        let (now, [one, other]) = (Instant::now(), ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap()));
        for _ in 0..AT_ONCE {
            assert!(failures.may_try(one, now));
            failures.failed(one, now);
        }
        assert!(!failures.may_try(one, now) && failures.may_try(other, now));
        assert!(!failures.may_try(one, now + FORGIVEN_AFTER / 2));
        let later = now + FORGIVEN_AFTER;
        assert!(failures.may_try(one, later));
        failures.failed(one, later);
        assert!(!failures.may_try(one, later), "one is forgiven at a time");
    }

    #[test]
    fn a_name_is_found_as_it_was_typed_or_in_small_letters() {
        let text = "version = 1\n[user.alice]\nid = 1000\n";
        let accounts = Accounts::parse(text).unwrap();
        let users = Users(&accounts);
        assert_eq!(["ALICE", "alice", "BOB"].map(|name| users.name(name)), ["alice", "alice", "BOB"]);
        use smb_auth::Accounts as _;
        assert!(users.is_known("WORKGROUP", "Alice") && !users.is_known("", "carol"));
    }
}
