//! Two names change places in one step.

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::RenameHow;

use super::find::{Found, c_name};
use super::here::{Here, Unmade};
use super::in_the_way::InTheWay;
use super::rename::{Moving, has_moved, told};
use super::way::to_the_end;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::object::Permits;

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
            let in_the_way = InTheWay::default();
            self.attempts(async || self.try_exchange(caller, one, there, other, &in_the_way).await).await
        })
    }

    async fn try_exchange(
        &self,
        caller: &Caller,
        one: Name<'_>,
        there: &Self,
        other: Name<'_>,
        in_the_way: &InTheWay,
    ) -> Result<(), Unmade> {
        let here = self.here_to_take(caller, one, Rights::INSERT).await?;
        let there = there.here_to_take(caller, other, Rights::INSERT).await?;
        let (permits, [at_one, at_other]) = permits_to_exchange(&here, one, &there, other).await?;
        let is_above = |found: &Found, at: &Here| found.is_directory() && at.is_in(&found.object);
        if is_above(&at_one, &there) || is_above(&at_other, &here) {
            return Err(Error::IntoItself.into());
        }
        if Arc::ptr_eq(&at_one.object, &at_other.object) {
            return Ok(());
        }
        here.require_to_take(caller, one, &at_one).await?;
        there.require_to_take(caller, other, &at_other).await?;
        here.may_move(caller, one, &there, &at_one).await?;
        there.may_move(caller, other, &here, &at_other).await?;
        self.volume().ask_to_move_names(caller, here.object()?, there.object()?)?;
        for moved in [&at_one, &at_other] {
            self.volume().ask_beneath(caller, moved, in_the_way).await?;
        }
        let known = [here.known(one, &at_one).await?, there.known(other, &at_other).await?];
        let what =
            told(here.object()?, one, there.object()?, other, &at_one, Some((&at_other, at_other.moves())));
        let way = self.volume().tell(caller, permits, what).await?;
        let (one, other) = (c_name(one), c_name(other));
        to_the_end(way.held(), async move {
            here.still()?;
            there.still()?;
            way.rise();
            for moved in [&at_one, &at_other].into_iter().filter(|found| found.is_directory()) {
                moved.object.rise();
            }
            let (here_dir, there_dir) = (here.directory(), there.directory());
            let moving = [
                (Moving::begin(&here, &at_one)?, &there, &other),
                (Moving::begin(&there, &at_other)?, &here, &one),
            ];
            let has_others =
                [at_one.moves_aside(&here, &one).await, at_other.moves_aside(&there, &other).await];
            let exchanged = here_dir.dir().rename(&one, there_dir.dir(), &other, RenameHow::Exchange).await;
            for ((moving, to, name), known) in moving.into_iter().zip(known) {
                let name = Name::parse(name.as_bytes()).map_err(Error::from)?;
                moving.end(exchanged.is_ok().then_some((to, name)), known, None)?;
            }
            way.done(exchanged)?;
            way.removed(here.object()?, one.as_bytes());
            way.removed(there.object()?, other.as_bytes());
            if at_one.is_directory() || at_other.is_directory() {
                here.exchange_lists(&one, &there, &other);
                // Where they are not kept they are found otherwise than they are remembered after a kill alone.
                if let Some(shared) = here.volume().shared() {
                    _ = shared.lists_are_kept().await;
                }
            }
            has_moved(&way, &at_one, (&here, &one), (&there, &other))?;
            has_moved(&way, &at_other, (&there, &other), (&here, &one))?;
            at_one.was_moved(&way, &there, &other).await;
            at_other.was_moved(&way, &here, &one).await;
            if !Arc::ptr_eq(here.object()?, there.object()?) {
                for ((found, at, name), _) in [(&at_one, &here, &one), (&at_other, &there, &other)]
                    .into_iter()
                    .zip(has_others)
                    .filter(|(_, has_others)| *has_others)
                {
                    at.note_other_name(&found.object, Name::parse(name.as_bytes()).map_err(Error::from)?)?;
                }
            }
            way.end(here.volume());
            Ok(())
        })
        .await
    }
}

async fn permits_to_exchange(
    here: &Here,
    one: Name<'_>,
    there: &Here,
    other: Name<'_>,
) -> Result<(Permits, [Found; 2]), Error> {
    let names = async || {
        let found = [here.find(one).await?, there.find(other).await?];
        let [Some(at_one), Some(at_other)] = found else { return Err(Error::NotFound) };
        let objects = [&at_one, &at_other].map(|found| Arc::clone(&found.object)).to_vec();
        Ok(([at_one, at_other], objects))
    };
    here.volume().permits(&[here.object()?, there.object()?], names).await
}
