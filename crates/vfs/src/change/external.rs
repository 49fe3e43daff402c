//! Changes that other programs make: found when notification or a look shows them. They get a version like any other
//! change, and are invalidated the same way.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use coherence::ChangeKind;
use index::{Kind, Number, Version};
use lane::fs::{FileKind, Stat};

use super::lease_breaks::LeaseBreakWait;
use super::located_directory::Interrupted;
use super::name_target::c_name;
use crate::attributes::Attributes;
use crate::cache::{Node, WatchedDir};
use crate::callback::{ReplacedFile, judge};
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::grant::GrantSlot;
use crate::name::{Name, RelPath, RelPathBuf};
use crate::object::{At, By, Judgement, Log, LookMark, Object, Place, Recorded};
use crate::volume::{Resolved, Volume};

impl Volume {
    /// Decides what follows from a look that was begun with this mark, here and nowhere else, whatever protocol has
    /// looked. Where another program has changed it the object gets its next version, unless only what is beside its
    /// content is another, and every client that relies on it is notified. Returns whether that is so: the look has to
    /// be made anew then.
    ///
    /// # Errors
    /// [`Error::Busy`]; those of the file system.
    pub(crate) async fn looked(&self, what: &Resolved, mark: LookMark) -> Result<bool, Error> {
        let object = what.object().ok_or(Error::ReadOnly)?;
        self.looked_at(object, mark, what.attributes(), || what.attributes_now()).await
    }

    /// Judges a look ([`Volume::looked`]) at an object that now looks as `now` says.
    ///
    /// # Errors
    /// As there.
    pub(crate) async fn looked_at(
        &self,
        object: &Arc<Object>,
        mark: LookMark,
        seen: &Attributes,
        now: impl Fn() -> Result<Attributes, Error>,
    ) -> Result<bool, Error> {
        let peer = self.cache().peer().ok_or(Error::ReadOnly)?;
        if !judge(&peer.callbacks, object, mark, seen).is_foreign() {
            return Ok(false);
        }
        // Another look may have seen to it meanwhile. A client that keeps the permit for its writes has given it back.
        let found = async || {
            let (mark, now) = (object.look_mark(), now()?);
            Ok(match judge(&peer.callbacks, object, mark, &now) {
                Judgement::Known | Judgement::Overtaken => None,
                Judgement::Foreign => Some(Foreign::Changed(Some(now))),
                Judgement::ForeignMetadata => Some(Foreign::Beside(now)),
            })
        };
        self.invalidate_external(object, found).await?;
        Ok(true)
    }

    /// Looks whether a file is still where it was last found, by this path. Where another program has taken it away or
    /// replaced it, only the clients that rely on it are notified.
    pub(crate) async fn look_for(&self, ReplacedFile { object, at }: &ReplacedFile, path: RelPath<'_>) {
        let Some(LookedUpName { now, .. }) = self.revalidate_external(path, &NotifiedNames::default()).await
        else {
            return;
        };
        if now.is_none_or(|now| !Arc::ptr_eq(&now, object)) {
            self.taken_from(object, at).await;
        }
    }

    /// Notifies all that rely on the object that another program has taken it away from where it was last found, if it
    /// was there, or from a name by which it is open and cached.
    pub(crate) async fn taken_from(&self, object: &Arc<Object>, at: &Place) {
        let is_directory = object.number().kind() == Kind::Directory;
        // Of several names it may have been found by another since.
        let is_taken = || object.is_placed_at(at) || GrantSlot::is_cached_by(object, &at.directory, &at.name);
        let found = || if is_directory { Foreign::Changed(None) } else { Foreign::Place };
        // It is found out at the next look otherwise.
        let _ = self.invalidate_external(object, async || Ok(is_taken().then(found))).await;
    }

