//! Users that sign in: accounts as NTLM asks for them, and whose sign-ins fail.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use budget::Network;
use identity::Accounts;
use service::failures::{Failures as Known, Limit};
use zeroize::Zeroizing;

/// The server's users, whatever domain a client believes them in.
pub(crate) struct Users<'a>(pub(crate) &'a Accounts);

impl Users<'_> {
    /// Returns the user's name as the accounts have it: Windows and macOS send names as they were typed.
    pub(crate) fn name(&self, user: &str) -> String {
        let is_known = |name: &str| self.0.user(name).is_ok();
        let lower = user.to_lowercase();
        if !is_known(user) && is_known(&lower) { lower } else { user.to_owned() }
    }
}

/// The server's users as NTLM looks them up for one sign-in, with the limit of failures.
pub(crate) struct SignInAccounts<'a> {
    pub(crate) users: Users<'a>,
    /// `None`: however many fail, all are looked at.
    pub(crate) failures: Option<&'a Failures>,
    /// Address that the sign-in comes from.
    pub(crate) address: IpAddr,
    /// Time of the sign-in.
    pub(crate) now: Instant,
}

impl smb_auth::Accounts for SignInAccounts<'_> {
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

/// Sign-ins that failed. A name may fail so often at once from an address, and then so often a minute, so
/// that a client that shares its address with one that has a wrong password is not held off with it; an
/// address may fail ten times as often with whatever names. Of IPv6 that is a /64; its /56 may fail four
/// times as often, its /48 sixteen times. Touched by sign-ins alone.
#[derive(Debug)]
pub(crate) struct Failures {
    failed: Mutex<Known<FailureKey>>,
    /// Names are kept as what this makes of them: no client chooses what collides, or how much memory a name
    /// takes.
    hasher: RandomState,
}

/// A network, and the name in small letters, or all names.
type FailureKey = (Network, Option<u64>);

impl Default for Failures {
    fn default() -> Self {
        Self { failed: Mutex::new(Known::new(REMEMBERED_MAX)), hasher: RandomState::new() }
    }
}

impl Failures {
    /// Returns whether `address` may try.
    pub(crate) fn may_try(&self, address: IpAddr, now: Instant) -> bool {
        let failed = self.lock();
        Network::all_of(address).all(|network| failed.may_try(&(network, None), now))
    }

    /// Returns whether it may try with this name.
    pub(crate) fn may_try_as(&self, address: IpAddr, user: &str, now: Instant) -> bool {
        self.lock().may_try(&self.key(address, user), now)
    }

    /// Notes a failed sign-in; without a name, it did not come as far as that.
    pub(crate) fn failed(&self, address: IpAddr, user: Option<&str>, now: Instant) {
        let mut failed = self.lock();
        for network in Network::all_of(address) {
            failed.note((network, None), OF_ADDRESS.of(network), now);
        }
        if let Some(user) = user {
            failed.note(self.key(address, user), OF_NAME, now);
        }
    }

    /// Notes a sign-in that succeeded: what failed with this name before was a slip.
    pub(crate) fn succeeded(&self, address: IpAddr, user: &str) {
        self.lock().forget(&self.key(address, user));
    }

    fn key(&self, address: IpAddr, user: &str) -> FailureKey {
        (Network::of(address, 64), Some(self.hasher.hash_one(user.to_lowercase())))
    }

    fn lock(&self) -> MutexGuard<'_, Known<FailureKey>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limit of failures with one name from one address, so that no password is guessed.
const OF_NAME: Limit = Limit { at_once: 20, forgiven_after: Duration::from_secs(3) };
/// Limit of failures from one address, behind which there may be many clients.
const OF_ADDRESS: Limit = Limit { at_once: 200, forgiven_after: Duration::from_millis(300) };
//@ limit: sign-ins that fail
//@ section: SMB
//@ unit: failure
//@ connection: 20 at once with a name, one every 3 s
//@ address: 200 at once, one every 0.3 s
//@ all: process: {} names and networks remembered
//@ empty: STATUS_ACCOUNT_LOCKED_OUT for the name, STATUS_REQUEST_NOT_ACCEPTED for the address; other names go on
//@ counter: smb_sign_in_failed, smb_sign_in_limited
//@ attack: smb-sign-ins
/// Names of networks, and networks, that are remembered.
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
        for _ in 0..OF_NAME.at_once {
            assert!(failures.may_try_as(one, "alice", now));
            failures.failed(one, Some("alice"), now);
        }
        assert!(!failures.may_try_as(one, "ALICE", now), "in whatever letters");
        assert!(failures.may_try(one, now) && failures.may_try_as(one, "bob", now));
        assert!(failures.may_try_as(other, "alice", now));
        let forgiven_after = OF_NAME.forgiven_after;
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
        for number in 0..OF_ADDRESS.at_once {
            assert!(failures.may_try(one, now));
            failures.failed(one, Some(&number.to_string()), now);
        }
        assert!(!failures.may_try(one, now) && failures.may_try(other, now));
        assert!(failures.may_try(one, now + OF_ADDRESS.forgiven_after));
    }

    #[test]
    fn addresses_of_one_wide_network_wait_together() {
        let (failures, now) = (Failures::default(), Instant::now());
        let address = |high: u32| -> IpAddr {
            std::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(high) << 72 | 1).into()
        };
        let mut tries = 0;
        while failures.may_try(address(tries % 256), now) {
            failures.failed(address(tries % 256), Some(&tries.to_string()), now);
            tries += 1;
        }
        assert_eq!(tries, OF_ADDRESS.at_once * 16);
        assert!(failures.may_try("2001:db8:1::1".parse().unwrap(), now));
    }

    #[test]
    fn as_much_is_remembered_as_there_is_room_for_and_the_latest_is_among_it() {
        let failures = Failures::default();
        let (now, [_, other]) = (Instant::now(), addresses());
        for number in 0..REMEMBERED_MAX as u32 {
            let address = IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + number));
            failures.failed(address, None, now);
        }
        for _ in 0..OF_NAME.at_once {
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
        let asked = SignInAccounts { users, failures: Some(&failures), address, now: Instant::now() };
        assert!(asked.is_known("WORKGROUP", "Alice") && !asked.is_known("", "carol"));
    }
}
