//! Files with names in several directories. A user that finds one by a name has the rights that count for
//! that name, by its directory and the way there; so a name in another directory could give a user rights
//! that it did not have, or, as a file that is asked for by its number is judged where it was last found,
//! take some away. It is had only where nothing of that can come of it, or by a caller that may decide so.

use std::ffi::CString;

use identity::Rights;
use lane::fs::FileKind;

use super::located_directory::LocatedDirectory;
use super::name_target::{NameTarget, c_name};
use crate::access::require;
use crate::cache::WatchedDir;
use crate::caller::Caller;
use crate::descriptor::Own;
use crate::error::Error;
use crate::name::Name;
use crate::object::{By, Object, Place, Recorded, identity_of};

/// Reason why a file may have a name in another directory as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HardLinkRule {
    /// Every user has the same rights by either name.
    Alike,
    /// Some user has other rights, and the caller administers the file's directory: it might give and take
    /// them there.
    Administered,
}

impl LocatedDirectory {
    /// Checks whether a file of this directory, `own` its descriptor, may have a name `there` as well. The same users
    /// have to reach both: each directory on the one way lets through the users of one on the other. What they may do
    /// with the file is then said by its descriptor, with the users that may list the directory, or by the same list
    /// where it has none.
    ///
    /// # Errors
    /// [`Error::Denied`] where rights differ and the caller administers this directory, or one above that others are
    /// let through, not.
    pub(super) fn may_share(
        &self,
        caller: &Caller,
        there: &Self,
        own: Option<&Own>,
    ) -> Result<HardLinkRule, Error> {
        let denied = || Error::Denied(Rights::ADMINISTER);
        let policy = self.volume().root().policy().ok_or_else(denied)?;
        let (here, there) = self.watched().zip(there.watched()).ok_or_else(denied)?;
        let is_met =
            |at: &WatchedDir, on: &WatchedDir| on.and_above().any(|other| at.passes_as(other, policy));
        let mut unmet = here.and_above().filter(|at| !is_met(at, there)).peekable();
        let are_alike = match own {
            Some(_) => here.passes_as(there, policy),
            None => here.nearest() == there.nearest(),
        };
        if are_alike && unmet.peek().is_none() && there.and_above().all(|at| is_met(at, here)) {
            return Ok(HardLinkRule::Alike);
        }
        for at in std::iter::once(here).chain(unmet) {
            require(at.rights(&caller.principal, policy), Rights::ADMINISTER)?;
        }
        Ok(HardLinkRule::Administered)
    }

    /// Checks whether what has the name `name` here may be moved `there`, under its change lock. One of several names
    /// of a file may where it might be made: else a name that was made here could go anywhere.
    ///
    /// # Errors
    /// [`Error::CrossDevice`], so that the client makes a copy.
    pub(super) async fn may_move(
        &self,
        caller: &Caller,
        name: Name<'_>,
        there: &Self,
        moved: &NameTarget,
    ) -> Result<(), Error> {
        let is_same = self.object()?.identity() == there.object()?.identity();
        if is_same || moved.kind != FileKind::File || self.may_share(caller, there, None).is_ok() {
            return Ok(());
        }
        let names = match &moved.open {
            Some(file) => file.attributes()?.nlink,
            None => {
                let stat = self.directory().dir().stat_at(&c_name(name)).await;
                stat.map_err(Error::of_change)?.nlink
            }
        };
        if names <= 1 {
            return Ok(());
        }
        let own = self.own_of(name, &moved.object).await?;
        let may = own.is_some() && self.may_share(caller, there, own.as_ref()).is_ok();
        if may { Ok(()) } else { Err(Error::CrossDevice) }
    }

    /// Notes that a file has lost its name `name` here. If it is found by its number by that name, another of its
    /// names is recorded instead, where one is known. So the disk has that before the other is forgotten.
    pub(super) async fn has_lost(&self, name: &CString, found: &NameTarget) -> Result<(), Error> {
        found.lost(self.object()?, name.as_bytes());
        let file = &found.object;
        if found.kind != FileKind::File || !file.is_unplaced() || !found.has_others() {
            return Ok(());
        }
        for seen in file.volume().other_names_of(file.identity()) {
            if let Some(place) = self.is_still(file, seen).await {
                file.set_place(place);
                break;
            }
        }
        Ok(())
    }

    /// Returns the place where the file was seen, if it has that name still and the directory is in use.
    async fn is_still(&self, file: &Object, seen: Recorded) -> Option<Place> {
        let (volume, shared) = (self.volume(), file.volume());
        let directory = shared.objects().in_use_in(shared, &seen.directory)?;
        let dir = volume.root().open_real_directory(volume.path_of(&directory)?.as_path()).await.ok()?;
        let name = c_name(Name::parse(&seen.name).ok()?);
        let stat = dir.stat_at(&name).await.ok()?;
        let is_it = identity_of(By::Name(&dir, &name), &stat).await.ok()? == *file.identity();
        is_it.then(|| Place { directory, name: seen.name })
    }

    /// Notes that the file has a name here too, though it is recorded elsewhere: a look by number finds it by
    /// this one when it has lost that.
    pub(super) fn note_other_name(&self, file: &Object, name: Name<'_>) -> Result<(), Error> {
        let seen = Recorded::named(self.object()?, name.as_bytes());
        file.volume().note_other_name_of(file.identity(), seen);
        Ok(())
    }
}
