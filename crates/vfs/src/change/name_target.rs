//! Target of a name while its directory's change lock is held: it stays so until the change is made.

use std::ffi::CString;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use coherence::ChangeKind;
use index::Number;
use lane::fs::{File, FileKind, OpenHow, OpenKind, Stat};

use super::located_directory::LocatedDirectory;
use super::transaction::{ChangeTransaction, Committed};
use crate::attributes::Attributes;
use crate::error::Error;
use crate::file::OpenFile;
use crate::name::Name;
use crate::object::{At, By, Object};
use crate::usage::CountedFile;

/// Target of a name, while its directory is locked.
pub(super) struct NameTarget {
    pub(super) object: Arc<Object>,
    pub(super) kind: FileKind,
    /// The file, where this lane has it open.
    pub(super) open: Option<Rc<OpenFile>>,
    /// Number of the file's names, where that was looked at.
    names: Option<u32>,
    /// The file's `Stat` just before it loses one of several names.
    before: Option<Stat>,
    /// The file, opened where this lane does not have it open: it shows how the file looks without the name.
    beside: Option<UnlinkProbe>,
}

/// A file kept open to observe its attributes once it has lost a name: they are read when this is dropped.
struct UnlinkProbe {
    object: Arc<Object>,
    file: File,
}

impl Drop for UnlinkProbe {
    fn drop(&mut self) {
        self.object.note_closing(|| self.file.stat());
    }
}

impl NameTarget {
    pub(super) fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }

    /// Checks that it has this number, if one is given.
    ///
    /// # Errors
    /// [`Error::Unexpected`].
    pub(super) fn require(&self, which: Option<Number>) -> Result<(), Error> {
        let is_it = which.is_none_or(|which| self.object.number() == which);
        if is_it { Ok(()) } else { Err(Error::Unexpected) }
    }

    /// Returns what its move breaks.
    pub(super) fn moves(&self) -> ChangeKind {
        if self.is_directory() { ChangeKind::Subtree } else { ChangeKind::Place }
    }

    /// Notes that the file has lost the name `name` in `directory`, perhaps its last: after a kill it is not
    /// closed.
    pub(super) fn lost(&self, directory: &Arc<Object>, name: &[u8]) {
        let is_last = self.is_directory() || !self.has_others();
        self.object.note_lost(directory, name, is_last);
    }

    /// Returns whether it has names left, after it has lost one.
    pub(super) fn has_others(&self) -> bool {
        self.names.is_none_or(|names| names > 1)
    }

    /// Reads the attributes just before the move of `name`: a move changes the change time but not the content.
    pub(super) async fn prepare_move(&self, parent: &LocatedDirectory, name: &CString) -> bool {
        if self.is_directory() {
            return false;
        }
        let before = match &self.open {
            Some(file) => file.lane_file().stat(),
            None => parent.directory().dir().stat_at(name).await,
        };
        before.iter().for_each(|before| self.object.note_metadata_change(before));
        let has_others = before.is_ok_and(|before| before.nlink > 1);
        if has_others && let Ok(directory) = parent.object() {
            self.object.note_other_than(directory, name.as_bytes());
        }
        has_others
    }

    /// Reads the attributes after the move to `name`, where this lane has no open file to read them by later.
    pub(super) async fn finish_move(
        &self,
        transaction: &ChangeTransaction<Committed>,
        there: &LocatedDirectory,
        name: &CString,
    ) {
        if self.open.is_none() {
            transaction.note_attributes_after(&self.object, there.directory().dir().stat_at(name).await);
        }
    }

    /// Counts the names of the file just before it loses `name`. Clients had to be notified since it was found, and a
    /// program beside the server may have given it another name.
    pub(super) async fn count_names(
        &mut self,
        parent: &LocatedDirectory,
        name: &CString,
    ) -> Result<(), Error> {
        if self.is_directory() {
            return Ok(());
        }
        let stat = match (&self.open, self.names) {
            (Some(file), _) => file.lane_file().stat()?,
            // With its last name the index would forget it.
            (None, Some(names)) if names > 1 || self.object.is_known() => {
                parent.directory().dir().stat_at(name).await.map_err(Error::of_change)?
            }
            (None, _) => return Ok(()),
        };
        (self.names, self.before) = (Some(stat.nlink), Some(stat));
        if stat.nlink > 1 && self.kind == FileKind::File && self.open.is_none() {
            let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
            let file = parent.directory().dir().open(name, how).await.ok();
            self.beside = file.map(|file| UnlinkProbe { object: Arc::clone(&self.object), file });
        }
        Ok(())
    }

    /// Notes that the file is about to lose a name.
    pub(super) fn prepare_unlink(&self) {
        let before = self.before.iter().filter(|before| before.nlink > 1);
        before.for_each(|before| self.object.note_metadata_change(before));
    }
}

