//! Whose a new file is: who made it, where that is a POSIX user and the server may give files away.

use std::ffi::CString;
use std::io;

use lane::fs::{AttributeChange, Dir, File};

use crate::caller::Caller;
use crate::volume::Volume;

/// To whom a new file is given; nobody, and it stays the server's user's.
#[derive(Clone, Copy)]
pub(super) struct NewOwner(Option<AttributeChange>);

impl Volume {
    /// To whom what this caller makes is given.
    pub(super) fn owner_of_new(&self, caller: &Caller) -> NewOwner {
        let gives = self.shared().is_some_and(|shared| shared.objects().options().gives_files);
        let uid = caller.principal.uid().filter(|_| gives);
        let gid = caller.principal.gids().first().copied();
        NewOwner(uid.map(|uid| AttributeChange { uid: Some(uid), gid, ..AttributeChange::NONE }))
    }

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
