//! Takes names away.

use lane::fs::FileKind;

use super::Caller;
use super::find::c_name;
use super::way::to_the_end;
use crate::directory::Directory;
use crate::error::Error;
use crate::name::Name;
use crate::promise::What;

impl Directory {
    /// Takes the name of a file or link away. Who has the file open keeps it; other names of it stay.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsADirectory`]; else as [`Directory::create`].
    pub async fn remove(&self, caller: &Caller, name: Name<'_>) -> Result<(), Error> {
        let removed = self.take_away(caller, name, false).await;
        self.volume().counted(removed)
    }

    /// Takes the name of an empty directory away.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotADirectory`], [`Error::NotEmpty`]; else as [`Directory::create`].
    pub async fn remove_directory(&self, caller: &Caller, name: Name<'_>) -> Result<(), Error> {
        let removed = self.take_away(caller, name, true).await;
        self.volume().counted(removed)
    }

    async fn take_away(&self, caller: &Caller, name: Name<'_>, is_directory: bool) -> Result<(), Error> {
        let object = self.settle(name).await?;
        let (permits, found) = self.permits_of(name).await?;
        let found = found.ok_or(Error::NotFound)?;
        match (found.kind, is_directory) {
            (FileKind::Directory, false) => return Err(Error::IsADirectory),
            (FileKind::Directory, true) | (_, false) => {}
            (_, true) => return Err(Error::NotADirectory),
        }
        let what = vec![(object, What::name(name.as_bytes())), (&found.object, What::Place)];
        let way = self.volume().tell(caller, permits, what).await;
        let (directory, name) = (self.clone(), c_name(name));
        to_the_end(async move {
            way.rise();
            let removed = match is_directory {
                true => directory.dir().rmdir(&name).await,
                false => directory.dir().unlink(&name).await,
            };
            removed.map_err(Error::of_change)?;
            way.end(directory.volume());
            Ok(())
        })
        .await
    }
}
