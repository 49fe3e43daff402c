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
    pub(super) async fn give(self, to: &Arc<Object>) -> Result<(), Error> {
        if let Some(descriptor) = &self.descriptor {
            to.write_own(&self.file, Some(descriptor)).await?;
        }
        self.carried_attributes.give(&self.file).await;
        Ok(())
    }
}
