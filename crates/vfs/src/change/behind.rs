//! Changes that somebody else makes behind the server's back: found when notification or a look tells, they get a version like any other
//! change, and who relies on what was changed hears.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use index::{Number, Version};
use lane::fs::{FileKind, Stat};

use super::find::c_name;
use super::here::Unmade;
use super::settle::Settling;
use crate::attributes::Attributes;
use crate::cache::{Node, WatchedDir};
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{Name, RelPath, RelPathBuf};
use crate::object::{At, By, Log, Object, Place};
use crate::promise::{Displaced, What};
use crate::volume::{Resolved, Volume};

impl Volume {
    /// Somebody else has changed this, as a look has shown: it gets its next version, and everybody who relies on it hears, unless
    /// another look has seen to that meanwhile. While a client keeps the permit for its writes, a change is taken for one of those.
    ///
    /// # Errors
    /// [`Error::Busy`]; those of the file system.
    pub(crate) async fn changed_behind(&self, what: &Resolved) -> Result<(), Error> {
        let object = what.object().ok_or(Error::ReadOnly)?;
        self.changed_behind_of(object, || what.attributes_now()).await
    }

    /// As [`Volume::changed_behind`], of what looks `now` as that says.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn changed_behind_of(
        &self,
        object: &Arc<Object>,
        now: impl Fn() -> Result<Attributes, Error>,
    ) -> Result<(), Error> {
        let joined = self.cache().joined().ok_or(Error::ReadOnly)?;
        let seen = Cell::new(None);
        let is_so = async || {
            let now = now()?;
            seen.set(Some(now));
            Ok(joined.promises.is_foreign(object, object.version(), &now))
        };
        let raised = self.raise_behind(object, is_so).await?;
        // The clock of another machine's file system may be ahead of ours.
        if let (Some(version), Some(seen)) = (raised, seen.get()) {
            object.has_looked(version, &seen);
        }
        Ok(())
    }

    /// Looks whether a file is still where it was last found, by this path. Where somebody else has taken it away or replaced it who relies on
    /// it alone hears.
    pub(crate) async fn look_for(&self, Displaced { object, at }: &Displaced, path: RelPath<'_>) {
        let Some(Looked { now, .. }) = self.look_behind(path, &Doubted::default()).await else { return };
        if now.is_none_or(|now| !Arc::ptr_eq(&now, object)) {
            // It is found out at the next look of somebody otherwise.
            let _ = self.raise_behind(object, async || Ok(object.is_placed_at(at))).await;
        }
    }

    /// Somebody else may have changed the names of a directory while nobody watched: who relies on them hears, on all lanes; not once more where
    /// another lane has seen to that, and has [heard](crate::object::Cover) of all that was done since. So does this lane from now on, if it
    /// is `watched`.
    ///
    /// # Errors
    /// As [`Volume::changed_behind`].
    pub(crate) async fn changed_unseen(
        &self,
        directory: &Arc<Object>,
        watched: Option<&WatchedDir>,
    ) -> Result<(), Error> {
        let uncover = || watched.into_iter().for_each(WatchedDir::uncover);
        let is_due = async || {
            // It may be asked again, and is not to rely on itself.
            uncover();
            let is_covered = directory.log().is_some_and(|log| log.is_covered());
            watched.into_iter().for_each(WatchedDir::cover);
            Ok(!is_covered)
        };
        let raised = self.raise_behind(directory, is_due).await;
        raised.inspect_err(|_| uncover()).map(drop)
    }

    /// Gives an object its next version, everybody who relies on it having been told, if that is due under its permit; which it is then.
    async fn raise_behind(
        &self,
        object: &Arc<Object>,
        is_due: impl AsyncFn() -> Result<bool, Error>,
    ) -> Result<Option<Version>, Error> {
        let mut settling = Settling::default();
        let way = loop {
            let permits = self.permits_behind(object).await?;
            if !is_due().await? {
                return Ok(None);
            }
            match self.tell(&Caller::anonymous(), permits, vec![(object, What::Unknown)]).await {
                Ok(way) => break way,
                Err(Unmade::Refused(error)) => return Err(error),
                Err(Unmade::Held(asking)) => settling.wait(self, asking).await?,
                Err(Unmade::Again(_)) => {}
            }
        };
        way.rise();
        let raised = object.version();
        self.counters().changes_behind.increment();
        way.end(self);
        Ok(Some(raised))
    }

    /// Looks whether somebody else has changed what has this name, if clients rely on it; of a directory, of whose names notification has
    /// told these. Gives what has the name now, and in which directory.
    pub(crate) async fn look_behind(&self, path: RelPath<'_>, doubted: &Doubted) -> Option<Looked> {
        let vantage = self.cache().vantage_above(self.root(), self.key(path)).await;
        let at = vantage.object().cloned().zip(path.file_name());
        let at = at.map(|(directory, name)| Place { directory, name: name.as_bytes().into() });
        let now = match self.open_seen(path, vantage).await {
            Ok((node, stat, _)) => {
                // What cannot be told is found out at the next look of somebody.
                let _ = self.look_at(&node, &stat, doubted).await;
                node.object().cloned()
            }
            Err(Error::NotFound | Error::SymlinkRefused | Error::NotServable) => None,
            Err(_) => return None,
        };
        at.map(|at| Looked { path: path.into(), at, now })
    }

    async fn look_at(&self, node: &Node, stat: &Stat, doubted: &Doubted) -> Result<(), Error> {
        let Some(joined) = self.cache().joined() else { return Ok(()) };
        let what = self.resolved(node, (*stat).into());
        let Some(object) = what.object() else { return Ok(()) };
        let log = object.log().filter(|_| !doubted.is_none());
        if let (Resolved::Directory(directory, _), Some(log)) = (&what, log) {
            return self.look_at_names(directory, object, &log, doubted).await;
        }
        if !joined.promises.is_given(object) || object.is_busy() {
            return Ok(());
        }
        // First: where nobody holds the permit who changes it asks this lane before he does, so that the look is not of a moment before.
        let is_kept = object.is_changing();
        let (version, now) = (object.version(), what.attributes_now()?);
        let is_foreign = match is_kept {
            // A client that keeps the permit writes on without asking. Of this look nothing is put down: how the file looked between two of its
            // writes would be taken for how its version looks.
            true => object.is_later_than_ours(version, &now),
            false => joined.promises.is_foreign(object, version, &now),
        };
        if is_foreign {
            self.changed_behind(&what).await?;
        }
        Ok(())
    }

    /// Looks whether these names in a directory lead to what its log says. A change of somebody else that falls between two of ours, or
    /// within the tick of the clock for stamps in which one of ours or a reading falls, shows by nothing else.
    async fn look_at_names(
        &self,
        directory: &Directory,
        object: &Arc<Object>,
        log: &Log,
        doubted: &Doubted,
    ) -> Result<(), Error> {
        let (seen, found) = (Cell::new(None), RefCell::default());
        let is_due = async || {
            let now = directory.attributes()?;
            let names = directory.found(&doubted.names).await?;
            let is_told = |(name, number): &FoundName| log.latest_of(name) == Some(*number);
            // The change time alone says nothing: our own files aside are made beside the names too.
            let is_due = doubted.is_any || !names.iter().all(is_told);
            seen.set(Some(now));
            found.replace(names);
            Ok(is_due)
        };
        // Without the permit: mostly it is a change of ours, and is put down.
        if !is_due().await? {
            return Ok(());
        }
        let raised = self.raise_behind(object, is_due).await?;
        if let (Some(version), Some(seen)) = (raised, seen.get()) {
            object.has_looked(version, &seen);
            log.note_found(version, found.take());
        }
        Ok(())
    }
}

