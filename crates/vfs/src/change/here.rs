//! Where a directory is, who may change it there, and attempts until it stays there for as long as a change takes.

use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;

use identity::Rights;
use lane::fs::FileKind;

use super::find::{Found, c_name};
use super::settle::{Asking, Settling};
use super::way::{Way, to_the_end};
use crate::access::require;
use crate::attributes::Attributes;
use crate::cache::{CoherencePeer, Node, Vantage, WatchedDir};
use crate::callback::{ChangeKind, PresenceToken};
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{Name, RelPath, RelPathBuf};
use crate::object::{Object, Permits, Place, path_beneath};
use crate::volume::Volume;

/// A directory as this lane relies on it: its place, and rights there.
pub(super) struct Here {
    directory: Directory,
    path: RelPathBuf,
    vantage: Vantage,
}

/// What became of one attempt at a change.
pub(super) enum Unmade {
    /// Something moves or has moved: to be waited for, if it is known.
    Again(Option<Arc<Object>>),
    /// Holders of leases have to give something back first.
    Held(Vec<Asking>),
    Refused(Error),
}

impl Directory {
    /// Its object; a directory of a volume without objects has none.
    pub(super) fn changed(&self) -> Result<&Arc<Object>, Error> {
        self.object().ok_or(Error::ReadOnly)
    }

    /// Finds where the directory is now, to change something in it. From here on the lane relies on it, so that it may keep what it
    /// makes there.
    pub(super) async fn here(&self) -> Result<Here, Unmade> {
        self.volume().writable()?;
        let here = self.here_to_read().await?;
        here.vouch().await?;
        Ok(here)
    }

    /// As [`Directory::here`], to change nothing.
    pub(super) async fn here_to_read(&self) -> Result<Here, Unmade> {
        let (volume, object) = (self.volume(), self.changed()?);
        let path = volume.path_of(object).ok_or(Error::Stale)?;
        let vantage = volume.cache().vantage(volume.root(), volume.key(path.as_path())).await;
        if vantage.object().is_some_and(|found| Arc::ptr_eq(found, object)) {
            volume.cache().keep_changed(volume.key(path.as_path()), &vantage);
            return Ok(Here { directory: self.clone(), path, vantage });
        }
        if self.attributes()?.nlink == 0 {
            Err(Error::Stale.into())
        } else {
            Err(Unmade::Again(vantage.hindrance().cloned()))
        }
    }

    /// As [`Directory::here`], for a caller who wants to change the name `name` and needs these rights to.
    pub(super) async fn here_for(
        &self,
        caller: &Caller,
        name: Name<'_>,
        need: Rights,
    ) -> Result<Here, Unmade> {
        if name.is_reserved() {
            return Err(Error::Reserved.into());
        }
        let here = self.here().await?;
        if here.watched().is_some_and(|watched| watched.withholds(Some(name.as_bytes()))) {
            return Err(Error::Hidden.into());
        }
        here.require(caller, need)?;
        Ok(here)
    }

    /// As [`Directory::here_for`], for a caller who wants to take a name away, or move it. Of what it leads to
    /// [`Here::require_to_take`] asks.
    pub(super) async fn here_to_take(
        &self,
        caller: &Caller,
        name: Name<'_>,
        need: Rights,
    ) -> Result<Here, Unmade> {
        let here = self.here_for(caller, name, need).await?;
        if !here.rights(caller).intersects(Rights::DELETE | Rights::DELETE_OWN) {
            return Err(Error::Denied(Rights::DELETE).into());
        }
        Ok(here)
    }

