//! Moves names, within a directory and across.

use std::ffi::CString;
use std::sync::Arc;

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use index::Number;
use lane::fs::{FileKind, RenameHow};

use super::located_directory::{Interrupted, LocatedDirectory};
use super::name_target::{NameTarget, c_name};
use super::open_conflicts::OpenConflicts;
use super::transaction::{ChangeTransaction, Committed, run_to_completion};
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::grant::GrantSlot;
use crate::name::Name;
use crate::object::{ChangeLockSet, Object};
use crate::usage::CountedFile;

/// Target that a rename may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Nothing: [`Error::Exists`] where something has the new name.
    Never,
    /// The file with the new name: a file by a file, an empty directory by a directory.
    Existing,
}

/// Objects that a rename concerns.
struct Concerned {
    moved: NameTarget,
    replaced: Option<NameTarget>,
}

impl Directory {
    /// Gives what is `from` here the name `to` in `to_directory`, in one step. Two names of one file stay as they are.
    /// Takes [`Rights::DELETE`] here, [`Rights::INSERT`] there, and [`Rights::DELETE`] there too where something is
    /// replaced.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Exists`] with [`Replace::Never`]; [`Error::NotEmpty`], [`Error::IsADirectory`],
    /// [`Error::NotADirectory`] by what has the new name; [`Error::IntoItself`]; [`Error::CrossDevice`] in another
    /// volume, and for one of several names of a file that might not be [made](Directory::link_to) there; else as
    /// [`Directory::create`].
    pub fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Name<'a>,
        to_directory: &'a Self,
        to: Name<'a>,
        over: Replace,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(self.rename_of(caller, (None, from), (to_directory, to), over))
    }

    /// Renames what has this number ([`Directory::rename`]), if `from` still leads to it.
    ///
    /// # Errors
    /// [`Error::Unexpected`] where it does not; as [`Directory::rename`].
    pub fn rename_if<'a>(
        &'a self,
        caller: &'a Caller,
        which: Number,
        from: Name<'a>,
        to_directory: &'a Self,
        to: Name<'a>,
        over: Replace,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(self.rename_of(caller, (Some(which), from), (to_directory, to), over))
    }

    async fn rename_of(
        &self,
        caller: &Caller,
        from: (Option<Number>, Name<'_>),
        to: (&Self, Name<'_>),
        over: Replace,
    ) -> Result<(), Error> {
        if !self.volume().is_same(to.0.volume()) {
            return self.volume().counted(Err(Error::CrossDevice));
        }
        let conflicts = OpenConflicts::default();
        let renamed = self.attempts(async || self.try_rename(caller, from, to, over, &conflicts).await).await;
        if renamed.is_ok() {
            self.volume().note_finished(self.path(), from.1);
        }
        renamed
    }

    async fn try_rename(
        &self,
        caller: &Caller,
        (which, from): (Option<Number>, Name<'_>),
        (to_directory, to): (&Self, Name<'_>),
        over: Replace,
        conflicts: &OpenConflicts,
    ) -> Result<(), Interrupted> {
        let parent = self.locate_to_unlink(caller, from, Rights::NONE).await?;
        let new_parent = to_directory.locate_for(caller, to, Rights::INSERT).await?;
        let (locks, concerned) = lock_to_rename(&parent, from, &new_parent, to).await?;
        parent.confirm(from, &concerned.moved, which).await?;
        parent.require_to_unlink(caller, from, &concerned.moved).await?;
        let is_due = concerned.is_due(&parent, &new_parent, over)?;
        let Concerned { moved, mut replaced } = concerned;
        if !is_due {
            // Other clients that keep it open for later give that back before an open renames it, whatever
            // comes of it.
            return match caller.open {
                Some(_) => self.volume().break_leases(caller, &[(&moved.object, moved.moves())]),
                None => Ok(()),
            };
        }
        if let Some(replaced) = &replaced {
            new_parent.require_to_unlink(caller, to, replaced).await?;
        }
        parent.may_move(caller, from, &new_parent, &moved).await?;
        self.volume().check_opens_of_directories(caller, parent.object()?, new_parent.object()?)?;
        self.volume().check_opens_of_replaced(caller, replaced.as_ref())?;
        self.volume().check_opens_beneath(caller, &moved, conflicts).await?;
        let known = parent.known_to_move(from, &moved).await?;
        let known_replaced = match &replaced {
            Some(replaced) => new_parent.known(to, replaced).await?,
            None => None,
        };
        let gone = replaced.as_ref().map(|replaced| (replaced, ChangeKind::Gone));
        let inheritance = match &replaced {
            Some(replaced) if Arc::ptr_eq(parent.object()?, new_parent.object()?) => {
                new_parent.inheritance(caller, (from, &moved), (to, replaced)).await?
            }
            _ => None,
        };
        // A client of SMB does that by its open.
        let archives = caller.open.is_none() && moved.kind == FileKind::File;
        if archives {
            // What cannot be looked at moves all the same.
            let _ = parent.own_of(from, &moved.object).await;
        }
        let what = changed_objects(parent.object()?, from, new_parent.object()?, to, &moved, gone);
        let transaction = self.volume().prepare_change(caller, locks, what).await?;
        let (from, to) = (c_name(from), c_name(to));
        run_to_completion(transaction.keep_alive(), async move {
            if let Some(replaced) = &mut replaced {
                replaced.count_names(&new_parent, &to).await?;
            }
            if moved.is_directory() {
                new_parent.forget_lists(&to).await?;
            }
            parent.ensure_current()?;
            new_parent.ensure_current()?;
            let has_others = moved.prepare_move(&parent, &from).await;
            if let Some(inheritance) = inheritance {
                inheritance.give(parent.volume(), &moved.object).await?;
            }
            let transaction = transaction.bump_version();
            if moved.is_directory() {
                moved.object.bump_version();
            }
            let how = match over {
                Replace::Never => RenameHow::NoReplace,
                Replace::Existing => RenameHow::Replace,
            };
            let (here_dir, there_dir) = (parent.directory().dir(), new_parent.directory().dir());
            let account = Moving::begin(&parent, &moved)?;
            replaced.iter().for_each(NameTarget::prepare_unlink);
            let renamed = here_dir.rename(&from, there_dir, &to, how).await;
            let to_name = Name::parse(to.as_bytes()).map_err(Error::from)?;
            let gone = replaced.as_ref().map(|replaced| (replaced, known_replaced));
            account.end(renamed.is_ok().then_some((&new_parent, to_name)), known, gone)?;
            let (transaction, ()) = transaction.done(renamed)?;
            transaction.removed(parent.object()?, from.as_bytes());
            if let Some(replaced) = &replaced {
                new_parent.has_lost(&to, replaced).await?;
                transaction.removed(new_parent.object()?, to.as_bytes());
            }
            if moved.kind == FileKind::Directory {
                parent.move_lists(&from, &new_parent, &to);
            }
            has_moved(&transaction, &moved, (&parent, &from), (&new_parent, &to))?;
            if moved.object.grants().is_in_use() {
                new_parent.pin_for_opens();
            }
            if archives {
                new_parent.turn_archive_on(to_name, &moved).await;
            }
            moved.finish_move(&transaction, &new_parent, &to).await;
            if has_others && !Arc::ptr_eq(parent.object()?, new_parent.object()?) {
                parent.note_other_name(&moved.object, Name::parse(from.as_bytes()).map_err(Error::from)?)?;
            }
            transaction.end(parent.volume());
            Ok(())
        })
        .await
    }
}

impl Concerned {
    /// Returns whether there is anything to be done: two names of one file stay.
    fn is_due(
        &self,
        parent: &LocatedDirectory,
        new_parent: &LocatedDirectory,
        over: Replace,
    ) -> Result<bool, Error> {
        if self.replaced.is_some() && over == Replace::Never {
            return Err(Error::Exists);
        }
        if self.moved.is_directory() && new_parent.is_in(&self.moved.object) {
            return Err(Error::IntoItself);
        }
        let Some(replaced) = &self.replaced else { return Ok(true) };
        // What holds the directory that the name comes from holds something.
        if replaced.is_directory() && parent.is_in(&replaced.object) {
            return Err(Error::NotEmpty);
        }
        Ok(!Arc::ptr_eq(&self.moved.object, &replaced.object))
    }
}

/// File or directory that moves, for the volume's usage count.
pub(super) struct Moving<'m> {
    parent: &'m LocatedDirectory,
    from: &'m Arc<Object>,
    moved: &'m NameTarget,
}

impl<'m> Moving<'m> {
    pub(super) fn begin(parent: &'m LocatedDirectory, moved: &'m NameTarget) -> Result<Self, Error> {
        let from = parent.object()?;
        if moved.kind == FileKind::Directory {
            parent.volume().begin_move(&moved.object, from);
        }
        Ok(Self { parent, from, moved })
    }

    /// Notes that the file has its new name, in place of what was replaced; `None`: it stays.
    pub(super) fn end(
        self,
        to: Option<(&LocatedDirectory, Name<'_>)>,
        known: Option<CountedFile>,
        replaced: Option<(&NameTarget, Option<CountedFile>)>,
    ) -> Result<(), Error> {
        let (volume, object) = (self.parent.volume(), &self.moved.object);
        let is_directory = self.moved.kind == FileKind::Directory;
        let Some((new_parent, name)) = to else {
            if is_directory {
                volume.end_move(object, self.from, None, || {});
            }
            return Ok(());
        };
        let (directory, above) = (new_parent.directory(), new_parent.object()?);
        match replaced {
            Some((replaced, known)) if replaced.kind == FileKind::Directory => {
                volume.note_removed_directory(above, &replaced.object, known);
            }
            Some((_, known)) => volume.note_removed(above, known),
            None => {}
        }
        if is_directory {
            volume.end_move(object, self.from, Some(above), || directory.note_place(Some(object), name));
        } else {
            volume.note_moved(self.from, above, known);
            directory.note_place(Some(object), name);
        }
        Ok(())
    }
}

async fn lock_to_rename(
    parent: &LocatedDirectory,
    from: Name<'_>,
    new_parent: &LocatedDirectory,
    to: Name<'_>,
) -> Result<(ChangeLockSet, Concerned), Error> {
    let names = async || {
        let moved = parent.find(from).await?.ok_or(Error::NotFound)?;
        let replaced = new_parent.find(to).await?;
        let concerned = std::iter::once(&moved).chain(&replaced);
        let objects = concerned.map(|found| Arc::clone(&found.object)).collect();
        Ok((Concerned { moved, replaced }, objects))
    };
    parent.volume().lock_objects(&[parent.object()?, new_parent.object()?], names).await
}

/// Notes that the file with the name `from` has the name `to`: what is open by it, and images of the
/// directory follow, as its [place](Moving::end) has.
pub(super) fn has_moved(
    transaction: &ChangeTransaction<Committed>,
    moved: &NameTarget,
    (parent, from): (&LocatedDirectory, &CString),
    (new_parent, to): (&LocatedDirectory, &CString),
) -> Result<(), Error> {
    let (parent, new_parent) = (parent.object()?, new_parent.object()?);
    GrantSlot::renamed(&moved.object, (parent, from.as_bytes()), (new_parent, to.as_bytes()));
    transaction.added(new_parent, to.as_bytes(), moved.object.number());
    Ok(())
}

/// Returns the objects that a rename changes: both directories, the moved object, and the one that is replaced or
/// moves the other way.
pub(super) fn changed_objects<'a>(
    parent: &'a Arc<Object>,
    from: Name<'_>,
    new_parent: &'a Arc<Object>,
    to: Name<'_>,
    moved: &'a NameTarget,
    other: Option<(&'a NameTarget, ChangeKind)>,
) -> Vec<(&'a Arc<Object>, ChangeKind)> {
    let names =
        |names: &[Name<'_>]| ChangeKind::Names(names.iter().map(|name| Box::from(name.as_bytes())).collect());
    debug_assert!(!Arc::ptr_eq(parent, &moved.object), "nothing lies in itself");
    debug_assert!(!Arc::ptr_eq(new_parent, &moved.object), "nothing moves into itself");
    let mut what = match Arc::ptr_eq(parent, new_parent) {
        true => vec![(parent, names(&[from, to]))],
        false => vec![(parent, names(&[from])), (new_parent, names(&[to]))],
    };
    what.push((&moved.object, moved.moves()));
    what.extend(other.map(|(found, what)| (&found.object, what)));
    what
}
