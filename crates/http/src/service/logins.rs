//! Users that authenticate with a password.
//!
//! To verify one takes tens of milliseconds and 19 MiB, so a lane has one verified at a time, by the silo's helpers, in
//! turns of the addresses that ask; a pair that was right is remembered for a while. Wrong ones are counted for their
//! address (an IPv6 /64): ten at once, then one every six seconds, beyond which nothing of that address is verified; for its /56 four
//! times as many, for its /48 sixteen times.
//!
//! A name that was right lately at the same address goes first, then names that were right lately elsewhere, then addresses of which
//! nothing was wrong. The others wait for all of these, and have a quarter of the time at most.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use budget::Network;
use identity::{Accounts, Principal, Verified};
use lane::DetachOnDrop;
use lane::offload::offload;
use lane::time::{now, sleep_until};
use service::address::{address_of, client_of};
use service::failures::{Failures, Limit};
use service::turns::{Turn, Turns};

use super::counters::HttpCounters;
use crate::basic::Basic;
use crate::request_error::RequestError;

/// The logins of one lane.
pub(super) struct Logins {
    verified: OnceCell<RefCell<Verified>>,
    turns: Turns,
    addresses: RefCell<HashMap<IpAddr, Rc<LoginAddress>>>,
    waiting: Cell<usize>,
    /// Wrong passwords.
    failures: RefCell<Failures<Network>>,
    /// Names that were right, by what the hasher makes of them, alone and with their address, and until when that
    /// counts.
    right: RefCell<HashMap<u64, Instant>>,
    hasher: RandomState,
    /// Time before which no login of an address that had wrong passwords is verified.
    suspects_at: Cell<Option<Instant>>,
    counters: Arc<HttpCounters>,
}

/// One address that has a password verified, or had one.
struct LoginAddress {
    last_round: Cell<u64>,
    waiting: Cell<usize>,
}

/// Rank of a waiting verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// The name was right lately at this address.
    Known,
    /// The name was right lately, and nothing was wrong at this address.
    Named,
    /// Nothing was wrong at this address.
    New,
    /// Something was.
    Suspect,
}

impl Rank {
    /// Returns how many of it may wait, with those before it.
    const fn waiting_max(self) -> usize {
        match self {
            Self::Known => WAITING_MAX,
            Self::Named => WAITING_MAX / 8 * 7,
            Self::New => WAITING_MAX / 4 * 3,
            Self::Suspect => WAITING_MAX / 2,
        }
    }
}

/// A place in the line.
struct LoginWaiter {
    logins: Rc<Logins>,
    address: Rc<LoginAddress>,
}

impl Logins {
    pub(super) fn new(counters: Arc<HttpCounters>) -> Rc<Self> {
        Rc::new(Self {
            verified: OnceCell::new(),
            turns: Turns::default(),
            addresses: RefCell::default(),
            waiting: Cell::new(0),
            failures: RefCell::new(Failures::new(NETWORKS_MAX)),
            right: RefCell::default(),
            hasher: RandomState::new(),
            suspects_at: Cell::new(None),
            counters,
        })
    }

    /// Verifies a login at `peer`, and returns its user.
    ///
    /// # Errors
    /// [`RequestError::LoginWrong`], [`RequestError::LoginsTooMany`], [`RequestError::Overloaded`].
    pub(super) async fn verify(
        self: &Rc<Self>,
        accounts: &Arc<Accounts>,
        peer: IpAddr,
        basic: Basic,
    ) -> Result<Principal, RequestError> {
        if let Some(principal) = self.remembered(accounts, &basic) {
            return Ok(principal);
        }
        if !self.may_try(peer) {
            return Err(RequestError::LoginsTooMany);
        }
        let rank = self.rank(peer, &basic.name);
        let waiting = LoginWaiter::begin(self, self.address(peer), rank)?;
        let is_wanted = Rc::new(Cell::new(true));
        let verified =
            Rc::clone(self).verify_in_turn(Arc::clone(accounts), waiting, Rc::clone(&is_wanted), peer, basic);
        let _asked = WaitingClient(is_wanted);
        DetachOnDrop::from(lane::spawn(verified)).await
    }

