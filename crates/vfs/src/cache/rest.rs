//! Watches that rest. A directory that this server itself changes many times a second raises a notice of each change on every
//! lane that watches it, which costs the change a fifth of its time and tells nothing that was not told before. Such a
//! directory is left unwatched until the changes are fewer again, and then looked at anew, as after lost events. What others
//! change in it meanwhile is found as where there is no watch: when the time to live is over, and by the look at the end of the rest where
//! clients rely on something in it, who ask nothing more.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use index::Version;
use lane::Task;
use lane::fs::unwatch;
use lane::time;

use super::key::Key;
use super::vantage::Vantage;
use super::watches::{WatchedDir, Watches};
use super::{Cache, Inner};
use crate::name::RelPath;
use crate::names::changes_between;
use crate::volume::Volume;

/// How often this server has changed a directory lately, on whatever lane: its version says so.
pub(super) struct Told {
    since: Cell<Instant>,
    /// What the version was then.
    from: Cell<Version>,
    rests: Cell<bool>,
}

impl Told {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: Cell::new(now), from: Cell::new(Version::from(0)), rests: Cell::new(false) }
    }

    /// A change has been made, or is about to be; says whether the watch has to rest now.
    fn note(&self, now: Instant, version: Version) -> bool {
        let is_old = now.saturating_duration_since(self.since.get()) >= PERIOD;
        if !self.rests.get() && (is_old || self.from.get().generation != version.generation) {
            self.begin(now, version);
        }
        !self.rests.get() && self.is_much(version)
    }

    /// Whether the watch rests.
    pub(super) fn rests(&self) -> bool {
        self.rests.get()
    }

    /// Whether a rest is over: there were few changes in the last period.
    fn is_over(&self, now: Instant, version: Version) -> bool {
        if !self.rests.get() || now.saturating_duration_since(self.since.get()) < PERIOD {
            return false;
        }
        let is_over = !self.is_much(version);
        self.begin(now, version);
        is_over
    }

    fn is_much(&self, version: Version) -> bool {
        changes_between(self.from.get(), version) > CHANGES_MAX
    }

    fn begin(&self, now: Instant, version: Version) {
        self.since.set(now);
        self.from.set(version);
    }
}

impl Watches {
    /// This server changes something in a directory, or it is told that something has changed. Says whether its watch rests from now on.
    fn note_told(&self, watched: &Rc<WatchedDir>) -> bool {
        let (Some(watch), Some(version)) = (watched.watch(), watched.version()) else { return false };
        // A directory that is known by several paths has one watch for all of them, which goes on.
        if !watched.told().note(time::now(), version) || !self.is_alone_in(watch, watched) {
            return false;
        }
        self.counters().watches_rested.increment();
        watched.told().rests.set(true);
        self.forget_watch_of(watch);
        unwatch(watch);
        true
    }

    /// A directory on the books, but for one that has rested, or that nothing tells of: it has to be looked at anew.
    pub(super) fn relied_on(&self, key: &Key) -> Option<Rc<WatchedDir>> {
        let known = self.known(key)?;
        if known.has_rested(time::now()) || known.is_stale() || known.withholds_more_than(self.withheld()) {
            self.forget_subtree(known.key());
            return None;
        }
        Some(known)
    }
}

impl WatchedDir {
    /// Whether its rest is over.
    fn has_rested(&self, now: Instant) -> bool {
        self.version().is_some_and(|version| self.told().is_over(now, version))
    }
}

/// Directories whose rests are over, and those whose are not.
type Rested = (Vec<Rc<WatchedDir>>, Vec<Rc<WatchedDir>>);

/// Directories whose watches rest, and who ends that.
#[derive(Default)]
pub(super) struct Resting {
    directories: Vec<Weak<WatchedDir>>,
    ending: Option<Task<()>>,
}

impl Inner {
    /// This server changes something in a directory, or it is told that something has changed.
    pub(super) fn note_told(self: &Rc<Self>, watched: &Rc<WatchedDir>) {
        if !self.watches.note_told(watched) {
            return;
        }
        let mut resting = self.resting.borrow_mut();
        resting.directories.push(Rc::downgrade(watched));
        if resting.ending.as_ref().is_none_or(Task::is_finished) {
            resting.ending = Some(lane::spawn(end_rests(Rc::downgrade(self))));
        }
    }

    /// Rests that are over, and those that are not; `None` when nobody rests any more.
    fn rested(&self) -> Option<Rested> {
        let now = time::now();
        let mut resting = self.resting.borrow_mut();
        if resting.directories.is_empty() {
            return None;
        }
        let (mut over, mut going_on) = (Vec::new(), Vec::new());
        resting.directories.retain(|watched| {
            let Some(watched) = watched.upgrade() else { return false };
            // Somebody may have looked at it anew meanwhile.
            let is_over = !watched.is_current() || watched.has_rested(now);
            let to = if is_over { &mut over } else { &mut going_on };
            to.push(watched);
            !is_over
        });
        Some((over, going_on))
    }
}

