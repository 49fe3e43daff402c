//! Files that go up under a name of their own (`linerate put`) and take the place of another: what HTTP's PUT leaves with a
//! name stays with it there too. Any other rename leaves a name what its file has, as POSIX and Windows do.

use std::sync::Arc;

use identity::Rights;
use lane::fs::{File, FileKind};
use smb_wire::info::security::Descriptor;

use super::carried_attributes::CarriedAttributes;
use super::located_directory::LocatedDirectory;
use super::name_target::NameTarget;
use crate::caller::Caller;
use crate::error::Error;
use crate::name::Name;
use crate::object::Object;
use crate::object_attributes::attributes_of;
use crate::usage::{AttributeEdit, bytes_of_descriptor};
use crate::volume::Volume;

/// Attributes that an uploaded file takes over from the one that it replaces.
pub(super) struct Inheritance {
    file: File,
    descriptor: Option<Arc<Descriptor>>,
    carried_attributes: CarriedAttributes,
}

impl LocatedDirectory {
    /// Reads what `moved`, called `from`, takes over where it gets the name `to` in this directory, in place of
    /// `replaced`. Returns `None` where it was not uploaded as a file of that name.
    ///
    /// # Errors
    /// [`Error::Denied`] where the caller may not write to what is replaced, by the descriptor that this has of its
    /// own.
    pub(super) async fn inheritance(
        &self,
        caller: &Caller,
        (from, moved): (Name<'_>, &NameTarget),
        (to, replaced): (Name<'_>, &NameTarget),
    ) -> Result<Option<Inheritance>, Error> {
        let are_files = moved.kind == FileKind::File && replaced.kind == FileKind::File;
        if !are_files || !transfer::is_staged_name_of(from.as_bytes(), to.as_bytes()) {
            return Ok(None);
        }
        let file = self.open_described(from).await?;
        let own = self.own_of(to, &replaced.object).await?;
        if let Some(own) = &own {
            let of = attributes_of(&file.stat()?, Some(&moved.object));
            self.require_of(caller, &of, Some(own), Rights::WRITE)?;
        }
        let descriptor = own.and_then(|own| own.kept());
        Ok(Some(Inheritance { file, descriptor, carried_attributes: self.carried_attributes(to).await }))
    }
}

impl Inheritance {
    /// Gives it to the file, whose change of attributes is noted.
    ///
    /// # Errors
    /// [`Error::Quota`]; those of setting its descriptor.
    pub(super) async fn give(self, volume: &Volume, to: &Arc<Object>) -> Result<(), Error> {
        let Self { file, descriptor, carried_attributes } = self;
        let more = descriptor.as_ref().map_or(0, |descriptor| bytes_of_descriptor(descriptor));
        let more = more + carried_attributes.bytes();
        if more == 0 {
            return Ok(());
        }
        let give = async {
            if let Some(descriptor) = &descriptor {
                to.write_own(&file, Some(descriptor)).await?;
            }
            carried_attributes.give(&file).await;
            Ok(())
        };
        volume.change_attributes(&file, None, AttributeEdit::Several(more), give).await
    }
}