    /// Verifies a password in its turn. One whose client goes away before its turn is not verified; after
    /// that it is, and counts.
    async fn verify_in_turn(
        self: Rc<Self>,
        accounts: Arc<Accounts>,
        waiting: LoginWaiter,
        is_wanted: Rc<Cell<bool>>,
        peer: IpAddr,
        basic: Basic,
    ) -> Result<Principal, RequestError> {
        let (_turn, rank) = self.turn(&waiting, peer, &basic.name).await;
        // Those before it in the line may have been of the same user, or wrong ones of the same address.
        if let Some(principal) = self.remembered(&accounts, &basic) {
            return Ok(principal);
        }
        if !self.may_try(peer) || !is_wanted.get() {
            return Err(RequestError::LoginsTooMany);
        }
        let (client, began) = (client_of(peer), now());
        let (with, name, password) = (Arc::clone(&accounts), basic.name.clone(), basic.password.clone());
        let verified = offload(Some(client), move || with.verify(&name, &password)).await;
        if rank == Rank::Suspect {
            self.suspects_at.set(Some(now() + (now() - began) * (SUSPECTS_DIVISOR - 1)));
        }
        match verified {
            Err(_) => Err(RequestError::Overloaded),
            Ok(Ok(principal)) => {
                self.counters.logins_right.increment();
                self.verified().borrow_mut().put(&basic.name, &basic.password, &principal, now());
                self.note_right(peer, &basic.name);
                Ok(principal)
            }
            Ok(Err(why)) => {
                self.counters.logins_wrong.increment();
                self.failures.borrow_mut().note_at(peer, WRONG, now());
                tracing::info!(user = ?basic.name, %peer, %why, "a password was refused");
                Err(RequestError::LoginWrong)
            }
        }
    }

    fn remembered(&self, accounts: &Accounts, basic: &Basic) -> Option<Principal> {
        let known = self.verified().borrow().get(accounts, &basic.name, &basic.password, now())?;
        self.counters.logins_remembered.increment();
        Some(known)
    }

    fn verified(&self) -> &RefCell<Verified> {
        self.verified.get_or_init(|| RefCell::new(Verified::new(REMEMBERED_MAX, REMEMBERED_FOR)))
    }

    /// Waits for a turn, in the rank that the client has when it comes.
    async fn turn(&self, waiting: &LoginWaiter, peer: IpAddr, name: &str) -> (Turn<'_>, Rank) {
        loop {
            let rank = self.rank(peer, name);
            let held_back = || self.suspects_at.get().filter(|at| rank == Rank::Suspect && now() < *at);
            if let Some(until) = held_back() {
                self.counters.logins_held_back.increment();
                sleep_until(until).await;
            }
            let turn = self.turns.take_as(rank as u8, &waiting.address.last_round).await;
            // Another password of the address may have been wrong meanwhile.
            if held_back().is_none() && self.rank(peer, name) <= rank {
                return (turn, rank);
            }
        }
    }

    fn may_try(&self, peer: IpAddr) -> bool {
        self.failures.borrow().may_try_at(peer, now())
    }

    fn rank(&self, peer: IpAddr, name: &str) -> Rank {
        let (right, now) = (self.right.borrow(), now());
        let was_right = |key: u64| right.get(&key).is_some_and(|until| now < *until);
        let is_suspect = self.failures.borrow().any_at(peer, now);
        match was_right(self.hasher.hash_one((name, address_of(peer)))) {
            true => Rank::Known,
            false if is_suspect => Rank::Suspect,
            false if was_right(self.hasher.hash_one(name)) => Rank::Named,
            false => Rank::New,
        }
    }

    fn note_right(&self, peer: IpAddr, name: &str) {
        let (mut right, now) = (self.right.borrow_mut(), now());
        if right.len() + 2 > RIGHT_MAX {
            right.retain(|_, until| now < *until);
            if right.len() + 2 > RIGHT_MAX {
                right.clear();
            }
        }
        for key in [self.hasher.hash_one(name), self.hasher.hash_one((name, address_of(peer)))] {
            right.insert(key, now + RIGHT_FOR);
        }
    }

    /// Returns the books of an address. Those without a waiting client are forgotten when there is no room.
    fn address(&self, peer: IpAddr) -> Rc<LoginAddress> {
        let name = address_of(peer);
        let mut addresses = self.addresses.borrow_mut();
        if let Some(known) = addresses.get(&name) {
            return Rc::clone(known);
        }
        if addresses.len() >= ADDRESSES_MAX {
            addresses.retain(|_, address| address.waiting.get() > 0);
        }
        let address = Rc::new(LoginAddress { last_round: Cell::new(0), waiting: Cell::new(0) });
        addresses.insert(name, Rc::clone(&address));
        address
    }
}

impl LoginWaiter {
    fn begin(logins: &Rc<Logins>, address: Rc<LoginAddress>, rank: Rank) -> Result<Self, RequestError> {
        if address.waiting.get() >= WAITING_PER_ADDRESS_MAX || logins.waiting.get() >= rank.waiting_max() {
            return Err(RequestError::Overloaded);
        }
        address.waiting.update(|waiting| waiting + 1);
        logins.waiting.update(|waiting| waiting + 1);
        Ok(Self { logins: Rc::clone(logins), address })
    }
}

impl Drop for LoginWaiter {
    fn drop(&mut self) {
        self.address.waiting.update(|waiting| waiting - 1);
        self.logins.waiting.update(|waiting| waiting - 1);
    }
}

/// Tells a verification that its client still waits; dropped, that the client is gone.
struct WaitingClient(Rc<Cell<bool>>);

