//! Timers of a lane's tasks.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Instant;

/// Pending timers in the order of their deadlines.
#[derive(Default)]
pub(crate) struct Timers {
    pending: BTreeMap<(Instant, u64), Waker>,
    next_key: u64,
}

impl Timers {
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.pending.first_key_value().map(|(&(deadline, _), _)| deadline)
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    #[inline]
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Waker> {
        let mut due = Vec::new();
        while let Some(entry) = self.pending.first_entry() {
            if entry.key().0 > now {
                break;
            }
            due.push(entry.remove());
        }
        due
    }

    #[inline]
    pub(crate) fn new_key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key
    }

    #[inline]
    pub(crate) fn arm(&mut self, deadline: Instant, key: u64, waker: &Waker) {
        self.pending
            .entry((deadline, key))
            .and_modify(|armed| armed.clone_from(waker))
            .or_insert_with(|| waker.clone());
    }

    #[inline]
    pub(crate) fn disarm(&mut self, deadline: Instant, key: u64) {
        self.pending.remove(&(deadline, key));
    }
}
