//! Transaction of a change: change locks, lease breaks, invalidation, the change itself, commit.
//!
//! Each step consumes the one before, so that none is left out or done twice:
//!
//! ```text
//! LocatedDirectory -> ChangeLockSet -> LeasesBroken -> ChangeTransaction<Invalidated>
//!     -> ChangeTransaction<Versioned> -> ChangeTransaction<Committed>
//! ```
//!
//! A transaction that is dropped before it is committed gives its locks back, and how its objects look is not known.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use coherence::{ChangeKind, Closed, GateRefusal, LockSharer};
use index::{Kind, Version};

use lane::fs::Stat;

use super::lease_breaks::{DirectoryLeaseBreak, directory_breaks};
use super::located_directory::{Interrupted, LocatedDirectory};
use super::name_edits::NameEdits;
use super::name_target::NameTarget;
use super::notify_watches;
use crate::attributes::Attributes;
use crate::callback::Invalidation;
use crate::caller::Caller;
use crate::error::Error;
use crate::grant::Link;
use crate::name::{Name, RelPath};
use crate::object::{ChangeLockSet, GatePass, Object, SharedChangeLock};
use crate::usage::{LaneAccount, UncertainChange};
use crate::volume::Volume;

/// A change at one step. Its objects are locked, and every lane and client that cached them was notified.
pub(super) struct ChangeTransaction<Step> {
    guard: Rc<ChangeGuard>,
    /// Directories that show something else when it is made.
    directory_breaks: Vec<DirectoryLeaseBreak>,
    /// The versions that directories had, in the order in which they are among the broken: a change concerns two at
    /// most.
    before: Cell<[Option<Version>; 2]>,
    /// Names that come and go in directories of which an image is kept.
    pub(super) edited: RefCell<Vec<NameEdits>>,
    step: PhantomData<Step>,
}

/// Step of a change that is ready to be made.
pub(super) struct Invalidated;

/// Step of a change whose objects have the versions that it brings: it is made now.
pub(super) struct Versioned;

/// Step of a change that was made.
pub(super) struct Committed;

/// A change whose objects are locked, and to which no lease is opposed.
struct LeasesBroken<'a> {
    caller: &'a Caller,
    locks: ChangeLockSet,
    what: Vec<(&'a Arc<Object>, ChangeKind)>,
    directory_breaks: Vec<DirectoryLeaseBreak>,
}

/// Values that the kernel operations of a change keep alive, for [`run_to_completion`].
pub(super) struct ChangeKeepAlive {
    guard: Rc<dyn Any>,
    account: Option<Rc<LaneAccount>>,
}

/// Attributes of an object after the change, by this server's clock or by another.
struct AttributesAfter {
    object: Arc<Object>,
    looks: Attributes,
    by_any_clock: bool,
}

/// Values that a change owns until it has ended and the kernel has answered all its operations, whatever
/// became of the change and of its lane.
struct ChangeGuard {
    /// Account of the volume's usage.
    account: Option<Rc<LaneAccount>>,
    invalidations: Vec<Invalidation>,
    /// Attributes after the change, of files that no lane has open.
    attributes_after: RefCell<Vec<AttributesAfter>>,
    locks: RefCell<Option<ChangeLockSet>>,
}

impl Volume {
    /// Lets a change into the volume; waits while that is paused, and at a start until clients of an earlier run were
    /// notified.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::ReadOnly`]; [`Error::Busy`] when the pause does not end.
    pub(super) async fn pass(&self) -> Result<GatePass, Error> {
        let (shared, peer) = self.shared().zip(self.cache().peer()).ok_or(Error::ReadOnly)?;
        for _ in 0..PAUSES_MAX {
            match shared.pass(peer.member()) {
                Ok(pass) => return Ok(pass),
                Err(GateRefusal::Closed(Closed::Frozen)) if shared.is_held_back() => {
                    self.counters().changes_held_back.increment();
                    let thawed = lane::time::timeout(HELD_BACK_MAX, shared.thawed()).await;
                    thawed.map_err(|_| Closed::Frozen)?;
                }
                Err(GateRefusal::Closed(why)) => return Err(why.into()),
                Err(GateRefusal::Paused) => lane::time::sleep(PAUSE).await,
            }
        }
        Err(Error::Busy)
    }

