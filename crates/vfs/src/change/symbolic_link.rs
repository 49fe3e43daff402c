//! Symbolic links as themselves: what clients see of them that follow them on their own.

use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::FileKind;

use super::located_directory::Interrupted;
use super::name_target::c_name;
use crate::attributes::Attributes;
use crate::cache::WatchedDir;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object::{At, By, Object};

/// A symbolic link, not followed.
#[derive(Clone, Debug)]
pub struct SymbolicLink {
    /// Object of the link, which lanes share.
    pub object: Arc<Object>,
    /// Attributes of the link when it was read.
    pub attributes: Attributes,
    /// Text of the link.
    pub target: Vec<u8>,
}

impl Directory {
    /// Finds the symbolic link `name` itself. Takes [`Rights::LOOKUP`].
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotServable`] for what is no link; else as [`Directory::create`].
    pub fn symbolic_link<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
    ) -> LocalBoxFuture<'a, Result<SymbolicLink, Error>> {
        Box::pin(async move { Ok(self.symbolic_link_seen(caller, name).await?.0) })
    }

    /// Reads a symbolic link ([`Directory::symbolic_link`]), with the directory that the caller's rights rest
    /// on.
    pub(crate) async fn symbolic_link_seen(
        &self,
        caller: &Caller,
        name: Name<'_>,
    ) -> Result<(SymbolicLink, Rc<WatchedDir>), Error> {
        self.attempts(async || self.try_symbolic_link(caller, name).await).await
    }

    async fn try_symbolic_link(
        &self,
        caller: &Caller,
        name: Name<'_>,
    ) -> Result<(SymbolicLink, Rc<WatchedDir>), Interrupted> {
        if name.is_reserved() {
            return Err(Error::Reserved.into());
        }
        let parent = self.locate_to_read().await?;
        parent.require(caller, Rights::LOOKUP)?;
        let look = parent.look_at(name);
        let (dir, entry) = (parent.directory().dir(), c_name(name));
        let stat = dir.stat_at(&entry).await.map_err(Error::of_change)?;
        if stat.kind != FileKind::Symlink {
            return Err(Error::NotServable.into());
        }
        if parent.directory().withholds(name.as_bytes(), &stat) {
            return Err(Error::Hidden.into());
        }
        let shared = self.volume().shared().ok_or(Error::ReadOnly)?;
        let at = Some(At { directory: parent.object()?, name: name.as_bytes() });
        let object = shared.object_of(self.volume().root().dir(), By::Name(dir, &entry), &stat, at).await?;
        parent.note_seen(name, Some(&object), look.as_ref());
        let target = dir.read_link_at(&entry).await.map_err(Error::of_change)?;
        parent.ensure_current()?;
        let watched = parent.watched_rc().ok_or(Interrupted::Retry(None))?;
        Ok((SymbolicLink { object, attributes: stat.into(), target }, watched))
    }
}
