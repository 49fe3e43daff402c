//! Access lists: read, replaced, and given to new directories.

use futures_util::future::LocalBoxFuture;
use identity::{Acl, Nearest, Rights};
use lane::fs::Dir;

use super::here::{Here, Unmade};
use crate::access::require;
use crate::attributes::Attributes;
use crate::caller::Caller;
use crate::descriptor::Own;
use crate::directory::Directory;
use crate::error::Error;
use crate::promise::What;

impl Directory {
    /// The access list that counts in this directory: its own, or that of the nearest one above. Takes
    /// [`Rights::LOOKUP`].
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::ReadOnly`], [`Error::Stale`].
    pub fn access_list<'a>(&'a self, caller: &'a Caller) -> LocalBoxFuture<'a, Result<Nearest, Error>> {
        Box::pin(async move {
            self.attempts(async || {
                let here = self.here_to_read().await?;
                here.require(caller, Rights::LOOKUP)?;
                Ok(here.nearest())
            })
            .await
        })
    }

    /// Gives the directory this access list, or with `None` that of the nearest one above. Takes [`Rights::ADMINISTER`].
    /// Rights that anybody has because of the old one are gone when this is done.
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub fn set_access_list<'a>(
        &'a self,
        caller: &'a Caller,
        acl: Option<&'a Acl>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.attempts(async || self.try_set_access_list(caller, acl).await).await })
    }

    async fn try_set_access_list(&self, caller: &Caller, acl: Option<&Acl>) -> Result<(), Unmade> {
        let here = self.here().await?;
        here.require(caller, Rights::ADMINISTER)?;
        let permits = here.permit().await?;
        here.still()?;
        let value = acl.map(Acl::encode);
        here.change_itself(caller, permits, What::Rights, async move |directory| {
            let volume = directory.volume();
            let file = directory.dir().as_file();
            if value.is_some()
                && let Some(shared) = volume.shared()
            {
                shared.note_rights();
            }
            let set = volume.root().keeping().set_list(file, value).await;
            set.map_err(Error::of_write)?;
            // The list is to count.
            let object = directory.changed()?;
            if object.own().is_some() {
                object.write_own(file, None).await?;
            }
            Ok(())
        })
        .await
    }
}

impl Here {
    /// Whether the caller has these rights over something in the directory that is no directory.
    pub(super) fn require_of(
        &self,
        caller: &Caller,
        of: &Attributes,
        own: Option<&Own>,
        need: Rights,
    ) -> Result<(), Error> {
        require(self.rights_of(caller, of, own), need)
    }

    /// Whether the caller may write to a file. Who has it open by a protocol that tells these apart may have been granted to append alone.
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

    /// Gives a directory just made here the list that counts here, as AFS does.
    pub(super) async fn give_list(&self, made: &Dir) -> Result<(), Error> {
        let Some(list) = self.nearest().for_new_directory() else { return Ok(()) };
        let keeping = self.volume().root().keeping();
        keeping.give_list(made.as_file(), list).await.map_err(Error::of_write)
    }

    pub(super) fn nearest(&self) -> Nearest {
        self.watched().map_or(Nearest::Unreadable, |watched| watched.nearest())
    }
}