    /// Changes that may wait for one object.
    pub(crate) fn waiting_max(&self) -> Result<usize, Error> {
        Ok(self.shared().ok_or(Error::ReadOnly)?.objects().options().waiting_max)
    }

    /// Checks whether clients may change anything.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub(super) fn writable(&self) -> Result<(), Error> {
        let is_in_order = self.shared().is_some_and(|shared| shared.trouble().is_none());
        if is_in_order && self.is_writable() { Ok(()) } else { Err(Error::ReadOnly) }
    }

    /// Checks that the volume is writable ([`Volume::writable`]), and waits until the index takes what comes
    /// of a change.
    ///
    /// # Errors
    /// [`Error::Busy`] when the index cannot be written.
    pub(super) async fn changeable(&self) -> Result<(), Error> {
        self.writable()?;
        self.uncrowded().await
    }

    /// Waits until the index takes what comes of a change.
    async fn uncrowded(&self) -> Result<(), Error> {
        let shared = self.shared().ok_or(Error::ReadOnly)?;
        let mut attempt = 0;
        while shared.is_crowded() {
            if attempt == CROWDED_MAX {
                return Err(Error::Busy);
            }
            shared.make_room(self.root().dir(), attempt).await?;
            attempt += 1;
        }
        Ok(())
    }

    /// Locks `first`, then has `names` look what else the change concerns and locks that too. It does so without
    /// waiting where that is free, else by releasing all locks and beginning again with all objects in order.
    ///
    /// # Errors
    /// Those of `names`; [`Error::Closed`]; [`Error::Unsettled`] after eight attempts; [`Error::Busy`] behind too many
    /// others.
    pub(super) async fn lock_objects<T>(
        &self,
        first: &[&Arc<Object>],
        names: impl AsyncFn() -> Result<(T, Vec<Arc<Object>>), Error>,
    ) -> Result<(ChangeLockSet, T), Error> {
        self.changeable().await?;
        let pass = self.pass().await?;
        let (locks, found) = self.lock_outside_gate(first, names).await?;
        Ok((locks.inside(pass), found))
    }

    /// Waits until no change of the object is under way: takes its change lock and releases it.
    ///
    /// # Errors
    /// As [`Volume::lock_objects`].
    pub(crate) async fn wait_for_change_lock(&self, object: &Arc<Object>) -> Result<(), Error> {
        let (locks, ()) = self.lock_objects(&[object], async || Ok(((), Vec::new()))).await?;
        drop(locks);
        Ok(())
    }

    /// Locks an object ([`Volume::lock_objects`]) for a change that another program has made: no gate keeps
    /// it out, and it happens on read-only volumes too.
    ///
    /// # Errors
    /// As there, but for [`Error::Closed`].
    pub(super) async fn lock_for_external(&self, object: &Arc<Object>) -> Result<ChangeLockSet, Error> {
        self.uncrowded().await?;
        Ok(self.lock_outside_gate(&[object], async || Ok(((), Vec::new()))).await?.0)
    }

    async fn lock_outside_gate<T>(
        &self,
        first: &[&Arc<Object>],
        names: impl AsyncFn() -> Result<(T, Vec<Arc<Object>>), Error>,
    ) -> Result<(ChangeLockSet, T), Error> {
        let waiting_max = self.waiting_max()?;
        let first = || first.iter().map(|&object| Arc::clone(object));
        let mut wanted: Vec<_> = first().collect();
        for _ in 0..ATTEMPTS_MAX {
            let mut locks = ChangeLockSet::take(wanted, waiting_max).await?;
            let (found, concerned) = names().await?;
            if locks.try_add(&concerned) {
                return Ok((locks, found));
            }
            self.counters().changes_anew.increment();
            drop(locks);
            wanted = first().chain(concerned).collect();
        }
        Err(self.unsettled(RelPath::ROOT, "locking what a change concerns"))
    }

    /// Locks a directory, so that its names do not change while they are counted.
    pub(crate) async fn lock_to_count(&self, directory: &Arc<Object>) -> Result<ChangeLockSet, Error> {
        Ok(self.lock_objects(&[directory], async || Ok(((), Vec::new()))).await?.0)
    }

    /// Invalidates what is about to change on every lane, breaks leases and callbacks, and waits for that. The caller
    /// has locked the objects.
    ///
    /// # Errors
    /// [`Interrupted::AwaitLease`] where holders of leases have to give something back first, the locks having been
    /// released; [`Error::Locked`] where a share mode is in the way.
    pub(super) async fn prepare_change(
        &self,
        caller: &Caller,
        locks: ChangeLockSet,
        what: Vec<(&Arc<Object>, ChangeKind)>,
    ) -> Result<ChangeTransaction<Invalidated>, Interrupted> {
        Ok(LeasesBroken::new(self, caller, locks, what)?.invalidate(self).await)
    }
}