    /// Notes that names of a directory may have changed while it was not watched, and notifies clients that rely on
    /// them, on all lanes. It does not once more where another lane has seen to that, and has
    /// [heard](crate::object::RevalidationOwner) of all that was done since. So does this lane from now on, if it is
    /// `watched`.
    ///
    /// # Errors
    /// As [`Volume::looked`].
    pub(crate) async fn changed_unseen(
        &self,
        directory: &Arc<Object>,
        watched: Option<&WatchedDir>,
    ) -> Result<(), Error> {
        let release_revalidation = || watched.into_iter().for_each(WatchedDir::release_revalidation);
        let is_due = async || {
            // It may be asked again, and is not to rely on itself.
            release_revalidation();
            let has_revalidation_owner = directory.log().is_some_and(|log| log.has_revalidation_owner());
            watched.into_iter().for_each(WatchedDir::own_revalidation);
            Ok((!has_revalidation_owner).then_some(Foreign::Changed(None)))
        };
        let raised = self.invalidate_external(directory, is_due).await;
        raised.inspect_err(|_| release_revalidation()).map(drop)
    }

    /// Invalidates an object that another program has changed, if it is found changed under its change lock.
    async fn invalidate_external(
        &self,
        object: &Arc<Object>,
        found: impl AsyncFn() -> Result<Option<Foreign>, Error>,
    ) -> Result<Option<Version>, Error> {
        let mut lease_wait = LeaseBreakWait::default();
        let (transaction, foreign) = loop {
            let locks = self.lock_for_external(object).await?;
            let Some(foreign) = found().await? else { return Ok(None) };
            match self.prepare_change(&Caller::anonymous(), locks, vec![(object, foreign.what())]).await {
                Ok(transaction) => break (transaction, foreign),
                Err(Interrupted::Refused(error)) => return Err(error),
                Err(Interrupted::AwaitLease(pending)) => lease_wait.wait(self, pending).await?,
                Err(Interrupted::Retry(_)) => {}
            }
        };
        let transaction = match foreign {
            Foreign::Changed(_) | Foreign::Names(_) => transaction.bump_version(),
            Foreign::Beside(_) => {
                object.note_foreign_metadata_change();
                transaction.keep_versions()
            }
            Foreign::Place => {
                object.keeps_its_look();
                transaction.keep_versions()
            }
        };
        let transaction = transaction.committed();
        let version = object.version();
        match foreign {
            Foreign::Changed(Some(now)) | Foreign::Names(now) | Foreign::Beside(now) => {
                transaction.note_found_attributes(object, now);
            }
            Foreign::Changed(None) | Foreign::Place => {}
        }
        if let (Foreign::Changed(_), Some(log)) = (&foreign, object.log()) {
            log.note_unnamed(version);
        }
        self.counters().external_changes.increment();
        let is_unseen = matches!(foreign, Foreign::Changed(None));
        transaction.end(self);
        if is_unseen {
            object.volume().watches().report_lost(object);
        }
        Ok(Some(version))
    }

    /// Looks whether another program has changed what has this name, if clients cache it; of a directory, whose names
    /// notification has reported. Returns what has the name now, and in which directory.
    pub(crate) async fn revalidate_external(
        &self,
        path: RelPath<'_>,
        doubted: &NotifiedNames,
    ) -> Option<LookedUpName> {
        let validity = self.cache().settled_validity_above(self, path).await;
        let at = validity.object().cloned().zip(path.file_name());
        let at = at.map(|(directory, name)| Place { directory, name: name.as_bytes().into() });
        let now = match self.open_seen(path, validity).await {
            Ok((node, stat, _)) => {
                // What cannot be told is found out at the next look.
                let _ = self.look_at(&node, &stat, doubted).await;
                node.object().cloned()
            }
            Err(Error::NotFound | Error::SymlinkRefused | Error::NotServable) => None,
            Err(_) => return None,
        };
        at.map(|at| LookedUpName { path: path.into(), at, now })
    }

    /// Looks whether another program has changed what clients have open by this path, and notifies clients that cache
    /// it. The directory is kept watched.
    pub(crate) async fn look_at_open(&self, path: RelPath<'_>) {
        // What cannot be looked at is found out at the next look.
        if let Some(LookedUpName { at, now, .. }) =
            self.revalidate_external(path, &NotifiedNames::default()).await
        {
            let is_there = |object: &Arc<Object>| now.as_ref().is_some_and(|now| Arc::ptr_eq(now, object));
            for taken in at.directory.open_names().objects(&at.name) {
                if !is_there(&taken) {
                    self.taken_from(&taken, &at).await;
                }
            }
        }
        let above = self.cache().validity_above(self.root(), self.key(path)).await;
        if let Some(watched) = above.watched() {
            self.cache().pin_for_opens(watched);
        }
    }

