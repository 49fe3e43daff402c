//! Ownership of a new file: its maker's, where that is a POSIX user and the server may give files away. Else
//! it stays the server's user's, with a record of its maker.

use std::ffi::CString;
use std::io;
use std::sync::Arc;

use identity::Nearest;
use lane::fs::{AttributeChange, Dir, File};

use super::located_directory::LocatedDirectory;
use crate::caller::Caller;
use crate::error::Error;
use crate::maker::Maker;
use crate::object::Object;
use crate::volume::Volume;

/// The user that a new file is given to, and the one that is recorded as its maker.
#[derive(Clone, Copy, Default)]
pub(super) struct NewOwner {
    change: Option<AttributeChange>,
    maker: Option<Maker>,
}

impl LocatedDirectory {
    /// Returns the owner of what this caller makes here. A directory's set-group-id bit has what is made in
    /// it belong to its group.
    pub(super) fn owner_of_new(&self, caller: &Caller) -> Result<NewOwner, Error> {
        let volume = self.volume();
        let Some(options) = volume.shared().map(|shared| shared.objects().options()) else {
            return Ok(NewOwner::default());
        };
        if !options.gives_files {
            return Ok(NewOwner::default());
        }
        let above = self.directory().attributes()?;
        let principal = &caller.principal;
        let (uid, gids) = (principal.uid(), principal.gids());
        let gid = match above.mode & SET_GROUP_ID {
            0 => gids.first().copied().filter(|_| uid.is_some()),
            _ => Some(above.gid),
        };
        let is_given = uid.is_some() || gid.is_some();
        // Beneath a list anonymous owns nothing: what one has dropped is not for the next.
        let is_recorded = uid.is_none()
            && volume.root().rights_storage().keeps_makers()
            && (principal.is_user() || self.nearest() == Nearest::None);
        Ok(NewOwner {
            change: is_given.then_some(AttributeChange { uid, gid, ..AttributeChange::NONE }),
            maker: if is_recorded { Maker::of(principal, options.user) } else { None },
        })
    }
}

impl Volume {
    /// Returns whether the file was given away. One that is not is served all the same, as one of the server's.
    ///
    /// # Errors
    /// [`Error::Quota`] where its owner may have no more: it is not to be there.
    fn note_given(&self, given: io::Result<()>) -> Result<bool, Error> {
        let Err(error) = given else { return Ok(true) };
        if error.raw_os_error() == Some(libc::EDQUOT) {
            return Err(Error::Quota);
        }
        self.counters().owners_kept.increment();
        Ok(false)
    }
}

impl NewOwner {
    /// Gives an open file or directory, and says what is recorded with it from here on ([`note_maker`]).
    ///
    /// # Errors
    /// [`Error::Quota`]: its maker may have no more.
    pub(super) async fn give(self, volume: &Volume, file: &File) -> Result<Option<Maker>, Error> {
        if let Some(change) = self.change {
            volume.note_given(file.set_attributes(change).await)?;
        }
        let Some(maker) = self.maker else { return Ok(None) };
        Ok(volume.note_given(maker.record(file).await)?.then_some(maker))
    }

    /// Gives what has the name, a symbolic link itself, of which nothing is recorded.
    ///
    /// # Errors
    /// [`Error::Quota`], and the name is taken away.
    pub(super) async fn give_at(self, volume: &Volume, dir: &Dir, name: &CString) -> Result<(), Error> {
        let Some(change) = self.change else { return Ok(()) };
        let given = volume.note_given(dir.set_attributes_at(name, change).await);
        if given.is_err() {
            // What stays all the same is the server's.
            let _ = dir.unlink(name).await;
        }
        given.map(drop)
    }
}

/// Notes the record of what was just made.
pub(super) fn note_maker(object: Option<&Arc<Object>>, maker: Option<Maker>) {
    if let (Some(object), Some(_)) = (object, maker) {
        object.set_maker(maker);
    }
}

const SET_GROUP_ID: u32 = 0o2000;