impl<'a> LeasesBroken<'a> {
    /// Breaks the leases that the change is opposed by.
    ///
    /// # Errors
    /// As [`Volume::prepare_change`].
    fn new(
        volume: &Volume,
        caller: &'a Caller,
        locks: ChangeLockSet,
        what: Vec<(&'a Arc<Object>, ChangeKind)>,
    ) -> Result<Self, Interrupted> {
        volume.break_leases(caller, &what)?;
        let directory_breaks = directory_breaks(&what, caller);
        Ok(Self { caller, locks, what, directory_breaks })
    }

    /// Invalidates the objects on every lane, breaks callbacks, and waits for that.
    async fn invalidate(self, volume: &Volume) -> ChangeTransaction<Invalidated> {
        let Self { caller, locks, what, directory_breaks } = self;
        assert!(!what.is_empty(), "a change changes something");
        let spared = caller.holder;
        let invalidation = what.into_iter().map(|(object, what)| {
            debug_assert!(locks.has(object), "what changes is locked");
            debug_assert!(object.is_busy(), "an object changes under its change lock");
            // Before the bits are read: a lane that sets its bit too late to be asked sees it.
            object.set_changing(what.clone());
            if what == ChangeKind::Subtree {
                // Before the kernel tells any lane of the move.
                object.note_moving(lane::time::now());
            }
            Invalidation { object: Arc::clone(object), what, spared }
        });
        let (account, invalidations) = (volume.account(), invalidation.collect());
        let guard = ChangeGuard {
            account,
            invalidations,
            attributes_after: RefCell::default(),
            locks: RefCell::new(None),
        };
        guard.locks.replace(Some(locks));
        volume.cache().invalidate_everywhere(&guard.invalidations).await;
        for invalidation in &guard.invalidations {
            invalidation.object.grants().all_breaks_sent().await;
        }
        let (before, edited) = (Cell::default(), RefCell::default());
        ChangeTransaction { guard: Rc::new(guard), directory_breaks, before, edited, step: PhantomData }
    }
}

impl ChangeTransaction<Invalidated> {
    /// Gives each object whose content or names change its next version.
    pub(super) fn bump_version(self) -> ChangeTransaction<Versioned> {
        let mut known = [None; 2];
        let mut next = known.iter_mut();
        for invalidation in &self.guard.invalidations {
            if invalidation.what.is_of_place() || invalidation.what == ChangeKind::Attributes {
                continue;
            }
            let before = invalidation.object.version();
            let after = invalidation.object.bump_version();
            debug_assert!(after > before, "clients hear of a version above the one that they have");
            if let (ChangeKind::Names(_), Some(next)) = (&invalidation.what, next.next()) {
                *next = Some(before);
            }
            let log = invalidation.object.log();
            let is_kept = log.is_some() || invalidation.object.volume().watches().any();
            if matches!(invalidation.what, ChangeKind::Names(_)) && is_kept {
                self.edited.borrow_mut().push(NameEdits::new(&invalidation.object, log, before, after));
            }
        }
        self.before.set(known);
        self.next()
    }

