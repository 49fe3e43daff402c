//! Moves names, within a directory and across.

use std::ffi::CString;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use index::Number;
use lane::fs::{FileKind, RenameHow};

use super::located_directory::{Interrupted, LocatedDirectory};
use super::name_target::{NameTarget, c_name};
use super::open_conflicts::OpenConflicts;
use super::transaction::{ChangeTransaction, run_to_completion};
use crate::callback::ChangeKind;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object::{ChangeLockSet, Object};
use crate::usage::Known;

/// What a rename may put an end to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Nothing: [`Error::Exists`] where something has the new name.
    Never,
    /// What has the new name: a file by a file, an empty directory by a directory.
    Existing,
}

/// What a rename concerns.
struct Concerned {
    moved: NameTarget,
    replaced: Option<NameTarget>,
}

impl Directory {
    /// Gives what is `from` here the name `to` in `to_directory`, in one step. Two names of one file stay as they are. Takes
    /// [`Rights::DELETE`] here, [`Rights::INSERT`] there, and [`Rights::DELETE`] there too where something is replaced.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Exists`] with [`Replace::Never`]; [`Error::NotEmpty`], [`Error::IsADirectory`],
    /// [`Error::NotADirectory`] by what has the new name; [`Error::IntoItself`]; [`Error::CrossDevice`] in another volume, and for one of
    /// several names of a file that might not be [made](Directory::link_to) there; else as [`Directory::create`].
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

    /// As [`Directory::rename`], of what has this number, if `from` still leads to it.
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
        let here = self.locate_to_unlink(caller, from, Rights::NONE).await?;
        let there = to_directory.locate_for(caller, to, Rights::INSERT).await?;
        let (locks, concerned) = lock_to_rename(&here, from, &there, to).await?;
        concerned.moved.require(which)?;
        here.require_to_unlink(caller, from, &concerned.moved).await?;
        let is_due = concerned.is_due(&here, &there, over)?;
        let Concerned { moved, mut replaced } = concerned;
        if !is_due {
            // Whoever else has it open for later gives that back before an open renames it, whatever comes of it.
            return match caller.open {
                Some(_) => self.volume().break_leases(caller, &[(&moved.object, moved.moves())]),
                None => Ok(()),
            };
        }
        if let Some(replaced) = &replaced {
            there.require_to_unlink(caller, to, replaced).await?;
        }
        here.may_move(caller, from, &there, &moved).await?;
        self.volume().check_opens_of_directories(caller, here.object()?, there.object()?)?;
        self.volume().check_opens_of_replaced(caller, replaced.as_ref())?;
        self.volume().check_opens_beneath(caller, &moved, conflicts).await?;
        let known = here.known(from, &moved).await?;
        let known_replaced = match &replaced {
            Some(replaced) => there.known(to, replaced).await?,
            None => None,
        };
        let gone = replaced.as_ref().map(|replaced| (replaced, ChangeKind::Gone));
        // A client of SMB does that by its open.
        let archives = caller.open.is_none() && moved.kind == FileKind::File;
        if archives {
            // What cannot be looked at moves all the same.
            let _ = here.own_of(from, &moved.object).await;
        }
        let what = changed_objects(here.object()?, from, there.object()?, to, &moved, gone);
        let transaction = self.volume().prepare_change(caller, locks, what).await?;
        let (from, to) = (c_name(from), c_name(to));
        run_to_completion(transaction.keep_alive(), async move {
            if let Some(replaced) = &mut replaced {
                replaced.count_names(&there, &to).await?;
            }
            if moved.is_directory() {
                there.forget_lists(&to).await?;
            }
            here.ensure_current()?;
            there.ensure_current()?;
            transaction.bump_version();
            if moved.is_directory() {
                moved.object.bump_version();
            }
            let how = match over {
                Replace::Never => RenameHow::NoReplace,
                Replace::Existing => RenameHow::Replace,
            };
            let (here_dir, there_dir) = (here.directory().dir(), there.directory().dir());
            let account = Moving::begin(&here, &moved)?;
            let has_others = moved.prepare_move(&here, &from).await;
            replaced.iter().for_each(NameTarget::prepare_unlink);
            let renamed = here_dir.rename(&from, there_dir, &to, how).await;
            let to_name = Name::parse(to.as_bytes()).map_err(Error::from)?;
            let gone = replaced.as_ref().map(|replaced| (replaced, known_replaced));
            account.end(renamed.is_ok().then_some((&there, to_name)), known, gone)?;
            transaction.done(renamed)?;
            transaction.removed(here.object()?, from.as_bytes());
            if let Some(replaced) = &replaced {
                there.has_lost(&to, replaced).await?;
                transaction.removed(there.object()?, to.as_bytes());
            }
            if moved.kind == FileKind::Directory {
                here.move_lists(&from, &there, &to);
            }
            has_moved(&transaction, &moved, (&here, &from), (&there, &to))?;
            if moved.object.grants().is_in_use() {
                there.pin_for_opens();
            }
            if archives {
                there.turn_archive_on(to_name, &moved).await;
            }
            moved.finish_move(&transaction, &there, &to).await;
            if has_others && !Arc::ptr_eq(here.object()?, there.object()?) {
                here.note_other_name(&moved.object, Name::parse(from.as_bytes()).map_err(Error::from)?)?;
            }
            transaction.end(here.volume());
            Ok(())
        })
        .await
    }
}

