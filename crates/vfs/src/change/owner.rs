//! Whose a new file is: who made it, where that is a POSIX user and the server may give files away.

use std::ffi::CString;
use std::io;

use lane::fs::{AttributeChange, Dir, File};

use super::here::Here;
use crate::caller::Caller;
use crate::error::Error;
use crate::volume::Volume;

/// To whom a new file is given; nobody, and it stays the server's user's.
#[derive(Clone, Copy)]
pub(super) struct NewOwner(Option<AttributeChange>);

impl Here {
    /// To whom what this caller makes here is given. A directory's set-group-id bit has what is made in it belong to its group.
    pub(super) fn owner_of_new(&self, caller: &Caller) -> Result<NewOwner, Error> {
        let volume = self.volume();
        if !volume.shared().is_some_and(|shared| shared.objects().options().gives_files) {
            return Ok(NewOwner(None));
        }
        let above = self.directory().attributes()?;
        let (uid, gids) = (caller.principal.uid(), caller.principal.gids());
        let gid = match above.mode & SET_GROUP_ID {
            0 => gids.first().copied().filter(|_| uid.is_some()),
            _ => Some(above.gid),
        };
        let is_given = uid.is_some() || gid.is_some();
        Ok(NewOwner(is_given.then_some(AttributeChange { uid, gid, ..AttributeChange::NONE })))
    }
}

impl Volume {
    /// A file that is not given away is served all the same, as one of the server's.
    fn note_given(&self, given: io::Result<()>) {
        if given.is_err() {
            self.counters().owners_kept.increment();
        }
    }
}

impl NewOwner {
    /// Gives an open file or directory.
    pub(super) async fn give(self, volume: &Volume, file: &File) {
        if let Some(change) = self.0 {
            volume.note_given(file.set_attributes(change).await);
        }
    }

    /// Gives what has the name, a symbolic link itself.
    pub(super) async fn give_at(self, volume: &Volume, dir: &Dir, name: &CString) {
        if let Some(change) = self.0 {
            volume.note_given(dir.set_attributes_at(name, change).await);
        }
    }
}

const SET_GROUP_ID: u32 = 0o2000;