    /// Gives the directory that is read again its next version. No name comes or goes: watches report nothing, and
    /// images of the version before lead no further.
    pub(super) fn bump_version_on_reread(self) -> ChangeTransaction<Versioned> {
        for invalidation in &self.guard.invalidations {
            invalidation.object.bump_version_on_reread();
        }
        self.next()
    }

    /// Leaves all objects the versions that they have: neither content nor names change.
    pub(super) fn keep_versions(self) -> ChangeTransaction<Versioned> {
        self.next()
    }

    /// Breaks no directory lease: only the link count of a file changes, which directory leases do not cover, as with
    /// Windows and Samba.
    pub(super) fn without_directory_breaks(self) -> Self {
        Self { directory_breaks: Vec::new(), ..self }
    }

    /// Returns whether the change breaks no directory lease.
    pub(super) fn breaks_no_directory_lease(&self) -> bool {
        self.directory_breaks.is_empty()
    }

    /// Shares the change lock of the one file that is to be written with further writes of the same.
    pub(super) fn share(self, sharer: LockSharer) -> SharedChangeLock {
        self.guard.end(None).expect("it has not ended").share(sharer)
    }
}

impl ChangeTransaction<Versioned> {
    /// Judges the kernel's result of the change. Where that has done nothing, the directories have the versions that
    /// they had. Under the change locks no client was given others, and a client that gets a version one higher by its
    /// next change relies on having seen every one.
    pub(super) fn done<T>(self, done: io::Result<T>) -> Result<(ChangeTransaction<Committed>, T), Error> {
        if done.as_ref().is_err_and(has_done_nothing) {
            let names = self
                .guard
                .invalidations
                .iter()
                .filter(|invalidation| matches!(invalidation.what, ChangeKind::Names(_)));
            for (invalidation, before) in names.zip(self.before.get()) {
                debug_assert!(invalidation.object.is_busy(), "a version is taken back under the change lock");
                before.into_iter().for_each(|before| invalidation.object.revert_version(before));
            }
            let is_aside = |invalidation: &&Invalidation| {
                matches!(invalidation.what, ChangeKind::Place | ChangeKind::Gone)
            };
            let files =
                self.guard.invalidations.iter().filter(is_aside).map(|invalidation| &invalidation.object);
            files
                .filter(|object| object.number().kind() == Kind::File)
                .for_each(|object| object.cancel_metadata_change());
        }
        done.map(|value| (self.next(), value)).map_err(Error::of_change)
    }

    /// Commits a change whose result the caller has judged.
    pub(super) fn committed(self) -> ChangeTransaction<Committed> {
        self.next()
    }
}

impl ChangeTransaction<Committed> {
    /// Ends the change: the change locks go to the changes that wait next. What the caller keeps in this
    /// very step is kept under them, as the next change has to ask this lane first.
    pub(super) fn end(self, volume: &Volume) {
        debug_assert!(self.guard.locks.borrow().is_some(), "a change ends under its locks, once");
        volume.counters().changes.increment();
        self.guard.end_deletions();
        self.guard.note_moves();
        let edited = self.edited.take();
        if let Some(watches) = volume.shared().map(|shared| shared.watches()).filter(|watches| watches.any())
        {
            notify_watches::report(watches, &self.guard.invalidations, &edited);
        }
        edited.into_iter().for_each(NameEdits::note);
        self.guard.give_back(Some(lane::time::wall_clock()));
        self.directory_breaks.iter().for_each(|directory_breaks| {
            volume.break_directory_lease(&directory_breaks.directory, directory_breaks.by)
        });
    }

