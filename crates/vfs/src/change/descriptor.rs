//! Security descriptors of single files and directories: seen, replaced, and handed down to what is made.

use std::sync::Arc;

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use index::Kind;
use lane::fs::{File, OpenHow, OpenKind};
use smb_sid::Sids;
use smb_wire::info::security::Descriptor;

use super::located_directory::LocatedDirectory;
use super::name_target::c_name;
use super::transaction::{ChangeTransaction, Committed, run_to_completion};
use crate::caller::Caller;
use crate::descriptor::Own;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{Name, RelPathBuf};
use crate::object::{EventMask, Object};
use crate::usage::{AttributeEdit, bytes_of_descriptor};

/// The security descriptor that a new file gets.
pub(super) type Gift = Option<Arc<Descriptor>>;

impl Object {
    /// Returns whether it has a security descriptor of its own.
    pub fn is_described(&self) -> bool {
        self.own().is_some()
    }

    /// Returns the file's own security descriptor. One that cannot be read is one that grants nothing.
    pub fn descriptor(&self) -> Option<Arc<Descriptor>> {
        match self.own()? {
            Own::Known(descriptor) => Some(descriptor),
            Own::Unreadable => Some(Arc::new(Descriptor { dacl: Some(Vec::new()), ..Descriptor::default() })),
        }
    }
}

impl Directory {
    /// Gives the directory a security descriptor of its own. The caller's rights were checked before: an open
    /// that was granted it keeps that right.
    ///
    /// # Errors
    /// [`Error::NoSpace`] where the file system cannot hold it; [`Error::Busy`] where the index cannot remember that it is there; as
    /// [`Directory::create`].
    pub fn set_descriptor<'a>(
        &'a self,
        caller: &'a Caller,
        descriptor: &'a Arc<Descriptor>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || {
                let parent = self.locate().await?;
                let locks = parent.lock_directory().await?;
                parent.ensure_current()?;
                let (descriptor, path) = (Arc::clone(descriptor), RelPathBuf::from(parent.path()));
                let change =
                    parent.change_directory(caller, locks, ChangeKind::Rights, async move |directory| {
                        let (object, volume) = (directory.changed()?, directory.volume());
                        let (file, shared) =
                            (directory.dir().as_file(), volume.shared().ok_or(Error::ReadOnly)?);
                        let root = volume.root().dir();
                        shared.remember_list_to_come(root, object, path.as_path(), file).await?;
                        let write = object.write_own(file, Some(&descriptor));
                        let edit = AttributeEdit::Several(bytes_of_descriptor(&descriptor));
                        let written = volume.change_attributes(file, Some(object), edit, write).await;
                        if written.is_err() {
                            shared.forget_list_unless_there(object, path.as_path(), file).await;
                        }
                        written
                    });
                change.await?;
                parent.rights_are_kept().await
            })
            .await
        })
    }

    /// Gives the file `name` here, if that is `which`, a descriptor of its own
    /// ([`Directory::set_descriptor`]).
    ///
    /// # Errors
    /// [`Error::Stale`] or [`Error::Unexpected`] where the name leads to another; as there.
    pub fn set_descriptor_of<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
        which: &'a Arc<Object>,
        descriptor: &'a Arc<Descriptor>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || {
                let parent = self.locate_for(caller, name, Rights::NONE).await?;
                let (locks, found) = parent.lock_with_name(name).await?;
                let found = found.filter(|found| Arc::ptr_eq(&found.object, which)).ok_or(Error::Stale)?;
                parent.confirm(name, &found, Some(which.number())).await?;
                let file = parent.open_described(name).await?;
                let transaction = self
                    .volume()
                    .prepare_change(caller, locks, vec![(&found.object, ChangeKind::Attributes)])
                    .await?;
                let (descriptor, object) = (Arc::clone(descriptor), Arc::clone(which));
                run_to_completion(transaction.keep_alive(), async move {
                    parent.ensure_current()?;
                    // Its content stays as it is, and its change time does not.
                    file.stat().iter().for_each(|before| object.note_metadata_change(before));
                    let transaction = transaction.keep_versions();
                    let write = object.write_own(&file, Some(&descriptor));
                    let directory = (object.number().kind() != Kind::File).then_some(&object);
                    let edit = AttributeEdit::Several(bytes_of_descriptor(&descriptor));
                    parent.volume().change_attributes(&file, directory, edit, write).await?;
                    let transaction = transaction.committed();
                    transaction.note_attributes_after(&object, file.stat());
                    record_rights(transaction, &parent, &object);
                    Ok(())
                })
                .await
            })
            .await
        })
    }
}

impl LocatedDirectory {
    /// Checks whether the caller may make a file here, or a directory: lists do not tell these apart,
    /// descriptors do.
    pub(super) fn require_to_make(&self, caller: &Caller, is_directory: bool) -> Result<(), Error> {
        let part = if is_directory { Rights::INSERT_DIRECTORY } else { Rights::INSERT_FILE };
        match self.require(caller, part) {
            Ok(()) => Ok(()),
            Err(_) => self.require(caller, Rights::INSERT),
        }
    }

    /// Returns the descriptor of something that the caller makes in this directory: what is asked for, else what it
    /// inherits; none where the directory has none.
    ///
    /// # Errors
    /// [`Error::Denied`] below one that cannot be read, or whose entries do not fit into one: what would be inherited
    /// is not known.
    pub(super) fn gift(
        &self,
        caller: &Caller,
        is_directory: bool,
        asked: Option<&Arc<Descriptor>>,
    ) -> Result<Gift, Error> {
        if asked.is_some() {
            return Ok(asked.cloned());
        }
        let Some(own) = self.directory().object().and_then(|object| object.own()) else { return Ok(None) };
        let principal = &caller.principal;
        let owner = self.volume().sids().map(|sids| sids.of_id(principal.id())).ok_or(Error::ReadOnly)?;
        let group = Sids::of_gid(principal.gids().first().copied().unwrap_or(NOGROUP));
        let made = own.handed_down(is_directory, owner, group);
        made.map(|made| Some(Arc::new(made))).ok_or(Error::Denied(Rights::INSERT))
    }

    /// Returns what the file has of its own that `name` leads to, if that is `object`.
    pub(super) async fn own_of(&self, name: Name<'_>, object: &Object) -> Result<Option<Own>, Error> {
        if !object.is_own_read() {
            object.read_own(&self.open_described(name).await?).await?;
        }
        Ok(object.own())
    }

    pub(super) async fn open_described(&self, name: Name<'_>) -> Result<File, Error> {
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        self.directory().dir().open(&c_name(name), how).await.map_err(Error::of_change)
    }
}

/// Gives what was just made what it gets.
pub(super) async fn give(gift: &Gift, object: Option<&Arc<Object>>, file: &File) -> Result<(), Error> {
    match (object, gift) {
        (Some(object), Some(_)) => {
            object.write_own(file, gift.as_ref()).await?;
            object.note_published();
            Ok(())
        }
        _ => Ok(()),
    }
}

fn record_rights(transaction: ChangeTransaction<Committed>, parent: &LocatedDirectory, object: &Arc<Object>) {
    let volume = parent.volume();
    transaction.end(volume);
    if let Some(watches) = volume.shared().map(|shared| shared.watches()).filter(|watches| watches.any()) {
        watches.report_modified(object, EventMask::RIGHTS);
    }
}

/// POSIX's group of files without a known group.
const NOGROUP: u32 = 65534;