/// Ends rests, until nobody rests.
async fn end_rests(inner: Weak<Inner>) {
    loop {
        time::sleep(PERIOD).await;
        let Some((over, resting)) = inner.upgrade().and_then(|inner| inner.rested()) else { return };
        for watched in resting {
            let volume = inner.upgrade().and_then(|inner| inner.volume_of(watched.key()));
            let Some(volume) = volume else { continue };
            // Rights that cannot be looked at are none.
            if watched.has_other_rights(volume.root()).await.unwrap_or(true)
                && let Some(inner) = inner.upgrade()
            {
                inner.forget_at(watched.key());
            }
        }
        for watched in over {
            let Some(inner) = inner.upgrade() else { return };
            if watched.is_current() {
                inner.watches.forget_subtree(watched.key());
            }
            let until = inner.watches.relied_on_until(&watched).filter(|until| *until > time::now());
            let volume = inner.volume_of(watched.key());
            drop(inner);
            match (until, volume, watched.object()) {
                (Some(until), Some(volume), _) => volume.watch_anew(watched.key().path, until).await,
                // It is found out at the next look of somebody otherwise.
                (None, Some(volume), Some(directory)) if directory.log().is_some() => {
                    let _ = volume.changed_unseen(directory, None).await;
                }
                _ => {}
            }
        }
    }
}

impl Cache {
    /// As [`Cache::rely_on`], of a directory that is looked at anew.
    async fn rely_on_anew(&self, volume: &Volume, path: RelPath<'_>, until: Instant) -> Option<Vantage> {
        for _ in 0..ATTEMPTS_MAX {
            let vantage = self.vantage(volume.root(), volume.key(path)).await;
            if let Some(watched) = vantage.watched().filter(|watched| watched.is_current()) {
                self.rely_on(watched, until);
                return Some(vantage);
            }
            volume.wait_for(vantage.hindrance()?).await.ok()?;
        }
        None
    }
}

impl Volume {
    /// Watches a directory again that has rested, and looks what clients who rely on it, or on something in it, have missed meanwhile. Of
    /// the directory itself nobody knows: they are told.
    async fn watch_anew(&self, path: RelPath<'_>, until: Instant) {
        let Some(vantage) = self.cache().rely_on_anew(self, path, until).await else { return };
        self.cache().doubt_all_open_in(&vantage);
        let (Some(directory), Some(peer)) = (vantage.object(), self.cache().peer_rc()) else { return };
        let mut from = Some(0);
        while let Some(next) = from {
            let (given, rest) = peer.callbacks.tracked_in(directory, next, LOOKED_AT_ONCE);
            for given in given {
                if let Some(path) = path.child(&given.at.name) {
                    self.look_for(&given, path.as_path()).await;
                }
            }
            lane::yield_now().await;
            from = rest;
        }
        if peer.callbacks.has_clients_of(directory) || directory.log().is_some() {
            // It is found out at the next look of somebody otherwise.
            let _ = self.changed_unseen(directory, vantage.watched().map(|watched| &**watched)).await;
        }
    }
}

//@ limit: notices of this server's own changes in a directory
//@ section: Files and listings
//@ unit: change
//@ all: lane: {} in {PERIOD}
//@ empty: the directory's watch rests until there are fewer; others hear of other programs' changes at its end
//@ counter: vfs_watches_rested
//@ attack: http-edges
/// Changes of a directory in one period beyond which its watch rests.
const CHANGES_MAX: u64 = 64;
const PERIOD: Duration = Duration::from_secs(1);
/// Looks at a directory that is on the move.
const ATTEMPTS_MAX: u32 = 8;
/// Promises looked through in one turn of the lane.
const LOOKED_AT_ONCE: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_rests_for_as_long_as_changes_are_many() {
        let start = Instant::now();
        let told = Told::new(start);
        let version = |count: u64| Version::from(7 << 32 | count);
        // Ten changes in each period, then a hundred in one.
        let at = |periods| start + PERIOD * periods;
        assert!((0..20).all(|n| !told.note(at(n), version(10 * u64::from(n)))));
        assert!(!told.note(at(19), version(190 + CHANGES_MAX)));
        assert!(told.note(at(19), version(191 + CHANGES_MAX)));
        told.rests.set(true);
        assert!(!told.note(at(19), version(1000)), "it rests already");
        let is_over = |periods, count| told.is_over(at(periods), version(count));
        assert!(!is_over(19, 1000), "not before a period has passed");
        assert!(!is_over(20, 1000), "there were many in the one before");
        assert!(!is_over(21, 1001 + CHANGES_MAX), "and in this");
        assert!(is_over(22, 1002 + CHANGES_MAX));
    }

    #[test]
    fn an_opening_that_begins_another_generation_is_no_storm() {
        let start = Instant::now();
        let told = Told::new(start);
        assert!(!told.note(start, Version { generation: 7, count: 3 }));
        assert!(!told.note(start, Version { generation: 9, count: 0 }));
    }
}