impl Directory {
    /// What these names lead to now, those that clients may see.
    async fn found(&self, names: &[Box<[u8]>]) -> Result<Vec<FoundName>, Error> {
        let (shared, object) = self.volume().shared().zip(self.object()).ok_or(Error::ReadOnly)?;
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            let Ok(parsed) = Name::parse(name) else { continue };
            if parsed.is_reserved() {
                continue;
            }
            let c_name = c_name(parsed);
            let number = match self.dir().stat_at(&c_name).await {
                Ok(stat) if stat.kind == FileKind::Other => None,
                Ok(stat) => {
                    let (by, at) = (By::Name(self.dir(), &c_name), At { directory: object, name });
                    match shared.object_of(self.volume().root().dir(), by, &stat, Some(at)).await {
                        Ok(object) => Some(object.number()),
                        Err(Error::NotFound) => None,
                        Err(error) => return Err(error),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error.into()),
            };
            found.push((name.clone(), number));
        }
        Ok(found)
    }
}

/// A name, and what it leads to, if anything.
type FoundName = (Box<[u8]>, Option<Number>);

/// Names in a directory that notification has told of, by whomever they were changed.
#[derive(Debug, Default)]
pub(crate) struct Doubted {
    pub(crate) names: Vec<Box<[u8]>>,
    /// Others too, of which it is not known which.
    pub(crate) is_any: bool,
}

impl Doubted {
    fn is_none(&self) -> bool {
        self.names.is_empty() && !self.is_any
    }
}

/// What a look at a name has shown.
pub(crate) struct Looked {
    pub(crate) path: RelPathBuf,
    pub(crate) at: Place,
    pub(crate) now: Option<Arc<Object>>,
}

impl Resolved {
    fn attributes_now(&self) -> Result<Attributes, Error> {
        match self {
            Self::File(file, _) => Rc::as_ref(file).attributes(),
            Self::Directory(directory, _) => directory.attributes(),
        }
    }
}
