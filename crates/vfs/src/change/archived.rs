//! The DOS attribute "archive", which every change of a file turns on again where a backup has turned it off
//! (MS-FSA 2.1.4.17). Clients of SMB have that from `smb-tree`, with what else a change does to DOS
//! attributes; here is what the other protocols do.

use lane::fs::{File, XattrHow};
use smb_wire::create::access::attributes;
use smb_wire::dos::{self, Dos};

use super::extended::{stored, value_of};
use super::located_directory::LocatedDirectory;
use super::name_target::NameTarget;
use crate::name::Name;
use crate::object::Object;

impl Object {
    /// Looks whether the file is marked as backed up.
    pub(crate) async fn read_backed_up(&self, file: &File) {
        if dos_of(file).await.is_some_and(|dos| dos.is_backed_up()) {
            self.note_backed_up(true);
        }
    }

    /// Sets "archive" on a file that has been changed, or is about to be, under its change lock. Costs a load where it
    /// has that already. The change counts for more than the attribute, and does not fail with it.
    pub(super) async fn turn_archive_on(&self, file: &File) {
        if !self.is_backed_up() {
            return;
        }
        let dos = dos_of(file).await.filter(|dos| dos.is_backed_up());
        if let (Some(dos), Ok(name)) = (dos, stored(dos::NAME)) {
            let bits = dos.attributes.map(|bits| bits | attributes::ARCHIVE);
            let now = Dos { attributes: bits, changed: None, ..dos };
            if file.set_xattr(&name, now.to_bytes(), XattrHow::Any).await.is_err() {
                return;
            }
        }
        self.note_backed_up(false);
    }
}

impl LocatedDirectory {
    /// Turns the archive attribute on ([`Object::turn_archive_on`]) of the file that has come to have this
    /// name.
    pub(super) async fn turn_archive_on(&self, name: Name<'_>, file: &NameTarget) {
        if !file.object.is_backed_up() {
            return;
        }
        match &file.open {
            Some(open) => file.object.turn_archive_on(open.lane_file()).await,
            None => {
                if let Ok(opened) = self.open_described(name).await {
                    file.object.turn_archive_on(&opened).await;
                }
            }
        }
    }
}

async fn dos_of(file: &File) -> Option<Dos> {
    let value = value_of(file, &stored(dos::NAME).ok()?, dos::VALUE_MAX).await.ok()?;
    value.map(|value| Dos::parse(&value))
}
