//! Names that lead to what is there already, and links that say where to look.

use std::ffi::CString;

use identity::Rights;
use index::Number;
use lane::fs::{FileKind, OpenHow, OpenKind};

use super::find::c_name;
use super::here::Unmade;
use super::way::to_the_end;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{Name, NameError};
use crate::promise::What;

impl Directory {
    /// Gives the file `from` of this directory the name `to` as well. Names in other directories would have other
    /// rights, so there are none, as in AFS. Takes [`Rights::INSERT`] here and [`Rights::WRITE`] on the file.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::TooManyLinks`]; [`Error::NotServable`] for what is no file;
    /// else as [`Directory::create`].
    pub async fn link(&self, caller: &Caller, from: Name<'_>, to: Name<'_>) -> Result<(), Error> {
        self.attempts(async || self.try_link(caller, from, to, None).await).await
    }

    /// As [`Directory::link`], of the file of this number, if `from` still leads to it.
    ///
    /// # Errors
    /// [`Error::Unexpected`] where it does not; as [`Directory::link`].
    pub async fn link_if(
        &self,
        caller: &Caller,
        which: Number,
        from: Name<'_>,
        to: Name<'_>,
    ) -> Result<(), Error> {
        self.attempts(async || self.try_link(caller, from, to, Some(which)).await).await
    }

    /// Makes the symbolic link `name` that says `target`, whatever that is. Takes [`Rights::INSERT`].
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Name`] for an empty target or one with a zero byte; else as [`Directory::create`].
    pub async fn symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<(), Error> {
        self.attempts(async || self.try_symlink(caller, name, target).await).await
    }

    /// What the symbolic link `name` says. Takes [`Rights::LOOKUP`].
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotServable`] for what is no link; else as [`Directory::create`].
    pub async fn read_link(&self, caller: &Caller, name: Name<'_>) -> Result<Vec<u8>, Error> {
        self.attempts(async || {
            if name.is_reserved() {
                return Err(Error::Reserved.into());
            }
            let here = self.here_to_read().await?;
            here.require(caller, Rights::LOOKUP)?;
            let said = here.directory().dir().read_link_at(&c_name(name)).await;
            Ok(said.map_err(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => Error::NotServable,
                _ => Error::of_change(error),
            })?)
        })
        .await
    }

    async fn try_link(
        &self,
        caller: &Caller,
        from: Name<'_>,
        to: Name<'_>,
        which: Option<Number>,
    ) -> Result<(), Unmade> {
        let here = self.here_for(caller, to, Rights::INSERT).await?;
        if from.is_reserved() {
            return Err(Error::Reserved.into());
        }
        let (permits, found) = here.permits_of(from).await?;
        let found = found.ok_or(Error::NotFound)?;
        found.require(which)?;
        if found.kind != FileKind::File {
            return Err(Error::NotServable.into());
        }
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        let file = self.dir().open(&c_name(from), how).await.map_err(Error::of_change)?;
        let own = here.own_of(from, &found.object).await?;
        here.require_of(caller, &file.stat().map_err(Error::from)?.into(), own.as_ref(), Rights::WRITE)?;
        let what = vec![(here.object()?, What::name(to.as_bytes())), (&found.object, What::Attributes)];
        let way = self.volume().tell(caller, permits, what).await?;
        let to = c_name(to);
        to_the_end(way.held(), async move {
            here.still()?;
            way.rise();
            way.done(here.directory().dir().link(&file, &to).await)?;
            way.added(here.object()?, to.as_bytes(), found.object.number());
            way.end(here.volume());
            Ok(())
        })
        .await
    }

    async fn try_symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<(), Unmade> {
        if target.is_empty() {
            return Err(Error::Name(NameError::Empty).into());
        }
        let target = CString::new(target).map_err(|_| Error::Name(NameError::Nul))?;
        let here = self.here_for(caller, name, Rights::INSERT).await?;
        let permits = here.permit().await?;
        let way = here.tell_of(caller, permits, name).await?;
        let (name, owner) = (c_name(name), here.volume().owner_of_new(caller));
        to_the_end(way.held(), async move {
            here.still()?;
            let charge = here.volume().charge(1, 0)?;
            way.rise();
            way.done(here.directory().dir().symlink(&name, &target).await)?;
            charge.made_in(here.volume(), here.object()?);
            owner.give_at(here.volume(), here.directory().dir(), &name).await;
            if way.is_kept(here.object()?)
                && let Ok(Some(link)) = here.find_new(&name).await
            {
                way.added(here.object()?, name.as_bytes(), link.object.number());
            }
            way.end(here.volume());
            Ok(())
        })
        .await
    }
}
