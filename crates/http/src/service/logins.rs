//! Users who prove who they are with a password.
//!
//! To verify one takes tens of milliseconds and 19 MiB, so a lane has one verified at a time, by the silo's helpers, in
//! turns of the addresses that ask; a pair that was right is remembered for a while. Wrong ones are counted for their
//! address: ten at once, then one every six seconds, beyond which nothing of that address is verified.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use identity::{Accounts, Principal, Verified};
use lane::Lasting;
use lane::offload::{self, offload};
use lane::time::now;
use service::address::address_of;
use service::turns::Turns;

use super::counters::HttpCounters;
use crate::basic::Basic;
use crate::refusal::Refusal;

/// The logins of one lane.
pub(super) struct Logins {
    verified: OnceCell<RefCell<Verified>>,
    turns: Turns,
    addresses: RefCell<HashMap<IpAddr, Rc<Address>>>,
    waiting: Cell<usize>,
    counters: Arc<HttpCounters>,
}

/// One address that has a password verified, or had a wrong one.
struct Address {
    last_round: Cell<u64>,
    waiting: Cell<usize>,
    /// When it will have been forgiven all wrong passwords.
    forgiven_at: Cell<Instant>,
}

/// A place in the line.
struct Waiting {
    logins: Rc<Logins>,
    address: Rc<Address>,
}

impl Logins {
    pub(super) fn new(counters: Arc<HttpCounters>) -> Rc<Self> {
        Rc::new(Self {
            verified: OnceCell::new(),
            turns: Turns::default(),
            addresses: RefCell::default(),
            waiting: Cell::new(0),
            counters,
        })
    }

    /// The user who says this at `peer`.
    ///
    /// # Errors
    /// [`Refusal::LoginWrong`], [`Refusal::LoginsTooMany`], [`Refusal::Overloaded`].
    pub(super) async fn verify(
        self: &Rc<Self>,
        accounts: &Arc<Accounts>,
        peer: IpAddr,
        basic: Basic,
    ) -> Result<Principal, Refusal> {
        if let Some(principal) = self.remembered(accounts, &basic) {
            return Ok(principal);
        }
        let address = self.address(peer)?;
        if address.is_blocked() {
            return Err(Refusal::LoginsTooMany);
        }
        let waiting = Waiting::begin(self, address)?;
        let is_wanted = Rc::new(Cell::new(true));
        let verified =
            Rc::clone(self).verify_in_turn(Arc::clone(accounts), waiting, Rc::clone(&is_wanted), peer, basic);
        let _asked = Asked(is_wanted);
        Lasting::from(lane::spawn(verified)).await
    }

    /// One whose client goes away before its turn is not verified; after that it is, and counts.
    async fn verify_in_turn(
        self: Rc<Self>,
        accounts: Arc<Accounts>,
        waiting: Waiting,
        is_wanted: Rc<Cell<bool>>,
        peer: IpAddr,
        basic: Basic,
    ) -> Result<Principal, Refusal> {
        let _turn = self.turns.take(&waiting.address.last_round).await;
        // Those before it in the line may have been of the same user, or wrong ones of the same address.
        if let Some(principal) = self.remembered(&accounts, &basic) {
            return Ok(principal);
        }
        if waiting.address.is_blocked() || !is_wanted.get() {
            return Err(Refusal::LoginsTooMany);
        }
        let client = offload::Client::of(&address_of(peer));
        let (with, name, password) = (Arc::clone(&accounts), basic.name.clone(), basic.password.clone());
        match offload(Some(client), move || with.verify(&name, &password)).await {
            Err(_) => Err(Refusal::Overloaded),
            Ok(Ok(principal)) => {
                self.counters.logins_right.increment();
                self.verified().borrow_mut().put(&basic.name, &basic.password, &principal, now());
                Ok(principal)
            }
            Ok(Err(why)) => {
                self.counters.logins_wrong.increment();
                waiting.address.note_wrong();
                tracing::info!(user = ?basic.name, %peer, %why, "a password was refused");
                Err(Refusal::LoginWrong)
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

    /// The books of an address. Those with nothing to hold against them are forgotten when there is no room, and if all
    /// have something, that which is forgiven first.
    fn address(&self, peer: IpAddr) -> Result<Rc<Address>, Refusal> {
        let name = address_of(peer);
        let mut addresses = self.addresses.borrow_mut();
        if let Some(known) = addresses.get(&name) {
            return Ok(Rc::clone(known));
        }
        if addresses.len() >= ADDRESSES_MAX {
            let now = now();
            addresses.retain(|_, address| address.waiting.get() > 0 || address.forgiven_at.get() > now);
            if addresses.len() >= ADDRESSES_MAX {
                let idle = addresses.iter().filter(|(_, address)| address.waiting.get() == 0);
                let first = idle.min_by_key(|(_, address)| address.forgiven_at.get()).map(|(name, _)| *name);
                addresses.remove(&first.ok_or(Refusal::Overloaded)?);
            }
        }
        let address = Rc::new(Address {
            last_round: Cell::new(0),
            waiting: Cell::new(0),
            forgiven_at: Cell::new(now()),
        });
        addresses.insert(name, Rc::clone(&address));
        Ok(address)
    }
}

impl Address {
    fn note_wrong(&self) {
        self.forgiven_at.set(self.forgiven_at.get().max(now()) + FORGIVEN_AFTER);
    }

    fn is_blocked(&self) -> bool {
        self.forgiven_at.get() > now() + FORGIVEN_AFTER * (WRONG_MAX - 1)
    }
}

impl Waiting {
    fn begin(logins: &Rc<Logins>, address: Rc<Address>) -> Result<Self, Refusal> {
        if address.waiting.get() >= WAITING_PER_ADDRESS_MAX || logins.waiting.get() >= WAITING_MAX {
            return Err(Refusal::Overloaded);
        }
        address.waiting.update(|waiting| waiting + 1);
        logins.waiting.update(|waiting| waiting + 1);
        Ok(Self { logins: Rc::clone(logins), address })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.address.waiting.update(|waiting| waiting - 1);
        self.logins.waiting.update(|waiting| waiting - 1);
    }
}

/// The client still waits, as long as this lives.
struct Asked(Rc<Cell<bool>>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Pairs of name and password that are remembered, and how long.
const REMEMBERED_MAX: usize = 1024;
const REMEMBERED_FOR: Duration = Duration::from_secs(300);
/// Wrong passwords of one address at once, and after what time one of them is forgiven.
const WRONG_MAX: u32 = 10;
const FORGIVEN_AFTER: Duration = Duration::from_secs(6);
/// Addresses with wrong passwords that are remembered.
const ADDRESSES_MAX: usize = 4096;
/// Passwords that wait to be verified.
const WAITING_MAX: usize = 256;
const WAITING_PER_ADDRESS_MAX: usize = 16;
