//! Names that lead to what is there already, and links that say where to look.

use std::ffi::CString;
use std::sync::Arc;

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use index::Number;
use lane::fs::{FileKind, OpenHow, OpenKind};

use super::hard_links::HardLinkRule;
use super::located_directory::{Interrupted, LocatedDirectory};
use super::name_target::{NameTarget, c_name};
use super::rename::Replace;
use super::staged_name::StagedName;
use super::transaction::run_to_completion;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::{Name, NameError};
use crate::object::ChangeLockSet;
use crate::object_attributes::attributes_of;
use crate::usage::CountedFile;

impl Directory {
    /// Gives the file `from` of this directory the name `to` as well. Takes [`Rights::INSERT`] here and
    /// [`Rights::WRITE`] on the file.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`], [`Error::TooManyLinks`]; [`Error::NotServable`] for what is no file;
    /// else as [`Directory::create`].
    pub fn link<'a>(
        &'a self,
        caller: &'a Caller,
        from: Name<'a>,
        to: Name<'a>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.link_of(caller, (None, from), (self, to), Replace::Never).await })
    }

    /// Links the file of this number ([`Directory::link`]), if `from` still leads to it.
    ///
    /// # Errors
    /// [`Error::Unexpected`] where it does not; as [`Directory::link`].
    pub fn link_if<'a>(
        &'a self,
        caller: &'a Caller,
        which: Number,
        from: Name<'a>,
        to: Name<'a>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.link_of(caller, (Some(which), from), (self, to), Replace::Never).await })
    }

    /// Links a file to a name in `to_directory` ([`Directory::link_if`]), in one step in place of the file
    /// that has it where that may be. Takes [`Rights::INSERT`] there, and [`Rights::DELETE`] where something
    /// is replaced. In another directory the name is had only where no user gets or loses rights by it:
    /// docs/design/vfs.md says when that is.
    ///
    /// # Errors
    /// [`Error::Denied`] where a user would, and the caller lacks [`Rights::ADMINISTER`] here;
    /// [`Error::CrossDevice`] in another volume; [`Error::IsADirectory`] where that has the name; as
    /// [`Directory::link_if`].
    pub fn link_to<'a>(
        &'a self,
        caller: &'a Caller,
        which: Number,
        from: Name<'a>,
        to_directory: &'a Self,
        to: Name<'a>,
        over: Replace,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if !self.volume().is_same(to_directory.volume()) {
                return self.volume().counted(Err(Error::CrossDevice));
            }
            self.link_of(caller, (Some(which), from), (to_directory, to), over).await
        })
    }

    /// Makes the symbolic link `name` that says `target`, whatever that is. Takes [`Rights::INSERT`].
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::Name`] for an empty target or one with a zero byte; else as [`Directory::create`].
    pub fn symlink<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
        target: &'a [u8],
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move { self.attempts(async || self.try_symlink(caller, name, target).await).await })
    }

    /// Returns what the symbolic link `name` says. Takes [`Rights::LOOKUP`].
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotServable`] for what is no link; else as [`Directory::create`].
    pub fn read_link<'a>(
        &'a self,
        caller: &'a Caller,
        name: Name<'a>,
    ) -> LocalBoxFuture<'a, Result<Vec<u8>, Error>> {
        Box::pin(async move {
            self.attempts(async || {
                if name.is_reserved() {
                    return Err(Error::Reserved.into());
                }
                let parent = self.locate_to_read().await?;
                parent.require(caller, Rights::LOOKUP)?;
                let said = parent.directory().dir().read_link_at(&c_name(name)).await;
                Ok(said.map_err(|error| match error.raw_os_error() {
                    Some(libc::EINVAL) => Error::NotServable,
                    _ => Error::of_change(error),
                })?)
            })
            .await
        })
    }

    async fn link_of(
        &self,
        caller: &Caller,
        from: (Option<Number>, Name<'_>),
        to: (&Self, Name<'_>),
        over: Replace,
    ) -> Result<(), Error> {
        self.attempts(async || self.try_link(caller, from, to, over).await).await
    }

    async fn try_link(
        &self,
        caller: &Caller,
        (which, from): (Option<Number>, Name<'_>),
        (to_directory, to): (&Self, Name<'_>),
        over: Replace,
    ) -> Result<(), Interrupted> {
        let new_parent = to_directory.locate_for(caller, to, Rights::INSERT).await?;
        let parent = self.locate_for(caller, from, Rights::NONE).await?;
        let (locks, (found, mut replaced)) = lock_to_link(&parent, from, &new_parent, to).await?;
        parent.confirm(from, &found, which).await?;
        if found.kind != FileKind::File {
            return Err(Error::NotServable.into());
        }
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        let file = self.dir().open(&c_name(from), how).await.map_err(Error::of_change)?;
        let own = parent.own_of(from, &found.object).await?;
        let of = attributes_of(&file.stat().map_err(Error::from)?, Some(&found.object));
        parent.require_of(caller, &of, own.as_ref(), Rights::WRITE)?;
        let is_across = !Arc::ptr_eq(parent.object()?, new_parent.object()?);
        let several =
            if is_across { Some(parent.may_share(caller, &new_parent, own.as_ref())?) } else { None };
        if let Some(replaced) = &replaced {
            if is_name_of_it(replaced, &found, over)? {
                return Ok(());
            }
            new_parent.require_to_unlink(caller, to, replaced).await?;
        }
        self.volume().check_opens_of_replaced(caller, replaced.as_ref())?;
        let attributes = match self.volume().is_accounted() && self.volume().may_have_attributes() {
            true => self.volume().bytes_of_attributes(&file, false).await,
            false => 0,
        };
        let known = CountedFile { links: of.nlink + 1, attributes, ..of.into() };
        let known_replaced = match &replaced {
            Some(replaced) => new_parent.known(to, replaced).await?,
            None => None,
        };
        let mut what = vec![
            (new_parent.object()?, ChangeKind::name(to.as_bytes())),
            (&found.object, ChangeKind::Attributes),
        ];
        what.extend(replaced.iter().map(|replaced| (&replaced.object, ChangeKind::Gone)));
        let transaction = self.volume().prepare_change(caller, locks, what).await?;
        let transaction = transaction.without_directory_breaks();
        let (from, to) = (c_name(from), c_name(to));
        run_to_completion(transaction.keep_alive(), async move {
            if let Some(replaced) = &mut replaced {
                replaced.count_names(&new_parent, &to).await?;
            }
            parent.ensure_current()?;
            new_parent.ensure_current()?;
            let transaction = transaction.bump_version();
            replaced.iter().for_each(NameTarget::prepare_unlink);
            // Its content stays as it is, and its change time does not.
            file.stat().iter().for_each(|before| found.object.note_metadata_change(before));
            let staged_name = StagedName::for_linked(new_parent.directory());
            let given = staged_name.give(&file, new_parent.directory().dir(), &to, replaced.is_none()).await;
            let (transaction, ()) = transaction.done(given)?;
            if let Some(replaced) = &replaced {
                new_parent.has_lost(&to, replaced).await?;
                new_parent.volume().note_removed(new_parent.object()?, known_replaced);
                transaction.removed(new_parent.object()?, to.as_bytes());
            }
            if several.is_some() {
                new_parent.volume().note_moved(parent.object()?, new_parent.object()?, Some(known));
            }
            let from = Name::parse(from.as_bytes()).map_err(Error::from)?;
            let to = Name::parse(to.as_bytes()).map_err(Error::from)?;
            note_names(several, &found, (&parent, from), (&new_parent, to))?;
            transaction.added(new_parent.object()?, to.as_bytes(), found.object.number());
            transaction.note_attributes_after(&found.object, file.stat());
            transaction.end(new_parent.volume());
            Ok(())
        })
        .await
    }

    async fn try_symlink(&self, caller: &Caller, name: Name<'_>, target: &[u8]) -> Result<(), Interrupted> {
        if target.is_empty() {
            return Err(Error::Name(NameError::Empty).into());
        }
        let target = CString::new(target).map_err(|_| Error::Name(NameError::Nul))?;
        let parent = self.locate_for(caller, name, Rights::INSERT).await?;
        let locks = parent.lock_directory().await?;
        let transaction = parent.prepare_name_change(caller, locks, name).await?;
        let (name, owner) = (c_name(name), parent.owner_of_new(caller)?);
        run_to_completion(transaction.keep_alive(), async move {
            parent.volume().spare_name(parent.directory().dir()).await?;
            parent.ensure_current()?;
            let charge = parent.volume().charge(1, 0)?;
            let transaction = transaction.bump_version();
            let (transaction, ()) =
                transaction.done(parent.directory().dir().symlink(&name, &target).await)?;
            owner.give_at(parent.volume(), parent.directory().dir(), &name).await?;
            charge.made_in(parent.volume(), parent.object()?);
            if transaction.is_kept(parent.object()?)
                && let Ok(Some(link)) = parent.find_new(&name).await
            {
                transaction.added(parent.object()?, name.as_bytes(), link.object.number());
            }
            transaction.end(parent.volume());
            Ok(())
        })
        .await
    }
}

async fn lock_to_link(
    parent: &LocatedDirectory,
    from: Name<'_>,
    new_parent: &LocatedDirectory,
    to: Name<'_>,
) -> Result<(ChangeLockSet, (NameTarget, Option<NameTarget>)), Error> {
    let names = async || {
        let found = parent.find(from).await?.ok_or(Error::NotFound)?;
        let replaced = new_parent.find(to).await?;
        let objects =
            std::iter::once(&found).chain(&replaced).map(|found| Arc::clone(&found.object)).collect();
        Ok(((found, replaced), objects))
    };
    parent.volume().lock_objects(&[parent.object()?, new_parent.object()?], names).await
}

/// Returns whether what has the new name is the file itself, so that nothing is to be done; else it may go.
fn is_name_of_it(replaced: &NameTarget, found: &NameTarget, over: Replace) -> Result<bool, Error> {
    match over {
        Replace::Never => Err(Error::Exists),
        Replace::Existing if Arc::ptr_eq(&replaced.object, &found.object) => Ok(true),
        Replace::Existing if replaced.is_directory() => Err(Error::IsADirectory),
        Replace::Existing => Ok(false),
    }
}

/// Notes where the file is found by its number from here on. That is by its newest name, which is likely to be there
/// the longest, and which is recorded on the disk. Where rights differ, and within its directory, it stays where it
/// was.
fn note_names(
    several: Option<HardLinkRule>,
    found: &NameTarget,
    (parent, from): (&LocatedDirectory, Name<'_>),
    (new_parent, to): (&LocatedDirectory, Name<'_>),
) -> Result<(), Error> {
    match several {
        Some(HardLinkRule::Alike) => {
            new_parent.directory().note_place(Some(&found.object), to);
            parent.note_other_name(&found.object, from)
        }
        Some(HardLinkRule::Administered) | None => new_parent.note_other_name(&found.object, to),
    }
}
