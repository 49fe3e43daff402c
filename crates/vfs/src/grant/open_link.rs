//! Opens of symbolic links themselves, for clients that follow links on their own or delete them.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use grants::Holder;
use identity::{Principal, Rights};

use super::open::ATTEMPTS_MAX;
use super::{Open, OpenError, OpenHow};
use crate::cache::WatchedDir;
use crate::caller::Caller;
use crate::change::SymbolicLink;
use crate::error::Error;
use crate::name::{RelPath, RelPathBuf};
use crate::volume::Volume;

/// A symbolic link with the caller's rights.
pub struct LinkWithRights {
    /// The link.
    pub link: SymbolicLink,
    volume: Volume,
    directory: Rc<WatchedDir>,
}

impl LinkWithRights {
    /// Returns the principal's rights over the link.
    pub fn rights(&self, principal: &Principal) -> Rights {
        let Some(policy) = self.volume.root().policy() else { return Rights::NONE };
        self.directory.rights_of(principal, policy, &self.link.attributes, None)
    }

    /// Returns whether the link is the principal's own
    /// ([`FoundWithRights::is_own`](crate::FoundWithRights::is_own)).
    pub fn is_own(&self, principal: &Principal) -> bool {
        self.link.attributes.owner().is_by_mode(principal)
    }

    /// Returns the present path of the directory that it lies in, past all links by which it was found.
    pub fn directory(&self) -> Option<RelPathBuf> {
        self.volume.path_of(self.directory.object()?)
    }
}

impl std::fmt::Debug for LinkWithRights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoundLink").field("link", &self.link).finish_non_exhaustive()
    }
}

impl Volume {
    /// Finds the symbolic link that `path` ends with; `None` where it ends with something else, with nothing, or where
    /// the caller may not see what. Links on the way are followed.
    ///
    /// # Errors
    /// As [`Volume::lookup_as`], of what is above.
    pub fn find_link<'a>(
        &'a self,
        caller: &'a Caller,
        path: RelPath<'a>,
    ) -> LocalBoxFuture<'a, Result<Option<LinkWithRights>, Error>> {
        Box::pin(async move {
            let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
            if self.hides(path) {
                return Ok(None);
            }
            let above = self.lookup_as(caller, above, Rights::NONE).await?;
            let (above, _) = above.into_directory()?;
            match above.symbolic_link_seen(caller, name).await {
                Ok((link, directory)) => Ok(Some(LinkWithRights { link, volume: self.clone(), directory })),
                Err(Error::NotServable | Error::NotFound | Error::Reserved | Error::Denied(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Opens the symbolic link that `path` ends with, as [`Volume::open_shared`] opens what it leads to.
    ///
    /// # Errors
    /// As there; [`Error::NotFound`] where it ends with no link.
    pub fn open_link<'a>(
        &'a self,
        caller: &'a Caller,
        path: RelPath<'a>,
        how: &'a OpenHow<'a>,
        holder: &'a mut dyn FnMut(Holder),
    ) -> LocalBoxFuture<'a, Result<(Open, SymbolicLink), OpenError>> {
        Box::pin(async move {
            for _ in 0..ATTEMPTS_MAX {
                let found = self.find_link(caller, path).await?.ok_or(Error::NotFound)?;
                let object = found.link.object;
                let mut open = self.open_object(path, &object, false, how, holder).await?;
                open.is_link = true;
                // The name may have come to lead elsewhere meanwhile.
                let again = self.find_link(caller, path).await?.ok_or(Error::NotFound)?;
                if Arc::ptr_eq(&again.link.object, &object) {
                    return Ok((open, again.link));
                }
            }
            Err(self.unsettled(path, "opening a symbolic link").into())
        })
    }
}
