//! Watches that rest. A directory that this server itself changes many times a second raises a notice of each change on every
//! lane that watches it, which costs the change a fifth of its time and tells nothing that was not told before. Such a
//! directory is left unwatched until the changes are fewer again, and then looked at anew, as after lost events. What others
//! change in it meanwhile is found as where there is no watch: when the time to live is over.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lane::fs::unwatch;
use lane::time;

use super::key::Key;
use super::watches::{WatchedDir, Watches};

/// How often this server has changed a directory lately.
pub(super) struct Told {
    since: Cell<Instant>,
    count: Cell<u32>,
    rests: Cell<bool>,
}

impl Told {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: Cell::new(now), count: Cell::new(0), rests: Cell::new(false) }
    }

    /// One change more; says whether the watch has to rest now.
    fn note(&self, now: Instant) -> bool {
        if !self.rests.get() && now.saturating_duration_since(self.since.get()) >= PERIOD {
            self.begin(now);
        }
        self.count.set(self.count.get().saturating_add(1));
        !self.rests.get() && self.count.get() > TOLD_MAX
    }

    /// Whether a rest is over: there were few changes in the last period.
    fn is_over(&self, now: Instant) -> bool {
        if !self.rests.get() || now.saturating_duration_since(self.since.get()) < PERIOD {
            return false;
        }
        let is_over = self.count.get() <= TOLD_MAX;
        self.begin(now);
        is_over
    }

    fn begin(&self, now: Instant) {
        self.since.set(now);
        self.count.set(0);
    }
}

impl Watches {
    /// This server is about to change something in a directory.
    pub(super) fn note_told(&self, watched: &WatchedDir) {
        let Some(watch) = watched.watch() else { return };
        // A directory that is known by several paths has one watch for all of them, which goes on.
        if watched.told().note(time::now()) && self.is_alone_in(watch) {
            self.counters().watches_rested.increment();
            watched.told().rests.set(true);
            watched.set_watch(None);
            self.forget_watch_of(watch);
            unwatch(watch);
        }
    }

    /// A directory on the books, but for one that has rested: it has to be looked at anew.
    pub(super) fn relied_on(&self, key: &Key) -> Option<Rc<WatchedDir>> {
        let known = self.known(key)?;
        if known.told().is_over(time::now()) {
            self.forget_subtree(known.key());
            return None;
        }
        Some(known)
    }

    /// Forgets what rested and is not looked at any more.
    pub(super) fn end_rests(&self) {
        for rested in self.all().iter().filter(|watched| watched.told().is_over(time::now())) {
            self.forget_subtree(rested.key());
        }
    }
}

/// Changes of a directory in one period beyond which its watch rests.
const TOLD_MAX: u32 = 64;
const PERIOD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_rests_for_as_long_as_changes_are_many() {
        let start = Instant::now();
        let told = Told::new(start);
        let noted = |at| told.note(start + PERIOD * at);
        assert!((0..10 * TOLD_MAX).all(|n| !noted(n / TOLD_MAX)), "few in each period");
        let rests_at = (0..=TOLD_MAX).position(|_| noted(20));
        assert_eq!(rests_at, Some(TOLD_MAX as usize));
        told.rests.set(true);
        let is_over = |at| told.is_over(start + PERIOD * at);
        assert!(!is_over(20), "not before a period has passed");
        assert!(!is_over(21), "there were many in the one before");
        (0..=TOLD_MAX).for_each(|_| assert!(!noted(21)));
        assert!(!is_over(22));
        assert!(!noted(22));
        assert!(is_over(23));
    }
}