    /// Makes attempts until one comes to something, and counts what it comes to.
    pub(super) async fn attempts<T>(&self, attempt: impl AsyncFn() -> Result<T, Unmade>) -> Result<T, Error> {
        let volume = self.volume();
        let mut settling = Settling::default();
        for _ in 0..ATTEMPTS_MAX {
            match attempt().await {
                Ok(made) => {
                    volume.all_told_above(self.object()).await;
                    return Ok(made);
                }
                Err(Unmade::Refused(error)) => return volume.counted(Err(error)),
                Err(Unmade::Held(asking)) => volume.counted(settling.wait(volume, asking).await)?,
                Err(Unmade::Again(hindrance)) => {
                    volume.counters().changes_anew.increment();
                    volume.counted(self.settled(hindrance).await)?;
                }
            }
        }
        volume.counted(Err(Error::Busy))
    }

    /// Waits until nobody moves this directory or one above it, or what is in the way to it; holding nothing.
    async fn settled(&self, hindrance: Option<Arc<Object>>) -> Result<(), Error> {
        if let Some(object) = hindrance {
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

impl Here {
    /// Finds what somebody else has changed in the directory while nobody watched: a change of ours would give it another time, and hide
    /// that from who keeps an image of its names.
    async fn vouch(&self) -> Result<(), Error> {
        let (object, directory) = (self.object()?, &self.directory);
        let Some(watched) = self.watched().filter(|watched| !watched.is_vouched()) else { return Ok(()) };
        if object.log().is_none() {
            return Ok(());
        }
        let (mark, seen) = (object.look_mark(), directory.attributes()?);
        self.volume().looked_at(object, mark, &seen, || directory.attributes()).await?;
        watched.vouch();
        Ok(())
    }

    /// Changes the directory itself and none of its names, under its permit, having told everybody who relies on that of it. What is known of
    /// its names before is known afterwards too, when it has another change time.
    ///
    /// # Errors
    /// Those of [`Volume::tell`] and of the change.
    pub(super) async fn change_itself(
        &self,
        caller: &Caller,
        permits: Permits,
        what: ChangeKind,
        change: impl AsyncFnOnce(&Directory) -> Result<(), Error> + 'static,
    ) -> Result<(), Unmade> {
        let way = self.volume().tell(caller, permits, vec![(self.object()?, what)]).await?;
        let directory = self.directory.clone();
        to_the_end(way.held(), async move {
            let object = directory.changed()?;
            directory.dir().stat().iter().for_each(|before| object.changes_aside(before));
            change(&directory).await?;
            way.end(directory.volume());
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

    /// Whether the place and the rights are as they were.
    pub(super) fn still(&self) -> Result<(), Unmade> {
        if self.vantage.is_current() { Ok(()) } else { Err(Unmade::Again(None)) }
    }

    /// Whether the caller has these rights over the directory.
    pub(super) fn require(&self, caller: &Caller, need: Rights) -> Result<(), Error> {
        require(self.rights(caller), need)
    }

    /// Whether the caller may take the name of this away here: in a sticky directory what is his alone.
    pub(super) async fn require_to_take(
        &self,
        caller: &Caller,
        name: Name<'_>,
        found: &Found,
    ) -> Result<(), Error> {
        let rights = self.rights(caller);
        if !rights.contains(Rights::DELETE_OWN) {
            return require(rights, Rights::DELETE);
        }
        // Who made it is recorded with what may have a descriptor.
        if matches!(found.kind, FileKind::File | FileKind::Directory) {
            self.own_of(name, &found.object).await?;
        }
        let stat = match &found.open {
            Some(file) => file.lane_file().stat().map_err(Error::from)?,
            None => self.directory.dir().stat_at(&c_name(name)).await.map_err(Error::of_change)?,
        };
        let owner = Attributes::of(&stat, Some(&found.object)).owner();
        if owner.is_by_mode(&caller.principal) { Ok(()) } else { Err(Error::Denied(Rights::DELETE)) }
    }

    /// What the caller may do here.
    fn rights(&self, caller: &Caller) -> Rights {
        let policy = self.volume().root().policy();
        let watched = self.watched().zip(policy);
        watched.map_or(Rights::NONE, |(watched, policy)| watched.rights(&caller.principal, policy))
    }

    pub(super) fn watched(&self) -> Option<&WatchedDir> {
        self.vantage.watched().map(|watched| &**watched)
    }

    /// The directory as the lane relies on it.
    pub(super) fn relied_on(&self) -> Option<Rc<WatchedDir>> {
        self.vantage.watched().cloned()
    }

    /// Keeps the directory watched as long as clients have something open in it.
    pub(super) fn rely_for_opens(&self) {
        if let Some(watched) = self.vantage.watched() {
            self.volume().cache().rely_for_opens(watched);
        }
    }

    /// What the lane has kept of a name.
    pub(super) fn kept(&self, name: Name<'_>) -> Option<Node> {
        let path = self.path.as_path().join(name).ok()?;
        self.still().ok()?;
        self.volume().cache().find_open(self.volume().key(path.as_path()))
    }

    /// Counts the lane in for a name that it is about to give to something, to keep that: under the permits, so that who takes them next
    /// asks this lane.
    pub(super) fn count_in(&self, name: Name<'_>) -> Option<PresenceToken> {
        self.vantage.count_in(name.as_bytes())
    }

    /// Whether lanes beside this one rely on the directory: they change its names too, most likely.
    pub(super) fn is_shared(&self) -> bool {
        let me = self.volume().cache().peer().map(CoherencePeer::member);
        let lanes = self.directory.object().and_then(|object| object.sharers());
        lanes.is_some_and(|lanes| lanes.iter().any(|lane| Some(lane) != me))
    }

    /// Keeps what has a name now, in the very step in which the permit of the directory is given back: `mark` was made before.
    pub(super) fn keep(&self, name: Name<'_>, node: Node, mark: Option<PresenceToken>) {
        let (cache, here) = (self.volume().cache(), self.volume().key(self.path.as_path()));
        let vantage = self.directory.object().and_then(|object| cache.promised(here, object));
        if let (Some(vantage), Ok(path)) = (vantage, self.path.as_path().join(name)) {
            let key = self.volume().key(path.as_path());
            if let Some(object) = node.object() {
                cache.keep_new_number(key, object.number());
            }
            cache.keep_open(key, node, vantage.of_own_change(mark));
        }
    }

    /// What is open of it in this lane's cache is closed.
    pub(super) fn let_go_of(&self, name: &CString) {
        if let Some(path) = self.path.as_path().child(name.as_bytes()) {
            self.volume().cache().forget(self.volume().key(path.as_path()));
        }
    }

    /// A point of view for looking at one name without its permit.
    pub(super) fn look_at(&self, name: Name<'_>) -> Option<Vantage> {
        let mark = self.count_in(name)?;
        let (cache, here) = (self.volume().cache(), self.volume().key(self.path.as_path()));
        Some(cache.promised(here, self.directory.object()?)?.marked(Some(mark)))
    }

    /// Notes where something was found without its permit, if the name has not changed since: what is renamed from here on is told to
    /// this lane first, for as long as it [looks](Here::look_at) at it.
    pub(super) fn note_seen(&self, name: Name<'_>, object: Option<&Arc<Object>>, look: Option<&Vantage>) {
        let is_there = look.is_some_and(|look| look.keeps(self.volume().cache().options().ttl));
        if let (true, Some(object), Some(directory)) = (is_there, object, self.directory.object()) {
            object.found_at(Place { directory: Arc::clone(directory), name: name.as_bytes().into() });
        }
    }

    /// For who keeps an image of the directory: the name leads to this now.
    pub(super) fn note_added(&self, way: &Way, name: Name<'_>, object: Option<&Arc<Object>>) {
        if let Some((directory, object)) = self.directory.object().zip(object) {
            way.added(directory, name.as_bytes(), object.number());
        }
    }

    /// Whether `upper` is this directory or lies above it.
    pub(super) fn is_in(&self, upper: &Arc<Object>) -> bool {
        self.directory.object().is_some_and(|object| path_beneath(upper, object).is_some())
    }
}

impl From<Error> for Unmade {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

const ATTEMPTS_MAX: u32 = 64;