    /// Notes the attributes of an object right after the change, under its change lock.
    pub(super) fn note_attributes_after(&self, object: &Arc<Object>, looks: io::Result<Stat>) {
        if let Ok(looks) = looks {
            self.push_attributes_after(object, looks.into(), false);
        }
    }

    /// Notes attributes ([`ChangeTransaction::note_attributes_after`]) after a change of another program,
    /// perhaps by a clock that is ahead of this one.
    pub(super) fn note_found_attributes(&self, object: &Arc<Object>, looks: Attributes) {
        self.push_attributes_after(object, looks, true);
    }

    fn push_attributes_after(&self, object: &Arc<Object>, looks: Attributes, by_any_clock: bool) {
        self.guard.attributes_after.borrow_mut().push(AttributesAfter {
            object: Arc::clone(object),
            looks,
            by_any_clock,
        });
    }
}

impl<Step> ChangeTransaction<Step> {
    /// Returns what the operations of the change keep alive until the kernel has answered them.
    pub(super) fn keep_alive(&self) -> ChangeKeepAlive {
        ChangeKeepAlive { guard: Rc::clone(&self.guard) as Rc<dyn Any>, account: self.guard.account.clone() }
    }

    fn next<Next>(self) -> ChangeTransaction<Next> {
        let Self { guard, directory_breaks, before, edited, step: _ } = self;
        ChangeTransaction { guard, directory_breaks, before, edited, step: PhantomData }
    }
}

impl ChangeKeepAlive {
    /// Makes the values that the operations of a write under a shared change lock keep alive.
    pub(super) fn shared(part: Rc<SharedChangeLock>, volume: &Volume) -> Self {
        Self { guard: part, account: volume.account() }
    }

    /// Makes the keep-alive of nothing, for what is made beside the tree.
    pub(super) fn nothing() -> Self {
        Self { guard: Rc::new(()), account: None }
    }
}

impl ChangeGuard {
    /// Ends the deletions of names that are gone.
    fn end_deletions(&self) {
        for gone in self.invalidations.iter().filter(|invalidation| invalidation.what == ChangeKind::Gone) {
            gone.object.grants().ask_if_any(|grants, events| {
                for directory in &self.invalidations {
                    let ChangeKind::Names(names) = &directory.what else { continue };
                    let link = |name| Link::new(&directory.object, name, &gone.object);
                    names.iter().for_each(|name| grants.deleted(&link(name), events));
                }
            });
        }
    }

    /// Notes places for the index to record.
    fn note_moves(&self) {
        let moved = |invalidation: &&Invalidation| {
            matches!(invalidation.what, ChangeKind::Place | ChangeKind::Subtree)
        };
        self.invalidations.iter().filter(moved).for_each(|invalidation| invalidation.object.note_moved());
    }

    /// Releases the change, which was made `at` this time, or failed.
    fn give_back(&self, made: Option<SystemTime>) {
        drop(self.end(made));
    }

    /// Returns the locks, under which nothing is invalidated any more.
    fn end(&self, made: Option<SystemTime>) -> Option<ChangeLockSet> {
        let locks = self.locks.take()?;
        debug_assert!(
            self.invalidations.iter().all(|one| one.object.is_busy()),
            "a change ends under its locks"
        );
        debug_assert!(self.invalidations.iter().all(|invalidation| locks.has(&invalidation.object)));
        self.invalidations.iter().for_each(|invalidation| invalidation.object.set_changed(made));
        for AttributesAfter { object, looks, by_any_clock } in self.attributes_after.take() {
            if made.is_some() {
                object.note_attributes_after(&looks, by_any_clock);
            }
        }
        Some(locks)
    }
}

impl Drop for ChangeGuard {
    fn drop(&mut self) {
        self.give_back(None);
    }
}

impl LocatedDirectory {
    /// Locks this directory and what `name` in it leads to ([`Volume::lock_objects`]).
    pub(super) async fn lock_with_name(
        &self,
        name: Name<'_>,
    ) -> Result<(ChangeLockSet, Option<NameTarget>), Error> {
        let names = async || {
            let found = self.find(name).await?;
            let concerned = found.iter().map(|found| Arc::clone(&found.object)).collect();
            Ok((found, concerned))
        };
        self.volume().lock_objects(&[self.object()?], names).await
    }

