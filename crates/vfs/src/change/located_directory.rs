//! Location of a directory and the caller's rights there, and retries until both hold for as long as a change takes.

use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;

use coherence::{CachedObject, ChangeKind, PresenceToken};
use identity::Rights;
use lane::fs::FileKind;

use super::lease_breaks::{LeaseBreakWait, PendingLeaseBreak};
use super::name_target::{NameTarget, c_name};
use super::transaction::{ChangeTransaction, Committed, run_to_completion};
use crate::access::require;
use crate::cache::{CoherencePeer, Node, Validity, WatchedDir};
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{Name, RelPath, RelPathBuf};
use crate::object::{ChangeLockSet, Object, Place, path_beneath};
use crate::object_attributes::attributes_of;
use crate::volume::Volume;

/// A directory at its present path, as this lane caches it, with the rights there.
pub(super) struct LocatedDirectory {
    directory: Directory,
    path: RelPathBuf,
    validity: Validity,
}

/// Reason why one attempt at a change did not complete.
pub(super) enum Interrupted {
    /// Something moves or has moved: to be waited for, if it is known.
    Retry(Option<Arc<Object>>),
    /// Holders of leases have to give something back first.
    AwaitLease(Vec<PendingLeaseBreak>),
    Refused(Error),
}

impl Directory {
    /// Returns the directory's object; a directory of a volume without objects has none.
    pub(super) fn changed(&self) -> Result<&Arc<Object>, Error> {
        self.object().ok_or(Error::ReadOnly)
    }

    /// Finds the present path of the directory, to change something in it. From here on the lane is a sharer of it,
    /// so that it may cache what it makes there.
    pub(super) async fn locate(&self) -> Result<LocatedDirectory, Interrupted> {
        self.volume().writable()?;
        let here = self.locate_to_read().await?;
        here.validate().await?;
        Ok(here)
    }

    /// Locates the directory, to change nothing ([`Directory::locate`]).
    pub(super) async fn locate_to_read(&self) -> Result<LocatedDirectory, Interrupted> {
        let (volume, object) = (self.volume(), self.changed()?);
        let path = volume.path_of(object).ok_or(Error::Stale)?;
        let validity = volume.cache().validity(volume.root(), volume.key(path.as_path())).await;
        if validity.object().is_some_and(|found| Arc::ptr_eq(found, object)) {
            volume.cache().keep_changed(volume.key(path.as_path()), &validity);
            return Ok(LocatedDirectory { directory: self.clone(), path, validity });
        }
        if self.attributes()?.nlink == 0 {
            return Err(Error::Stale.into());
        }
        let blocking_change = validity.blocking_change().cloned();
        if blocking_change.is_none() {
            // No change of ours moves it: another program has.
            self.find_moved().await?;
        }
        Err(Interrupted::Retry(blocking_change))
    }

    /// Locates the directory for a caller that changes the name `name` and needs these rights
    /// ([`Directory::locate`]).
    pub(super) async fn locate_for(
        &self,
        caller: &Caller,
        name: Name<'_>,
        need: Rights,
    ) -> Result<LocatedDirectory, Interrupted> {
        if name.is_reserved() {
            return Err(Error::Reserved.into());
        }
        let here = self.locate().await?;
        if here.watched().is_some_and(|watched| watched.withholds(Some(name.as_bytes()))) {
            return Err(Error::Hidden.into());
        }
        here.require(caller, need)?;
        Ok(here)
    }

    /// Locates the directory for a caller that removes or moves a name ([`Directory::locate_for`]). For its
    /// target see [`LocatedDirectory::require_to_unlink`].
    pub(super) async fn locate_to_unlink(
        &self,
        caller: &Caller,
        name: Name<'_>,
        need: Rights,
    ) -> Result<LocatedDirectory, Interrupted> {
        let here = self.locate_for(caller, name, need).await?;
        if !here.rights(caller).intersects(Rights::DELETE | Rights::DELETE_OWN) {
            return Err(Error::Denied(Rights::DELETE).into());
        }
        Ok(here)
    }

    /// Makes attempts until one comes to something, and counts what it comes to.
    pub(super) async fn attempts<T>(
        &self,
        attempt: impl AsyncFn() -> Result<T, Interrupted>,
    ) -> Result<T, Error> {
        let volume = self.volume();
        let mut lease_wait = LeaseBreakWait::default();
        for _ in 0..ATTEMPTS_MAX {
            match attempt().await {
                Ok(made) => {
                    volume.wait_for_directory_breaks(self.object()).await;
                    return Ok(made);
                }
                Err(Interrupted::Refused(error)) => return volume.counted(Err(error)),
                Err(Interrupted::AwaitLease(pending)) => {
                    volume.counted(lease_wait.wait(volume, pending).await)?
                }
                Err(Interrupted::Retry(blocking_change)) => {
                    volume.counters().changes_anew.increment();
                    volume.counted(self.wait_for_moves(blocking_change).await)?;
                }
            }
        }
        let here = self.object().and_then(|object| volume.path_of(object)).unwrap_or_default();
        volume.counted(Err(volume.unsettled(here.as_path(), "changing something in a directory")))
    }

