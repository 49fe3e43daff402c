//! Watches that rest. A directory that this server itself changes many times a second raises a notice of each
//! change on every lane that watches it, which costs the change a fifth of its time and tells nothing that
//! was not told before. Such a directory is left unwatched until the changes are fewer again, and then looked
//! at anew, as after lost events. What others change in it meanwhile is found as where there is no watch:
//! when the time to live is over, and by the look at the end of the rest where clients rely on something in
//! it, which ask nothing more.

use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use index::Version;
use lane::Task;
use lane::fs::unwatch;
use lane::time;

use super::key::Key;
use super::validity::Validity;
use super::watches::{WatchedDir, Watches};
use super::{Cache, Inner};
use crate::callback::ReplacedFile;
use crate::name::RelPath;
use crate::names::changes_between;
use crate::object::Object;
use crate::volume::Volume;

/// Rate at which this server has changed a directory lately, on whatever lane, by its version.
pub(super) struct ChangeRate {
    since: Cell<Instant>,
    /// Version at that time.
    from: Cell<Version>,
    is_suspended: Cell<bool>,
}

impl ChangeRate {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: Cell::new(now), from: Cell::new(Version::from(0)), is_suspended: Cell::new(false) }
    }

    /// Counts a change that has been made, or is about to be; returns whether the watch has to be suspended now.
    fn note(&self, now: Instant, version: Version) -> bool {
        let is_old = now.saturating_duration_since(self.since.get()) >= PERIOD;
        if !self.is_suspended.get() && (is_old || self.from.get().generation != version.generation) {
            self.begin(now, version);
        }
        !self.is_suspended.get() && self.is_much(version)
    }

    /// Returns whether the watch is suspended.
    pub(super) fn is_suspended(&self) -> bool {
        self.is_suspended.get()
    }

    /// Returns whether a rest is over: there were few changes in the last period.
    fn is_over(&self, now: Instant, version: Version) -> bool {
        if !self.is_suspended.get() || now.saturating_duration_since(self.since.get()) < PERIOD {
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
    /// Notes a change that this server makes in a directory. Returns whether its watch is suspended from now on.
    fn note_own_change(&self, watched: &Rc<WatchedDir>) -> bool {
        let (Some(watch), Some(version)) = (watched.watch(), watched.version()) else { return false };
        // A directory that is known by several paths has one watch for all of them, which goes on.
        if !watched.change_rate().note(time::now(), version) || !self.is_alone_in(watch, watched) {
            return false;
        }
        self.counters().watches_rested.increment();
        watched.change_rate().is_suspended.set(true);
        self.forget_watch_of(watch);
        unwatch(watch);
        true
    }

    /// Returns the known directory `key`; `None` where its suspension is over or nothing watches it: then it has to be
    /// looked at again.
    pub(super) fn current(&self, key: &Key) -> Option<Rc<WatchedDir>> {
        let known = self.known(key)?;
        if known.is_resumable(time::now()) || known.is_stale() || known.withholds_more_than(self.withheld()) {
            self.forget_subtree(known.key());
            return None;
        }
        Some(known)
    }
}

impl WatchedDir {
    /// Returns whether the suspension of the watch is over.
    fn is_resumable(&self, now: Instant) -> bool {
        self.version().is_some_and(|version| self.change_rate().is_over(now, version))
    }
}

/// Directories whose suspensions are over, and those whose are not.
type Suspensions = (Vec<Rc<WatchedDir>>, Vec<Rc<WatchedDir>>);

/// Directories whose watches are suspended, and the task that resumes them.
#[derive(Default)]
pub(super) struct SuspendedWatches {
    directories: Vec<Weak<WatchedDir>>,
    ending: Option<Task<()>>,
}

impl Inner {
    /// Notes a change that this server makes in a directory.
    pub(super) fn note_own_change(self: &Rc<Self>, watched: &Rc<WatchedDir>) {
        if !self.watches.note_own_change(watched) {
            return;
        }
        let mut suspended = self.suspended.borrow_mut();
        suspended.directories.push(Rc::downgrade(watched));
        if suspended.ending.as_ref().is_none_or(Task::is_finished) {
            suspended.ending = Some(lane::spawn(resume_suspended(Rc::downgrade(self))));
        }
    }

    /// Resumes directories whose suspension is over. Returns these and the others; `None` when none was
    /// suspended.
    fn rested(&self) -> Option<Suspensions> {
        let now = time::now();
        let mut suspended = self.suspended.borrow_mut();
        if suspended.directories.is_empty() {
            return None;
        }
        let (mut over, mut going_on) = (Vec::new(), Vec::new());
        suspended.directories.retain(|watched| {
            let Some(watched) = watched.upgrade() else { return false };
            // It may have been looked at anew meanwhile.
            let is_over = !watched.is_current() || watched.is_resumable(now);
            let to = if is_over { &mut over } else { &mut going_on };
            to.push(watched);
            !is_over
        });
        Some((over, going_on))
    }
}

/// Resumes suspended watches until none is left.
async fn resume_suspended(inner: Weak<Inner>) {
    loop {
        time::sleep(PERIOD).await;
        let Some((over, suspended)) = inner.upgrade().and_then(|inner| inner.rested()) else { return };
        for watched in suspended {
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
            let until = inner.watches.pinned_until(&watched).filter(|until| *until > time::now());
            let volume = inner.volume_of(watched.key());
            drop(inner);
            match (until, volume, watched.object()) {
                (Some(until), Some(volume), _) => drop(volume.resume_watch(watched.key().path, until).await),
                // It is found out at the next look otherwise.
                (None, Some(volume), Some(directory)) if directory.log().is_some() => {
                    let _ = volume.changed_unseen(directory, None).await;
                }
                _ => {}
            }
        }
    }
}

impl Cache {
    /// Pins the watch of a directory that is looked at again ([`Cache::pin_watch`]).
    pub(super) async fn pin_watch_again(
        &self,
        volume: &Volume,
        path: RelPath<'_>,
        until: Instant,
    ) -> Option<Validity> {
        for _ in 0..ATTEMPTS_MAX {
            let validity = self.validity(volume.root(), volume.key(path)).await;
            if let Some(watched) = validity.watched().filter(|watched| watched.is_current()) {
                self.pin_watch(watched, until);
                return Some(validity);
            }
            match validity.blocking_change() {
                Some(changing) => volume.wait_for(changing).await.ok()?,
                // Something above has changed meanwhile, and all beneath is looked at anew.
                None => lane::yield_now().await,
            }
        }
        None
    }

    /// The validity for a look at one name that is to be judged by where it is. A change above that is under way is waited for, as the look
    /// is not made again.
    pub(crate) async fn settled_validity_above(&self, volume: &Volume, path: RelPath<'_>) -> Validity {
        let validity = async || self.validity_above(volume.root(), volume.key(path)).await;
        let mut found = validity().await;
        for _ in 1..ATTEMPTS_MAX {
            if found.object().is_some() || path.is_root() {
                break;
            }
            match found.blocking_change() {
                Some(changing) if volume.wait_for(changing).await.is_err() => break,
                Some(_) => {}
                None => lane::yield_now().await,
            }
            found = validity().await;
        }
        found
    }
}

impl Volume {
    /// Resumes the watch of a directory, and revalidates what clients cache in it. Clients that cache the directory
    /// itself are notified that it may have changed. Returns the directory that is there.
    pub(super) async fn resume_watch(&self, path: RelPath<'_>, until: Instant) -> Option<Arc<Object>> {
        let validity = self.cache().pin_watch_again(self, path, until).await?;
        self.cache().revalidate_all_open_in(&validity);
        let (directory, peer) = validity.object().zip(self.cache().peer_rc())?;
        self.for_each_tracked_in(directory, async |given| {
            if let Some(path) = path.child(&given.at.name) {
                self.look_for(&given, path.as_path()).await;
            }
        })
        .await;
        if peer.callbacks.has_clients_of(directory) || directory.log().is_some() {
            // It is found out at the next look otherwise.
            let _ = self.changed_unseen(directory, validity.watched().map(|watched| &**watched)).await;
        }
        Some(Arc::clone(directory))
    }

    /// Looks at each object of a directory that clients of this lane rely on.
    pub(super) async fn for_each_tracked_in(
        &self,
        directory: &Arc<Object>,
        look: impl AsyncFn(ReplacedFile),
    ) {
        let Some(peer) = self.cache().peer_rc() else { return };
        let mut from = Some(0);
        while let Some(next) = from {
            let (given, rest) = peer.callbacks.select(next, LOOKED_AT_ONCE, |object, _| {
                let at = object.placed_in(directory)?;
                Some(ReplacedFile { object: Arc::clone(object), at })
            });
            for given in given {
                look(given).await;
            }
            lane::yield_now().await;
            from = rest;
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
/// Number of looks at a directory that is being moved.
const ATTEMPTS_MAX: u32 = 8;
/// Callbacks looked through before other tasks of the lane run.
const LOOKED_AT_ONCE: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_rests_for_as_long_as_changes_are_many() {
        let start = Instant::now();
        let rate = ChangeRate::new(start);
        let version = |count: u64| Version::from(7 << 32 | count);
        // Ten changes in each period, then a hundred in one.
        let at = |periods| start + PERIOD * periods;
        assert!((0..20).all(|n| !rate.note(at(n), version(10 * u64::from(n)))));
        assert!(!rate.note(at(19), version(190 + CHANGES_MAX)));
        assert!(rate.note(at(19), version(191 + CHANGES_MAX)));
        rate.is_suspended.set(true);
        assert!(!rate.note(at(19), version(1000)), "it rests already");
        let is_over = |periods, count| rate.is_over(at(periods), version(count));
        assert!(!is_over(19, 1000), "not before a period has passed");
        assert!(!is_over(20, 1000), "there were many in the one before");
        assert!(!is_over(21, 1001 + CHANGES_MAX), "and in this");
        assert!(is_over(22, 1002 + CHANGES_MAX));
    }

    #[test]
    fn an_opening_that_begins_another_generation_is_no_storm() {
        let start = Instant::now();
        let rate = ChangeRate::new(start);
        assert!(!rate.note(start, Version { generation: 7, count: 3 }));
        assert!(!rate.note(start, Version { generation: 9, count: 0 }));
    }
}
