//! State that clients' tasks and the test share: what is true, how far they are, and which can be reached.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lane::time;
use vfs::VfsCounters;

use super::life::Counters;
use super::truth::{State, Truth, Who};

/// Event of a client, as it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The client hears that what it was promised is over: a callback, or a lease.
    Broken,
    /// The write that it kept back is made.
    WrittenBack,
    /// The client says that it has given a lease back, or closes the file.
    GivesBack,
    /// The client's own change is made, or what it asked for is there.
    Answered,
}

/// Phase of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Clients read and write.
    Lives,
    /// Clients end what they have begun, and give back what they hold.
    Settles,
    /// Clients read for the last time.
    Ends,
}

pub(crate) struct Shared {
    pub(crate) truth: Truth,
    pub(crate) phase: Cell<Phase>,
    /// Clients that are through with this phase.
    pub(crate) ready: Cell<usize>,
    /// Delay of word that was sent before a reply to another client.
    pub(crate) grace: Duration,
    /// Only one changes something at a time.
    pub(crate) in_turn: bool,
    turn: Cell<bool>,
    counters: Counters,
    /// State that each strong entity tag of a name has stood for.
    pub(crate) tags: RefCell<BTreeMap<(&'static str, String), State>>,
    pub(crate) tally: RefCell<BTreeMap<&'static str, u64>>,
    /// In the order in which it happened.
    events: RefCell<Vec<(Who, Event)>>,
}

impl Shared {
    pub(crate) fn new(truth: Truth, grace: Duration, in_turn: bool, counters: Counters) -> Self {
        Self {
            truth,
            phase: Cell::new(Phase::Lives),
            ready: Cell::default(),
            grace,
            in_turn,
            turn: Cell::default(),
            counters,
            tags: RefCell::default(),
            tally: RefCell::default(),
            events: RefCell::default(),
        }
    }

    pub(crate) fn count(&self, what: &'static str) {
        *self.tally.borrow_mut().entry(what).or_default() += 1;
    }

    pub(crate) fn note(&self, who: Who, event: Event) {
        self.events.borrow_mut().push((who, event));
    }

    /// Returns what has happened since it was last asked.
    pub(crate) fn events(&self) -> Vec<(Who, Event)> {
        self.events.take()
    }

    /// Times that a client of AFS did not hear in time what it had to.
    pub(crate) fn misses(&self) -> u64 {
        let missed = |lane: &Arc<VfsCounters>| lane.clients_late.get() + lane.clients_not_waited_for.get();
        self.counters.borrow().iter().map(missed).sum()
    }

    /// Waits until no other client changes anything, where that is to be.
    pub(crate) async fn turn(&self) -> Option<Turn<'_>> {
        if !self.in_turn {
            return None;
        }
        while self.turn.replace(true) {
            time::sleep(Duration::from_millis(2)).await;
        }
        Some(Turn(self))
    }
}

/// The turn of one client.
pub(crate) struct Turn<'s>(&'s Shared);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turn.set(false);
    }
}

/// Whether a client can be reached, as the network of the test goes.
#[derive(Default)]
pub(crate) struct Reach {
    pub(crate) is_cut_off: Cell<bool>,
    /// The client could not be reached, and has not been served since it can.
    is_doubtful: Cell<bool>,
    since: Cell<Duration>,
}

impl Reach {
    /// Notes that the client is cut off, or gone.
    pub(crate) fn changes(&self, is_cut_off: bool, now: Duration) {
        self.is_cut_off.set(is_cut_off);
        self.is_doubtful.set(true);
        self.since.set(now);
    }

    /// Notes that the client was served by a request that it began then: the server has told it before of all
    /// that it had missed.
    pub(crate) fn is_served(&self, began: Duration) {
        if !self.is_cut_off.get() && began >= self.since.get() {
            self.is_doubtful.set(false);
        }
    }

    /// Returns what it was promised counts.
    pub(crate) fn is_sure(&self) -> bool {
        !self.is_doubtful.get()
    }
}
