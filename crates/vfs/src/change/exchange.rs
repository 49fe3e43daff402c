//! Two names change places in one step.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::RenameHow;

use super::located_directory::{Interrupted, LocatedDirectory};
use super::name_target::{NameTarget, c_name};
use super::open_conflicts::OpenConflicts;
use super::rename::{Moving, changed_objects, has_moved};
use super::transaction::run_to_completion;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object::ChangeLockSet;

impl Directory {
    /// Has `one` here and `other` in `there` change places, whatever they are: nobody ever sees one of the names lead
    /// nowhere. Two names of one file stay as they are. Takes [`Rights::DELETE`] and [`Rights::INSERT`] in both directories.
    ///
    /// # Errors
    /// [`Error::NotFound`] for either; [`Error::IntoItself`] where one is a directory and the other lies in it;
    /// [`Error::CrossDevice`] as for [`Directory::rename`]; else as [`Directory::create`].
    pub fn exchange<'a>(
        &'a self,
        caller: &'a Caller,
        one: Name<'a>,
        there: &'a Self,
        other: Name<'a>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if !self.volume().is_same(there.volume()) {
                return self.volume().counted(Err(Error::CrossDevice));
            }
            let conflicts = OpenConflicts::default();
            self.attempts(async || self.try_exchange(caller, one, there, other, &conflicts).await).await
        })
    }

    async fn try_exchange(
        &self,
        caller: &Caller,
        one: Name<'_>,
        there: &Self,
        other: Name<'_>,
        conflicts: &OpenConflicts,
    ) -> Result<(), Interrupted> {
        let here = self.locate_to_unlink(caller, one, Rights::INSERT).await?;
        let there = there.locate_to_unlink(caller, other, Rights::INSERT).await?;
        let (locks, [at_one, at_other]) = lock_to_exchange(&here, one, &there, other).await?;
        let is_above =
            |found: &NameTarget, at: &LocatedDirectory| found.is_directory() && at.is_in(&found.object);
        if is_above(&at_one, &there) || is_above(&at_other, &here) {
            return Err(Error::IntoItself.into());
        }
        if Arc::ptr_eq(&at_one.object, &at_other.object) {
            return Ok(());
        }
        here.require_to_unlink(caller, one, &at_one).await?;
        there.require_to_unlink(caller, other, &at_other).await?;
        here.may_move(caller, one, &there, &at_one).await?;
        there.may_move(caller, other, &here, &at_other).await?;
        self.volume().check_opens_of_directories(caller, here.object()?, there.object()?)?;
        for moved in [&at_one, &at_other] {
            self.volume().check_opens_beneath(caller, moved, conflicts).await?;
        }
        let known = [here.known(one, &at_one).await?, there.known(other, &at_other).await?];
        let what = changed_objects(
            here.object()?,
            one,
            there.object()?,
            other,
            &at_one,
            Some((&at_other, at_other.moves())),
        );
        let transaction = self.volume().prepare_change(caller, locks, what).await?;
        let (one, other) = (c_name(one), c_name(other));
        run_to_completion(transaction.keep_alive(), async move {
            here.ensure_current()?;
            there.ensure_current()?;
            transaction.bump_version();
            for moved in [&at_one, &at_other].into_iter().filter(|found| found.is_directory()) {
                moved.object.bump_version();
            }
            let (here_dir, there_dir) = (here.directory(), there.directory());
            let moving = [
                (Moving::begin(&here, &at_one)?, &there, &other),
                (Moving::begin(&there, &at_other)?, &here, &one),
            ];
            let has_others =
                [at_one.prepare_move(&here, &one).await, at_other.prepare_move(&there, &other).await];
            let exchanged = here_dir.dir().rename(&one, there_dir.dir(), &other, RenameHow::Exchange).await;
            for ((moving, to, name), known) in moving.into_iter().zip(known) {
                let name = Name::parse(name.as_bytes()).map_err(Error::from)?;
                moving.end(exchanged.is_ok().then_some((to, name)), known, None)?;
            }
            transaction.done(exchanged)?;
            transaction.removed(here.object()?, one.as_bytes());
            transaction.removed(there.object()?, other.as_bytes());
            if at_one.is_directory() || at_other.is_directory() {
                here.exchange_lists(&one, &there, &other);
                // Where they are not kept they are found otherwise than they are remembered after a kill alone.
                if let Some(shared) = here.volume().shared() {
                    _ = shared.lists_are_kept().await;
                }
            }
            has_moved(&transaction, &at_one, (&here, &one), (&there, &other))?;
            has_moved(&transaction, &at_other, (&there, &other), (&here, &one))?;
            at_one.finish_move(&transaction, &there, &other).await;
            at_other.finish_move(&transaction, &here, &one).await;
            if !Arc::ptr_eq(here.object()?, there.object()?) {
                for ((found, at, name), _) in [(&at_one, &here, &one), (&at_other, &there, &other)]
                    .into_iter()
                    .zip(has_others)
                    .filter(|(_, has_others)| *has_others)
                {
                    at.note_other_name(&found.object, Name::parse(name.as_bytes()).map_err(Error::from)?)?;
                }
            }
            transaction.end(here.volume());
            Ok(())
        })
        .await
    }
}

async fn lock_to_exchange(
    here: &LocatedDirectory,
    one: Name<'_>,
    there: &LocatedDirectory,
    other: Name<'_>,
) -> Result<(ChangeLockSet, [NameTarget; 2]), Error> {
    let names = async || {
        let found = [here.find(one).await?, there.find(other).await?];
        let [Some(at_one), Some(at_other)] = found else { return Err(Error::NotFound) };
        let objects = [&at_one, &at_other].map(|found| Arc::clone(&found.object)).to_vec();
        Ok(([at_one, at_other], objects))
    };
    here.volume().lock_objects(&[here.object()?, there.object()?], names).await
}