    async fn look_at(&self, node: &Node, stat: &Stat, doubted: &NotifiedNames) -> Result<(), Error> {
        let Some(peer) = self.cache().peer() else { return Ok(()) };
        let what = self.resolved(node, (*stat).into());
        let Some(object) = what.object() else { return Ok(()) };
        let log = object.log().filter(|_| !doubted.is_none());
        if let (Resolved::Directory(directory, _), Some(log)) = (&what, log) {
            self.look_at_names(directory, object, &log, doubted).await?;
            return Ok(());
        }
        if object.is_busy() || !(peer.callbacks.has_clients_of(object) || object.grants().is_cached()) {
            return Ok(());
        }
        // It may have got another name since.
        self.watch_by_all_names(&what);
        let (mark, now) = (object.look_mark(), what.attributes_now()?);
        self.looked_at(object, mark, &now, || what.attributes_now()).await?;
        Ok(())
    }

    /// Looks whether these names in a directory lead to what its log says. Some changes of other programs show by
    /// nothing else. They fall between two of ours, or in the same tick of the clock for stamps as one of ours or a
    /// reading. Returns whether there was one: the directory has another version then.
    pub(crate) async fn look_at_names(
        &self,
        directory: &Directory,
        object: &Arc<Object>,
        log: &Log,
        doubted: &NotifiedNames,
    ) -> Result<bool, Error> {
        if doubted.is_none() {
            return Ok(false);
        }
        let found = RefCell::default();
        let is_due = async || {
            let now = directory.attributes()?;
            let names = directory.found(&doubted.names).await?;
            let is_told = |(name, number): &FoundName| log.latest_of(name) == Some(*number);
            // The change time alone says nothing: our own files aside are made beside the names too.
            let is_due = doubted.is_any || !names.iter().all(is_told);
            found.replace(names);
            let foreign = if doubted.is_any { Foreign::Changed(Some(now)) } else { Foreign::Names(now) };
            Ok(is_due.then_some(foreign))
        };
        // Without the permit: mostly it is a change of ours, and is put down.
        if is_due().await?.is_none() {
            return Ok(false);
        }
        let told = self.invalidate_external(object, is_due).await?;
        if let Some(version) = told {
            log.note_external(version, found.take());
        }
        Ok(told.is_some())
    }
}

impl Directory {
    /// Returns what these names lead to now, those that clients may see.
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
                        Ok(found) => {
                            // Clients are told its number here, and then ask for it by that.
                            if !found.is_last_found_at(object, name) {
                                shared.note_other_name_of(found.identity(), Recorded::named(object, name));
                            }
                            Some(found.number())
                        }
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

/// Change of an object by another program.
enum Foreign {
    /// Changed its content or names, or perhaps; as it looks now, where that is known.
    Changed(Option<Attributes>),
    /// Changed names in it, which are known, with which it looks so.
    Names(Attributes),
    /// Changed what is beside its content, with which it looks so.
    Beside(Attributes),
    /// Taken it, as a file, from where it was last found.
    Place,
}

impl Foreign {
    fn what(&self) -> ChangeKind {
        match self {
            Self::Changed(_) | Self::Names(_) | Self::Place => ChangeKind::Unknown,
            Self::Beside(_) => ChangeKind::Attributes,
        }
    }
}

/// Names in a directory that notification has reported, whether this server or another program changed them.
#[derive(Debug, Default)]
pub(crate) struct NotifiedNames {
    pub(crate) names: Vec<Box<[u8]>>,
    /// Set where other names have changed too, and it is not known which.
    pub(crate) is_any: bool,
}

impl NotifiedNames {
    fn is_none(&self) -> bool {
        self.names.is_empty() && !self.is_any
    }
}

/// Result of a look at one name.
pub(crate) struct LookedUpName {
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
