//! Access lists: read, replaced, and given to new directories.

use std::ffi::CString;

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::{Acl, Nearest, Rights};
use lane::fs::Dir;

use super::located_directory::{Interrupted, LocatedDirectory};
use crate::access::require;
use crate::attributes::Attributes;
use crate::caller::Caller;
use crate::descriptor::Own;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{Name, RelPathBuf};
use crate::object::Object;
use crate::usage::AttributeEdit;

impl Directory {
    /// Returns the access list that counts in this directory: its own, or that of the nearest one above. Takes
    /// [`Rights::LOOKUP`].
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::ReadOnly`], [`Error::Stale`].
    pub fn access_list<'a>(&'a self, caller: &'a Caller) -> LocalBoxFuture<'a, Result<Nearest, Error>> {
        Box::pin(async move {
            self.attempts(async || {
                let parent = self.locate_to_read().await?;
                parent.require(caller, Rights::LOOKUP)?;
                Ok(parent.nearest())
            })
            .await
        })
    }

    /// Gives the directory this access list, or with `None` that of the nearest one above. Takes
    /// [`Rights::ADMINISTER`]. Rights that any user has because of the old one are gone when this is done.
    ///
    /// # Errors
    /// [`Error::Busy`] where the index cannot remember that the directory has one, and the list is the one from before; as
    /// [`Directory::create`].
    pub fn set_access_list<'a>(
        &'a self,
        caller: &'a Caller,
        acl: Option<&'a Acl>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.attempts(async || self.try_set_access_list(caller, acl).await).await })
    }

    async fn try_set_access_list(&self, caller: &Caller, acl: Option<&Acl>) -> Result<(), Interrupted> {
        let parent = self.locate().await?;
        parent.require(caller, Rights::ADMINISTER)?;
        let locks = parent.lock_directory().await?;
        parent.ensure_current()?;
        let value = acl.map(Acl::encode);
        let path = RelPathBuf::from(parent.path());
        let change = parent.change_directory(caller, locks, ChangeKind::Rights, async move |directory| {
            let volume = directory.volume();
            let file = directory.dir().as_file();
            let (object, shared) = (directory.changed()?, volume.shared().ok_or(Error::ReadOnly)?);
            if value.is_some() {
                let root = volume.root().dir();
                shared.remember_list_to_come(root, object, path.as_path(), file).await?;
            } else {
                shared.forget_list(Some(object), path.as_path());
                shared.lists_are_kept().await?;
            }
            let has_one = value.is_some();
            let list = volume.root().rights_storage().bytes_of_list(value.as_deref());
            let set = async {
                let set = volume.root().rights_storage().set_list(file, value).await;
                set.map_err(Error::of_write)?;
                // The list is to count.
                if object.own().is_some() {
                    object.write_own(file, None).await?;
                }
                Ok(())
            };
            let set = volume.change_attributes(file, Some(object), AttributeEdit::Several(list), set).await;
            if set.is_err() && has_one {
                shared.forget_list_unless_there(object, path.as_path(), file).await;
            }
            set
        });
        change.await?;
        parent.rights_are_kept().await
    }
}

impl LocatedDirectory {
    /// Checks whether the caller has these rights over something in the directory that is no directory.
    pub(super) fn require_of(
        &self,
        caller: &Caller,
        of: &Attributes,
        own: Option<&Own>,
        need: Rights,
    ) -> Result<(), Error> {
        require(self.rights_of(caller, of, own), need)
    }

    /// Checks whether the caller may write to a file. A protocol that tells these apart may have granted an
    /// open the right to append alone.
    pub(super) fn require_to_write(
        &self,
        caller: &Caller,
        of: &Attributes,
        own: Option<&Own>,
    ) -> Result<(), Error> {
        let rights = self.rights_of(caller, of, own);
        let appends = caller.open.is_some() && rights.contains(Rights::APPEND);
        if appends { Ok(()) } else { require(rights, Rights::WRITE) }
    }

    fn rights_of(&self, caller: &Caller, of: &Attributes, own: Option<&Own>) -> Rights {
        let watched = self.watched().zip(self.volume().root().policy());
        watched
            .map_or(Rights::NONE, |(watched, policy)| watched.rights_of(&caller.principal, policy, of, own))
    }

    /// Has the directory's own rights on the disk before an answer says that they count.
    pub(super) async fn rights_are_kept(&self) -> Result<(), Interrupted> {
        match self.directory().dir().sync().await {
            // Not every file system syncs directories.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(()),
            synced => Ok(synced.map_err(Error::of_write)?),
        }
    }

    /// Gives a directory just made here the list that counts here, as AFS does; says whether there is one.
    pub(super) async fn give_list(&self, made: &Dir) -> Result<bool, Error> {
        let Some(list) = self.nearest().for_new_directory() else { return Ok(false) };
        let keeping = self.volume().root().rights_storage();
        keeping.give_list(made.as_file(), list).await.map_err(Error::of_write)?;
        Ok(true)
    }

    /// Remembers of a directory just made here whether it has a list of its own, or a descriptor: not what was there
    /// before by this name.
    pub(super) fn remember_made(&self, name: Name<'_>, made: &Object, has_list: bool) {
        let (Some(shared), Ok(path)) = (self.volume().shared(), self.path().join(name)) else { return };
        match has_list || made.own().is_some() {
            true => shared.remember_list(self.volume().root().dir(), made, path.as_path(), None),
            false => shared.forget_list(Some(made), path.as_path()),
        }
    }

    /// Forgets the lists of what has this name, which another directory is about to have: what is remembered
    /// of one that had it before is forgotten for good.
    pub(super) async fn forget_lists(&self, name: &CString) -> Result<(), Error> {
        match (self.volume().shared(), self.path_of(name)) {
            (Some(shared), Some(path)) => shared.forget_lists(path.as_path()).await,
            _ => Ok(()),
        }
    }

    /// Forgets the list of a directory that had this name and is no more.
    pub(super) fn forget_list(&self, name: &CString) {
        if let (Some(shared), Some(path)) = (self.volume().shared(), self.path_of(name)) {
            shared.forget_list(None, path.as_path());
        }
    }

    /// Moves what is remembered of a directory that was moved, and of all that lies beneath.
    pub(super) fn move_lists(&self, from: &CString, there: &Self, to: &CString) {
        let paths = self.path_of(from).zip(there.path_of(to));
        if let (Some(shared), Some((from, to))) = (self.volume().shared(), paths) {
            shared.move_lists(self.volume().root().dir(), from.as_path(), to.as_path());
        }
    }

    /// Exchanges the lists of two names ([`LocatedDirectory::move_lists`]) that have changed places.
    pub(super) fn exchange_lists(&self, one: &CString, there: &Self, other: &CString) {
        let paths = self.path_of(one).zip(there.path_of(other));
        if let (Some(shared), Some((one, other))) = (self.volume().shared(), paths) {
            shared.exchange_lists(self.volume().root().dir(), one.as_path(), other.as_path());
        }
    }

    fn path_of(&self, name: &CString) -> Option<RelPathBuf> {
        self.path().child(name.as_bytes())
    }

    pub(super) fn nearest(&self) -> Nearest {
        self.watched().map_or(Nearest::Unreadable, |watched| watched.nearest())
    }
}