impl Drop for WaitingClient {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

//@ limit: names with passwords that were right
//@ section: Users and access lists
//@ unit: pair of about 200 bytes
//@ all: lane: {}, for {REMEMBERED_FOR}
//@ empty: the oldest is verified again
//@ counter: http_logins{outcome="remembered"}, http_logins
//@ attack: http-passwords
/// Pairs of name and password that are remembered, and how long.
const REMEMBERED_MAX: usize = 1024;
const REMEMBERED_FOR: Duration = Duration::from_secs(300);
/// Names that were right, and how long that counts: longer than the pair is remembered.
const RIGHT_MAX: usize = 8192;
const RIGHT_FOR: Duration = Duration::from_secs(86_400);
/// Wrong passwords of one address.
const WRONG: Limit = Limit { at_once: 10, forgiven_after: Duration::from_secs(6) };
/// Networks with wrong passwords that are remembered.
const NETWORKS_MAX: usize = 12_288;
/// Addresses that are remembered for their turns.
const ADDRESSES_MAX: usize = 4096;
/// Addresses with wrong passwords have this part of the time.
const SUSPECTS_DIVISOR: u32 = 4;
//@ limit: passwords that HTTP verifies
//@ section: Users and access lists
//@ unit: password that waits
//@ connection: one at a time
//@ address: {WAITING_PER_ADDRESS_MAX} in turns; 10 wrong ones at once, then one in 6 s (IPv6 /64; /56 and /48 more)
//@ all: lane: one at a time, {} that wait (192 for a new name); {NETWORKS_MAX} networks with wrong ones remembered
//@ empty: 503; 429 for an address with too many wrong ones; others wait for the turns of other addresses
//@ counter: http_logins, http_refused{reason="logins_too_many"}, http_refused{reason="overloaded"}, http_logins_held_back
//@ attack: http-passwords
/// Passwords that wait to be verified.
const WAITING_MAX: usize = 256;
const WAITING_PER_ADDRESS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use identity::{PasswordHash, Strength};
    use lane::backend::sim::{Config, World};
    use lane::time::sleep;

    use super::*;

    fn accounts() -> Arc<Accounts> {
        let strength = Strength { memory_kib: 64, passes: 1, lanes: 1 };
        let hash = PasswordHash::new(&"sesame".into(), strength);
        Accounts::parse(&format!(
            "version = 1\n[user.alice]\nid = 1000\npassword = \"{}\"\n",
            *hash.to_text()
        ))
        .unwrap()
    }

    fn basic(name: &str, password: &str) -> Basic {
        Basic { name: name.into(), password: password.into() }
    }

    fn v4(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a01_0000 + number).into()
    }

    #[test]
    fn names_that_were_right_lately_and_new_addresses_do_not_wait_for_a_crowd_of_wrong_ones() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let (logins, accounts) = (Logins::new(Arc::default()), accounts());
            let counters = Arc::clone(&logins.counters);
            let [home, away]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
            logins.verify(&accounts, home, basic("alice", "sesame")).await.unwrap();
            // The pair is forgotten, the name is not.
            sleep(REMEMBERED_FOR * 2).await;
            let crowd = |round: &'static str| -> Vec<_> {
                let begin = |number| {
                    let (logins, accounts) = (Rc::clone(&logins), Arc::clone(&accounts));
                    lane::spawn(
                        async move { logins.verify(&accounts, v4(number), basic("mallory", round)).await },
                    )
                };
                (0..400).map(begin).collect()
            };
            for round in ["wrong", "wrong again"] {
                let asked = crowd(round);
                lane::yield_if_due().await;
                let before = counters.logins_wrong.get();
                for peer in [home, away] {
                    logins.verified().replace(Verified::new(REMEMBERED_MAX, REMEMBERED_FOR));
                    logins.verify(&accounts, peer, basic("alice", "sesame")).await.unwrap();
                }
                assert!(counters.logins_wrong.get() - before <= 4, "they came first in round {round}");
                for one in asked {
                    assert!(one.await.is_err());
                }
            }
            assert!(counters.logins_held_back.get() > 0);
        });
    }

    #[test]
    fn addresses_of_one_wide_network_have_its_share_of_wrong_passwords() {
        let world = World::new(1, Config::default());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async {
            let (logins, accounts) = (Logins::new(Arc::default()), accounts());
            let mut looked_at = 0;
            for high in 0..250_u128 {
                let peer = std::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | high << 72 | 1).into();
                match logins.verify(&accounts, peer, basic("alice", "wrong")).await {
                    Err(RequestError::LoginWrong) => looked_at += 1,
                    other => assert!(matches!(other, Err(RequestError::LoginsTooMany)), "{other:?}"),
                }
            }
            assert!((WRONG.at_once * 16..WRONG.at_once * 16 + 20).contains(&looked_at), "{looked_at}");
            let neighbour = "2001:db8:1::1".parse().unwrap();
            logins.verify(&accounts, neighbour, basic("alice", "sesame")).await.unwrap();
        });
    }
}
