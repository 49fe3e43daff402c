//! Clients that did not answer a break in time. For some minutes they are granted no write and no handle caching, so that each silent
//! client has others wait once and not again and again.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grants::Limits;

use crate::asker::Asker;
use crate::breaks::Told;
use crate::tree::guid_bytes;

/// A user at a client address. Neither is the client's to choose, as its GUID is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Party {
    address: IpAddr,
    user: Arc<str>,
}

/// What a break is of: a lease of a client, or the oplock of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Of {
    Lease([u8; 16], [u8; 16]),
    Oplock(u64),
}

/// Breaks that wait for their acknowledgement, and who was late with one.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Whether there is anything in it: most requests look at nothing else.
    is_used: AtomicBool,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    /// When the time of a break is over.
    asked: HashMap<Of, Instant>,
    /// The same by time.
    by_time: BTreeMap<(Instant, Of), Party>,
    /// Until when a party is late.
    late: HashMap<Party, Instant>,
}

impl Party {
    pub(crate) fn of(asker: &Asker) -> Self {
        Self { address: asker.address, user: asker.caller.principal.name().into() }
    }
}

impl From<Told> for Of {
    fn from(told: Told) -> Self {
        match told {
            Told::Lease { client, key } => Self::Lease(guid_bytes(client), guid_bytes(key)),
            Told::Oplock { open, .. } => Self::Oplock(open.volatile.get()),
        }
    }
}

impl Late {
    /// A client is asked to give something back and has to acknowledge it.
    pub(crate) fn ask(&self, of: Of, party: Party, now: Instant) {
        let mut all = self.lock();
        all.settle(now);
        all.forget(of);
        let until = now + Limits::DEFAULT.acknowledge;
        all.asked.insert(of, until);
        all.by_time.insert((until, of), party);
        self.is_used.store(true, Ordering::Release);
    }

    /// The break that is under way, to be [answered](Self::answered).
    pub(crate) fn asked(&self, of: Of) -> Option<Instant> {
        self.is_used.load(Ordering::Acquire).then(|| self.lock().asked.get(&of).copied()).flatten()
    }

    /// The client has answered a break, or has closed all that it was of.
    pub(crate) fn answered(&self, of: Of, asked: Option<Instant>, now: Instant) {
        if asked.is_none() {
            return;
        }
        let mut all = self.lock();
        all.settle(now);
        // An answer may bring the next break with it.
        if all.asked.get(&of).copied() == asked {
            all.forget(of);
        }
        self.note(&all);
    }

    /// Whether the client was late in the last minutes.
    pub(crate) fn is_late(&self, asker: &Asker, now: Instant) -> bool {
        if !self.is_used.load(Ordering::Acquire) {
            return false;
        }
        let mut all = self.lock();
        all.settle(now);
        self.note(&all);
        all.late.get(&Party::of(asker)).is_some_and(|until| *until > now)
    }

    fn note(&self, all: &All) {
        self.is_used.store(!all.asked.is_empty() || !all.late.is_empty(), Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn forget(&mut self, of: Of) {
        if let Some(until) = self.asked.remove(&of) {
            self.by_time.remove(&(until, of));
        }
    }

    /// Whoever has not answered by now is late.
    fn settle(&mut self, now: Instant) {
        while let Some(first) = self.by_time.first_entry()
            && first.key().0 <= now
        {
            let ((until, of), party) = first.remove_entry();
            self.asked.remove(&of);
            let is_known = self.late.contains_key(&party);
            if !is_known && self.late.len() >= LATE_MAX {
                let oldest =
                    self.late.iter().min_by_key(|(_, until)| **until).map(|(party, _)| party.clone());
                if let Some(oldest) = oldest {
                    self.late.remove(&oldest);
                }
            }
            self.late.insert(party, until + LATE_FOR);
        }
        if self.late.values().any(|until| *until <= now) {
            self.late.retain(|_, until| *until > now);
        }
    }
}

/// How long a client that was late is granted less.
const LATE_FOR: Duration = Duration::from_secs(300);
/// Clients that are late at once: the one that was so first is forgotten.
const LATE_MAX: usize = 4096;