    /// Waits until neither this directory nor one above it is being moved, nor `blocking_change` is changing. No lock
    /// is held meanwhile.
    async fn wait_for_moves(&self, blocking_change: Option<Arc<Object>>) -> Result<(), Error> {
        if let Some(object) = blocking_change {
            self.volume().wait_for(&object).await?;
        }
        let mut next = self.object().cloned();
        while let Some(object) = next {
            if object.is_changing() {
                self.volume().wait_for(&object).await?;
            }
            next = object.place().map(|place| place.directory);
        }
        Ok(())
    }
}

impl LocatedDirectory {
    /// Finds what other programs have changed in the directory while it was not watched: a change of ours gives it
    /// another time, and would hide theirs.
    async fn validate(&self) -> Result<(), Error> {
        let (object, directory) = (self.object()?, &self.directory);
        let Some(watched) = self.watched().filter(|watched| !watched.is_validated()) else { return Ok(()) };
        if object.log().is_none() {
            return Ok(());
        }
        let (mark, seen) = (object.look_mark(), directory.attributes()?);
        self.volume().looked_at(object, mark, &seen, || directory.attributes()).await?;
        watched.validate();
        Ok(())
    }

    /// Changes the directory itself and none of its names, under its change lock, after the invalidation. Its names
    /// stay known, though it gets another change time.
    ///
    /// # Errors
    /// Those of [`Volume::prepare_change`] and of the change.
    pub(super) async fn change_directory(
        &self,
        caller: &Caller,
        locks: ChangeLockSet,
        what: ChangeKind,
        change: impl AsyncFnOnce(&Directory) -> Result<(), Error> + 'static,
    ) -> Result<(), Interrupted> {
        let transaction = self.volume().prepare_change(caller, locks, vec![(self.object()?, what)]).await?;
        let directory = self.directory.clone();
        run_to_completion(transaction.keep_alive(), async move {
            let object = directory.changed()?;
            directory.dir().stat().iter().for_each(|before| object.note_metadata_change(before));
            let transaction = transaction.keep_versions();
            change(&directory).await?;
            transaction.committed().end(directory.volume());
            Ok(())
        })
        .await
    }