    /// Prepares a change of one name in this directory ([`Volume::prepare_change`]).
    pub(super) async fn prepare_name_change(
        &self,
        caller: &Caller,
        locks: ChangeLockSet,
        name: Name<'_>,
    ) -> Result<ChangeTransaction<Invalidated>, Interrupted> {
        let what = vec![(self.object()?, ChangeKind::name(name.as_bytes()))];
        self.volume().prepare_change(caller, locks, what).await
    }

    /// Locks this directory alone ([`Volume::lock_objects`]).
    pub(super) async fn lock_directory(&self) -> Result<ChangeLockSet, Error> {
        Ok(self.volume().lock_objects(&[self.object()?], async || Ok(((), Vec::new()))).await?.0)
    }
}

/// Runs `work` to completion on this lane, also when the returned future is dropped: `work` owns change locks, and
/// the kernel may be at work under them. Where the lane ends before, `keep_alive` stays alive until the kernel has
/// answered ([`ChangeTransaction::keep_alive`]).
///
/// The usage count has to begin anew then.
pub(super) async fn run_to_completion<T: 'static>(
    keep_alive: ChangeKeepAlive,
    work: impl Future<Output = T> + 'static,
) -> T {
    let ChangeKeepAlive { guard, account } = keep_alive;
    let work = async move {
        let doubt = UncertainChange::of(account);
        let done = work.await;
        doubt.over();
        done
    };
    lane::run_to_completion(lane::with_keepalive(guard, work)).await
}

/// Returns whether the kernel has refused a change of names for what it found, before it did anything.
fn has_done_nothing(error: &io::Error) -> bool {
    let refusals = [
        libc::EEXIST,
        libc::ENOTEMPTY,
        libc::ENOENT,
        libc::EISDIR,
        libc::ENOTDIR,
        libc::EPERM,
        libc::EACCES,
        libc::EXDEV,
        libc::EINVAL,
        libc::EMLINK,
        libc::EBUSY,
        libc::EROFS,
        libc::ENAMETOOLONG,
    ];
    error.raw_os_error().is_some_and(|code| refusals.contains(&code))
}

//@ limit: attempts of a change whose names lead elsewhere by its turn
//@ section: Writable volumes
//@ unit: attempt
//@ connection: {} of each change
//@ empty: refused as unsettled; others feel nothing
//@ counter: vfs_changes_anew
//@ attack: http-edges
const ATTEMPTS_MAX: u32 = 8;
/// Commits that a change waits for.
const CROWDED_MAX: u32 = 8;
/// Time between two tries to enter a volume that is paused; longer than the pause may take.
const PAUSE: Duration = Duration::from_millis(2);
const PAUSES_MAX: u32 = 6_000;
//@ limit: changes that wait at a start for clients of an earlier run
//@ section: Writable volumes
//@ unit: time
//@ all: process: {}
//@ empty: refused as closed (503 over HTTP); others wait as well
//@ counter: vfs_changes_held_back, vfs_refused{reason="closed"}
//@ attack: none, only a start causes it
//@ reach: server
/// Time for which a change waits at a start: clients have four seconds, and some of them one after another.
const HELD_BACK_MAX: Duration = Duration::from_secs(12);
