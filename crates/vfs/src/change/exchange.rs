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
    /// Has `one` here and `other` in `new_parent` change places, whatever they are: neither name ever leads
    /// nowhere. Two names of one file stay as they are. Takes [`Rights::DELETE`] and [`Rights::INSERT`] in
    /// both directories.
    ///
    /// # Errors
    /// [`Error::NotFound`] for either; [`Error::IntoItself`] where one is a directory and the other lies in it;
    /// [`Error::CrossDevice`] as for [`Directory::rename`]; else as [`Directory::create`].
    pub fn exchange<'a>(
        &'a self,
        caller: &'a Caller,
        one: Name<'a>,
        new_parent: &'a Self,
        other: Name<'a>,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if !self.volume().is_same(new_parent.volume()) {
                return self.volume().counted(Err(Error::CrossDevice));
            }
            let conflicts = OpenConflicts::default();
            self.attempts(async || self.try_exchange(caller, one, new_parent, other, &conflicts).await).await
        })
    }

    async fn try_exchange(
        &self,
        caller: &Caller,
        one: Name<'_>,
        new_parent: &Self,
        other: Name<'_>,
        conflicts: &OpenConflicts,
    ) -> Result<(), Interrupted> {
        let parent = self.locate_to_unlink(caller, one, Rights::INSERT).await?;
        let new_parent = new_parent.locate_to_unlink(caller, other, Rights::INSERT).await?;
        let (locks, [at_one, at_other]) = lock_to_exchange(&parent, one, &new_parent, other).await?;
        let is_above =
            |found: &NameTarget, at: &LocatedDirectory| found.is_directory() && at.is_in(&found.object);
        if is_above(&at_one, &new_parent) || is_above(&at_other, &parent) {
            return Err(Error::IntoItself.into());
        }
        if Arc::ptr_eq(&at_one.object, &at_other.object) {
            return Ok(());
        }
        parent.require_to_unlink(caller, one, &at_one).await?;
        new_parent.require_to_unlink(caller, other, &at_other).await?;
        parent.may_move(caller, one, &new_parent, &at_one).await?;
        new_parent.may_move(caller, other, &parent, &at_other).await?;
        self.volume().check_opens_of_directories(caller, parent.object()?, new_parent.object()?)?;
        for moved in [&at_one, &at_other] {
            self.volume().check_opens_beneath(caller, moved, conflicts).await?;
        }
        let known =
            [parent.known_to_move(one, &at_one).await?, new_parent.known_to_move(other, &at_other).await?];
        let what = changed_objects(
            parent.object()?,
            one,
            new_parent.object()?,
            other,
            &at_one,
            Some((&at_other, at_other.moves())),
        );
        let transaction = self.volume().prepare_change(caller, locks, what).await?;
        let (one, other) = (c_name(one), c_name(other));
        run_to_completion(transaction.keep_alive(), async move {
            parent.ensure_current()?;
            new_parent.ensure_current()?;
            let transaction = transaction.bump_version();
            for moved in [&at_one, &at_other].into_iter().filter(|found| found.is_directory()) {
                moved.object.bump_version();
            }
            let (here_dir, there_dir) = (parent.directory(), new_parent.directory());
            let moving = [
                (Moving::begin(&parent, &at_one)?, &new_parent, &other),
                (Moving::begin(&new_parent, &at_other)?, &parent, &one),
            ];
            let has_others =
                [at_one.prepare_move(&parent, &one).await, at_other.prepare_move(&new_parent, &other).await];
            let exchanged = here_dir.dir().rename(&one, there_dir.dir(), &other, RenameHow::Exchange).await;
            for ((moving, to, name), known) in moving.into_iter().zip(known) {
                let name = Name::parse(name.as_bytes()).map_err(Error::from)?;
                moving.end(exchanged.is_ok().then_some((to, name)), known, None)?;
            }
            let (transaction, ()) = transaction.done(exchanged)?;
            transaction.removed(parent.object()?, one.as_bytes());
            transaction.removed(new_parent.object()?, other.as_bytes());
            if at_one.is_directory() || at_other.is_directory() {
                parent.exchange_lists(&one, &new_parent, &other);
                // Where they are not kept they are found otherwise than they are remembered after a kill alone.
                if let Some(shared) = parent.volume().shared() {
                    _ = shared.lists_are_kept().await;
                }
            }
            has_moved(&transaction, &at_one, (&parent, &one), (&new_parent, &other))?;
            has_moved(&transaction, &at_other, (&new_parent, &other), (&parent, &one))?;
            at_one.finish_move(&transaction, &new_parent, &other).await;
            at_other.finish_move(&transaction, &parent, &one).await;
            if !Arc::ptr_eq(parent.object()?, new_parent.object()?) {
                for ((found, at, name), _) in [(&at_one, &parent, &one), (&at_other, &new_parent, &other)]
                    .into_iter()
                    .zip(has_others)
                    .filter(|(_, has_others)| *has_others)
                {
                    at.note_other_name(&found.object, Name::parse(name.as_bytes()).map_err(Error::from)?)?;
                }
            }
            transaction.end(parent.volume());
            Ok(())
        })
        .await
    }
}

async fn lock_to_exchange(
    parent: &LocatedDirectory,
    one: Name<'_>,
    new_parent: &LocatedDirectory,
    other: Name<'_>,
) -> Result<(ChangeLockSet, [NameTarget; 2]), Error> {
    let names = async || {
        let found = [parent.find(one).await?, new_parent.find(other).await?];
        let [Some(at_one), Some(at_other)] = found else { return Err(Error::NotFound) };
        let objects = [&at_one, &at_other].map(|found| Arc::clone(&found.object)).to_vec();
        Ok(([at_one, at_other], objects))
    };
    parent.volume().lock_objects(&[parent.object()?, new_parent.object()?], names).await
}