    pub(super) fn path(&self) -> RelPath<'_> {
        self.path.as_path()
    }

    pub(super) fn directory(&self) -> &Directory {
        &self.directory
    }

    pub(super) fn object(&self) -> Result<&Arc<Object>, Error> {
        self.directory.changed()
    }

    pub(super) fn volume(&self) -> &Volume {
        self.directory.volume()
    }

    /// Fails with [`Interrupted::Retry`] unless the path and the rights are as they were.
    pub(super) fn ensure_current(&self) -> Result<(), Interrupted> {
        if self.validity.is_current() { Ok(()) } else { Err(Interrupted::Retry(None)) }
    }

    /// Checks whether the caller has these rights over the directory.
    pub(super) fn require(&self, caller: &Caller, need: Rights) -> Result<(), Error> {
        require(self.rights(caller), need)
    }

    /// Checks that the caller may remove this name here: in a sticky directory only its owner may, and no client may
    /// where the name leads to what is withheld.
    pub(super) async fn require_to_unlink(
        &self,
        caller: &Caller,
        name: Name<'_>,
        found: &NameTarget,
    ) -> Result<(), Error> {
        // What leads to the server's own files stays where it is, whatever rights the caller has.
        let withheld = self.volume().cache().withheld();
        if withheld.is_some_and(|withheld| withheld.is_fixed(self.directory().id(), name.as_bytes())) {
            return Err(Error::Denied(Rights::DELETE));
        }
        let rights = self.rights(caller);
        if !rights.contains(Rights::DELETE_OWN) {
            return require(rights, Rights::DELETE);
        }
        // The maker is recorded with what may have a descriptor.
        if matches!(found.kind, FileKind::File | FileKind::Directory) {
            self.own_of(name, &found.object).await?;
        }
        let stat = match &found.open {
            Some(file) => file.lane_file().stat().map_err(Error::from)?,
            None => self.directory.dir().stat_at(&c_name(name)).await.map_err(Error::of_change)?,
        };
        let owner = attributes_of(&stat, Some(&found.object)).owner();
        if owner.is_by_mode(&caller.principal) { Ok(()) } else { Err(Error::Denied(Rights::DELETE)) }
    }

    /// Returns what the caller may do here.
    fn rights(&self, caller: &Caller) -> Rights {
        let policy = self.volume().root().policy();
        let watched = self.watched().zip(policy);
        watched.map_or(Rights::NONE, |(watched, policy)| watched.rights(&caller.principal, policy))
    }

    pub(super) fn watched(&self) -> Option<&WatchedDir> {
        self.validity.watched().map(|watched| &**watched)
    }

    /// Returns the directory as this lane caches it.
    pub(super) fn watched_rc(&self) -> Option<Rc<WatchedDir>> {
        self.validity.watched().cloned()
    }

    /// Keeps the directory watched as long as clients have something open in it.
    pub(super) fn pin_for_opens(&self) {
        if let Some(watched) = self.validity.watched() {
            self.volume().cache().pin_for_opens(watched);
        }
    }

    /// Returns what the lane has kept of a name.
    pub(super) fn kept(&self, name: Name<'_>) -> Option<Node> {
        let path = self.path.as_path().join(name).ok()?;
        self.ensure_current().ok()?;
        self.volume().cache().find_open(self.volume().key(path.as_path()))
    }

    /// Counts the lane in for a name that it is about to give to something and to cache. The directory is locked, so
    /// that the next change invalidates this lane.
    pub(super) fn count_in(&self, name: Name<'_>) -> Option<PresenceToken> {
        self.validity.count_in(name.as_bytes())
    }

    /// Returns whether lanes beside this one rely on the directory: they change its names too, most likely.
    pub(super) fn is_shared(&self) -> bool {
        let me = self.volume().cache().peer().map(CoherencePeer::member);
        let lanes = self.directory.object().and_then(|object| object.sharers());
        lanes.is_some_and(|lanes| lanes.iter().any(|lane| Some(lane) != me))
    }

    /// Keeps what has a name now, in the very step in which the change lock of the directory is released: `mark` was
    /// made before.
    pub(super) fn keep(&self, name: Name<'_>, node: Node, mark: Option<PresenceToken>) {
        let (cache, here) = (self.volume().cache(), self.volume().key(self.path.as_path()));
        let validity = self.directory.object().and_then(|object| cache.coherent_validity(here, object));
        if let (Some(validity), Ok(path)) = (validity, self.path.as_path().join(name)) {
            let key = self.volume().key(path.as_path());
            if let Some(object) = node.object() {
                cache.keep_new_number(key, object.number());
            }
            cache.keep_open(key, node, validity.of_own_change(mark));
        }
    }

    /// Closes what this lane's cache keeps open of the name.
    pub(super) fn close_cached(&self, name: &CString) {
        if let Some(path) = self.path.as_path().child(name.as_bytes()) {
            self.volume().cache().forget(self.volume().key(path.as_path()));
        }
    }

    /// Makes the validity of a look at one name without its change lock.
    pub(super) fn look_at(&self, name: Name<'_>) -> Option<Validity> {
        let mark = self.count_in(name)?;
        let (cache, here) = (self.volume().cache(), self.volume().key(self.path.as_path()));
        Some(cache.coherent_validity(here, self.directory.object()?)?.with_presence(Some(mark)))
    }

    /// Notes where something was found without its change lock, if the name has not changed since. This lane is
    /// notified first of what is renamed from here on, for as long as it [looks](LocatedDirectory::look_at) at it.
    pub(super) fn note_seen(&self, name: Name<'_>, object: Option<&Arc<Object>>, look: Option<&Validity>) {
        let is_there = look.is_some_and(|look| look.keeps(self.volume().cache().options().ttl));
        if let (true, Some(object), Some(directory)) = (is_there, object, self.directory.object()) {
            object.found_at(Place { directory: Arc::clone(directory), name: name.as_bytes().into() });
        }
    }

    /// Notes that the name leads to this object now, for clients that keep an image of the directory.
    pub(super) fn note_added(
        &self,
        transaction: &ChangeTransaction<Committed>,
        name: Name<'_>,
        object: Option<&Arc<Object>>,
    ) {
        if let Some((directory, object)) = self.directory.object().zip(object) {
            transaction.added(directory, name.as_bytes(), object.number());
        }
    }

    /// Returns whether `upper` is this directory or lies above it.
    pub(super) fn is_in(&self, upper: &Arc<Object>) -> bool {
        self.directory.object().is_some_and(|object| path_beneath(upper, object).is_some())
    }
}

impl From<Error> for Interrupted {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

const ATTEMPTS_MAX: u32 = 64;
