//! Directories that clients rely on. A lane forgets what was not used for a while, and with the last thing
//! that it remembers of a directory the watch goes too. A client that was promised to hear of changes asks no
//! more, and has to hear of those that other programs make: so where something was promised, the directory is
//! watched for as long as the promise lasts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lane::time;

use super::key::KeyRef;
use super::watches::WatchedDir;

/// Watches that one lane keeps for its clients' callbacks.
pub(super) struct PinnedWatches {
    max: usize,
    /// Pinned watches by the time until which they are pinned, and by their address.
    kept: RefCell<BTreeMap<(Instant, *const WatchedDir), Rc<WatchedDir>>>,
}

impl PinnedWatches {
    pub(super) fn new(max: usize) -> Self {
        Self { max, kept: RefCell::default() }
    }

    /// Pins a directory's watch until then. Returns whether another was unpinned for it: the one whose callbacks end
    /// first.
    pub(super) fn keep(&self, watched: &Rc<WatchedDir>, until: Instant) -> bool {
        let known = watched.pinned_until();
        if known.is_some_and(|known| until <= known) {
            return false;
        }
        // Somewhat longer, so that not every promise in it moves it.
        self.put(watched, until + AHEAD);
        let mut kept = self.kept.borrow_mut();
        if kept.len() <= self.max {
            return false;
        }
        let gone = kept.pop_first();
        drop(kept);
        gone.inspect(|(_, gone)| gone.pin_until(None)).is_some()
    }

    /// Passes what clients rely on in a watched directory on to another watch of the same directory.
    pub(super) fn pass_on(&self, from: &Rc<WatchedDir>, to: &Rc<WatchedDir>) {
        let Some(until) = from.pinned_until() else { return };
        if to.pinned_until().is_none_or(|known| known < until) {
            self.put(to, until);
        }
        if let Some(object) = to.object().filter(|_| from.keeps_log()) {
            to.keep_log(object);
        }
        self.kept.borrow_mut().remove(&(until, Rc::as_ptr(from)));
        from.pin_until(None);
    }

    /// Keeps it until then, and not until when it was kept before.
    fn put(&self, watched: &Rc<WatchedDir>, until: Instant) {
        let mut kept = self.kept.borrow_mut();
        let at = Rc::as_ptr(watched);
        if let Some(known) = watched.pinned_until() {
            kept.remove(&(known, at));
        }
        watched.pin_until(Some(until));
        kept.insert((until, at), Rc::clone(watched));
    }

    /// Forgets directories that no client relies on any more; one in which clients have something open is
    /// kept. Gives those of these that are no longer where they were.
    pub(super) fn sweep(&self) -> Vec<Rc<WatchedDir>> {
        let mut kept = self.kept.borrow_mut();
        let left = kept.split_off(&(time::now(), std::ptr::null()));
        let over = std::mem::replace(&mut *kept, left);
        drop(kept);
        let has_opens =
            |watched: &Rc<WatchedDir>| watched.object().is_some_and(|object| !object.open_names().is_empty());
        for watched in over.values() {
            match watched.is_current() && has_opens(watched) {
                true => self.put(watched, time::now() + AHEAD),
                false => watched.pin_until(None),
            }
        }
        let is_elsewhere = |watched: &Rc<WatchedDir>| !watched.is_current() && has_opens(watched);
        let mut elsewhere = self.all();
        elsewhere.extend(over.into_values());
        elsewhere.retain(is_elsewhere);
        elsewhere
    }

    /// Returns the watches at and beneath a name that leads elsewhere by now, each with the time until which clients
    /// rely on it.
    pub(super) fn moved_from(&self, top: KeyRef<'_>) -> Vec<(Rc<WatchedDir>, Instant)> {
        let kept = self.kept.borrow();
        let moved = kept.iter().filter(|(_, watched)| !watched.is_current() && watched.key().is_within(top));
        moved.map(|((until, _), watched)| (Rc::clone(watched), *until)).collect()
    }

    /// Returns all pinned watches.
    pub(super) fn all(&self) -> Vec<Rc<WatchedDir>> {
        self.kept.borrow().values().cloned().collect()
    }

    /// Forgets them all.
    pub(super) fn clear(&self) {
        let all = self.kept.take();
        all.values().for_each(|watched| watched.pin_until(None));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.borrow().is_empty()
    }
}

/// Time that a directory is kept beyond the callback's end.
const AHEAD: Duration = Duration::from_secs(60);