impl Concerned {
    /// Whether there is anything to be done: two names of one file stay.
    fn is_due(
        &self,
        here: &LocatedDirectory,
        there: &LocatedDirectory,
        over: Replace,
    ) -> Result<bool, Error> {
        if self.replaced.is_some() && over == Replace::Never {
            return Err(Error::Exists);
        }
        if self.moved.is_directory() && there.is_in(&self.moved.object) {
            return Err(Error::IntoItself);
        }
        let Some(replaced) = &self.replaced else { return Ok(true) };
        // What holds the directory that the name comes from holds something.
        if replaced.is_directory() && here.is_in(&replaced.object) {
            return Err(Error::NotEmpty);
        }
        Ok(!Arc::ptr_eq(&self.moved.object, &replaced.object))
    }
}

/// What moves, for whoever counts what the volume holds.
pub(super) struct Moving<'m> {
    here: &'m LocatedDirectory,
    from: &'m Arc<Object>,
    moved: &'m NameTarget,
}

impl<'m> Moving<'m> {
    pub(super) fn begin(here: &'m LocatedDirectory, moved: &'m NameTarget) -> Result<Self, Error> {
        let from = here.object()?;
        if moved.kind == FileKind::Directory {
            here.volume().begin_move(&moved.object, from);
        }
        Ok(Self { here, from, moved })
    }

    /// It has its new name, in place of what was replaced; `None`: it stays.
    pub(super) fn end(
        self,
        to: Option<(&LocatedDirectory, Name<'_>)>,
        known: Option<Known>,
        replaced: Option<(&NameTarget, Option<Known>)>,
    ) -> Result<(), Error> {
        let (volume, object) = (self.here.volume(), &self.moved.object);
        let is_directory = self.moved.kind == FileKind::Directory;
        let Some((there, name)) = to else {
            if is_directory {
                volume.end_move(object, self.from, None, || {});
            }
            return Ok(());
        };
        let (directory, above) = (there.directory(), there.object()?);
        match replaced {
            Some((replaced, _)) if replaced.kind == FileKind::Directory => {
                volume.note_removed_directory(above, &replaced.object);
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
    here: &LocatedDirectory,
    from: Name<'_>,
    there: &LocatedDirectory,
    to: Name<'_>,
) -> Result<(ChangeLockSet, Concerned), Error> {
    let names = async || {
        let moved = here.find(from).await?.ok_or(Error::NotFound)?;
        let replaced = there.find(to).await?;
        let concerned = std::iter::once(&moved).chain(&replaced);
        let objects = concerned.map(|found| Arc::clone(&found.object)).collect();
        Ok((Concerned { moved, replaced }, objects))
    };
    here.volume().lock_objects(&[here.object()?, there.object()?], names).await
}

/// What had the name `from` has the name `to`: what is open by it, and images of the directory follow, as its
/// [place](Moving::end) has.
pub(super) fn has_moved(
    transaction: &ChangeTransaction,
    moved: &NameTarget,
    (here, from): (&LocatedDirectory, &CString),
    (there, to): (&LocatedDirectory, &CString),
) -> Result<(), Error> {
    let (here, there) = (here.object()?, there.object()?);
    moved.object.grants().renamed((here, from.as_bytes()), (there, to.as_bytes()));
    transaction.added(there, to.as_bytes(), moved.object.number());
    Ok(())
}

/// Who has to know: the directories' names, what moves, what goes or moves the other way.
pub(super) fn changed_objects<'a>(
    here: &'a Arc<Object>,
    from: Name<'_>,
    there: &'a Arc<Object>,
    to: Name<'_>,
    moved: &'a NameTarget,
    other: Option<(&'a NameTarget, ChangeKind)>,
) -> Vec<(&'a Arc<Object>, ChangeKind)> {
    let names =
        |names: &[Name<'_>]| ChangeKind::Names(names.iter().map(|name| Box::from(name.as_bytes())).collect());
    let mut what = match Arc::ptr_eq(here, there) {
        true => vec![(here, names(&[from, to]))],
        false => vec![(here, names(&[from])), (there, names(&[to]))],
    };
    what.push((&moved.object, moved.moves()));
    what.extend(other.map(|(found, what)| (&found.object, what)));
    what
}