impl LocatedDirectory {
    /// Finds what `name` leads to, links not followed: as this lane knows it as a sharer, else as the file system has
    /// it.
    pub(super) async fn find(&self, name: Name<'_>) -> Result<Option<NameTarget>, Error> {
        if let Some(node) = self.kept(name)
            && let Some(object) = node.object()
        {
            if self.volume().withholds(node.id()) {
                return Err(Error::Hidden);
            }
            let object = Arc::clone(object);
            return Ok(Some(NameTarget {
                object,
                kind: node.kind(),
                open: node.into_file(),
                names: None,
                before: None,
                beside: None,
            }));
        }
        self.find_new(&c_name(name)).await
    }

    /// Confirms that `found` has the number `which`, if one is given, and still has the name: events of changes by
    /// other programs may come later, or be suspended. The directory is locked.
    ///
    /// # Errors
    /// [`Error::Unexpected`].
    pub(super) async fn confirm(
        &self,
        name: Name<'_>,
        found: &NameTarget,
        which: Option<Number>,
    ) -> Result<(), Error> {
        found.require(which)?;
        // Where its names are known it was looked at just now.
        if which.is_none() || found.names.is_some() {
            return Ok(());
        }
        let now = self.find_new(&c_name(name)).await?;
        let is_it = now.is_some_and(|now| Arc::ptr_eq(&now.object, &found.object));
        if is_it { Ok(()) } else { Err(Error::Unexpected) }
    }

    /// Finds a name of which this lane knows nothing ([`LocatedDirectory::find`]).
    pub(super) async fn find_new(&self, name: &CString) -> Result<Option<NameTarget>, Error> {
        match self.directory().dir().stat_at(name).await {
            Ok(stat) => self.found(name, &stat).await.map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::of_change(error)),
        }
    }

    /// Returns what the usage count of the volume has to know of a file that goes or moves, where usage is counted.
    /// The file is looked at under its own change lock, as its content may have changed since it was found.
    pub(super) async fn known(
        &self,
        name: Name<'_>,
        found: &NameTarget,
    ) -> Result<Option<CountedFile>, Error> {
        if !self.volume().is_accounted() {
            return Ok(None);
        }
        let attributes = match &found.open {
            Some(file) => file.attributes()?,
            None => {
                let stat = self.directory().dir().stat_at(&c_name(name)).await;
                stat.map_err(Error::of_change)?.into()
            }
        };
        let known = CountedFile::from(attributes);
        Ok(Some(CountedFile { attributes: self.bytes_of_attributes(name, found).await, ..known }))
    }

    /// Returns what the usage count has to know of what moves ([`LocatedDirectory::known`]): of a directory nothing.
    pub(super) async fn known_to_move(
        &self,
        name: Name<'_>,
        found: &NameTarget,
    ) -> Result<Option<CountedFile>, Error> {
        if found.is_directory() { Ok(None) } else { self.known(name, found).await }
    }

    /// Bytes of its attributes; none of what the server may not open, which it served to nobody.
    async fn bytes_of_attributes(&self, name: Name<'_>, found: &NameTarget) -> u64 {
        let volume = self.volume();
        match (found.kind, &found.open) {
            (FileKind::File, _) if !volume.may_have_attributes() => 0,
            (FileKind::File, Some(file)) => volume.bytes_of_attributes(file.lane_file(), false).await,
            (FileKind::File | FileKind::Directory, _) => match self.open_described(name).await {
                Ok(file) => volume.bytes_of_attributes(&file, found.is_directory()).await,
                Err(_) => 0,
            },
            _ => 0,
        }
    }

    async fn found(&self, name: &CString, stat: &Stat) -> Result<NameTarget, Error> {
        let shared = self.volume().shared().ok_or(Error::ReadOnly)?;
        if self.volume().withholds(Attributes::from(*stat).id) {
            return Err(Error::Hidden);
        }
        let at = At { directory: self.object()?, name: name.as_bytes() };
        let by = By::Name(self.directory().dir(), name);
        let object = shared.object_of(self.volume().root().dir(), by, stat, Some(at)).await?;
        Ok(NameTarget {
            object,
            kind: stat.kind,
            open: None,
            names: Some(stat.nlink),
            before: None,
            beside: None,
        })
    }
}

/// Converts a name for the kernel.
pub(crate) fn c_name(name: Name<'_>) -> CString {
    CString::new(name.as_bytes()).expect("a Name holds no zero byte")
}
