//! Place of a file until it gets its name: nowhere where the file system makes files without one, so that a
//! crash leaves nothing; else under a staged name of the server's own.

use std::cell::RefCell;
use std::ffi::CString;
use std::io;
use std::sync::Arc;

use lane::fs::{CreateHow, Dir, File, RenameHow};

use super::transaction::{ChangeKeepAlive, run_to_completion};
use crate::directory::Directory;
use crate::error::Error;
use crate::object::{MetadataChange, Object};

/// The staged name of a file, if it has one.
pub(super) struct StagedName {
    directory: Directory,
    /// Object of a file that has no other name: it is gone when the staged name is removed.
    object: Option<Arc<Object>>,
    name: RefCell<Option<CString>>,
}

impl StagedName {
    /// Makes a file that no client sees, to be given a name in `directory`.
    ///
    /// # Errors
    /// Those of the file system; [`Error::Busy`] where all names of our own are taken.
    pub(super) async fn make(directory: &Directory, mode: u32) -> Result<(File, Self), Error> {
        let root = directory.volume().root();
        if root.makes_unnamed().is_none() && Self::try_unnamed(directory).await.is_ok() {
            root.set_makes_unnamed(true);
        }
        if root.makes_unnamed() == Some(true) {
            return Self::unnamed(directory, mode).await.map_err(Error::of_change);
        }
        let made = Self::named(directory, mode).await?;
        root.set_makes_unnamed(false);
        Ok(made)
    }

    /// Makes the staged name for a file that has a name elsewhere and is to have one in `directory`.
    pub(super) fn for_linked(directory: &Directory) -> Self {
        Self { directory: directory.clone(), object: None, name: RefCell::default() }
    }

    /// Sets the object of the file, which has no name that a client could see.
    pub(super) fn of(mut self, object: Option<&Arc<Object>>) -> Self {
        self.object = object.cloned();
        self
    }

    /// Gives the file `name` in place of what has it, or with `is_new` where nothing has.
    pub(super) async fn give(&self, file: &File, dir: &Dir, name: &CString, is_new: bool) -> io::Result<()> {
        let how = if is_new { RenameHow::NoReplace } else { RenameHow::Replace };
        let from = self.name.borrow().clone();
        match from {
            Some(from) => dir.rename(&from, dir, name, how).await?,
            None if is_new => dir.link(file, name).await?,
            None => {
                let from = self.link_staged(file).await?;
                dir.rename(&from, dir, name, how).await?;
            }
        }
        // It is the file's no longer.
        self.name.take();
        Ok(())
    }

    /// Checks whether files can be made without a name, and given one, is found out by doing both. A file
    /// that had a name and lost it gets no other, so this one goes.
    async fn try_unnamed(directory: &Directory) -> io::Result<()> {
        let directory = directory.clone();
        run_to_completion(ChangeKeepAlive::nothing(), async move {
            let (file, staged_name) = Self::unnamed(&directory, 0o600).await?;
            let _beside = begin_directory_metadata_change(&directory);
            let name = staged_name.link_staged(&file).await?;
            directory.dir().unlink(&name).await?;
            staged_name.name.take();
            Ok(())
        })
        .await
    }

    async fn unnamed(directory: &Directory, mode: u32) -> io::Result<(File, Self)> {
        let file = directory.dir().create_unnamed(mode).await?;
        Ok((file, Self::for_linked(directory)))
    }

    async fn named(directory: &Directory, mode: u32) -> Result<(File, Self), Error> {
        for _ in 0..TRIES_MAX {
            let name = directory.volume().cache().new_staged_name();
            // Made to its end: nothing else would know that it exists.
            let (directory, how) = (directory.clone(), CreateHow { mode, exclusive: true });
            let made = run_to_completion(ChangeKeepAlive::nothing(), async move {
                let beside = begin_directory_metadata_change(&directory);
                let file = directory.dir().create(&name, how).await?;
                drop(beside);
                Ok::<_, io::Error>((file, Self { directory, object: None, name: RefCell::new(Some(name)) }))
            });
            match made.await {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                made => return made.map_err(Error::of_change),
            }
        }
        Err(Error::Busy)
    }

    /// Links the file under a staged name.
    async fn link_staged(&self, file: &File) -> io::Result<CString> {
        let mut tries = 0;
        loop {
            let name = self.directory.volume().cache().new_staged_name();
            match self.directory.dir().link(file, &name).await {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) && tries < TRIES_MAX => tries += 1,
                linked => {
                    linked?;
                    self.name.replace(Some(name.clone()));
                    return Ok(name);
                }
            }
        }
    }
}

impl Drop for StagedName {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let (directory, object) = (self.directory.clone(), self.object.take());
        lane::spawn(async move {
            let _beside = begin_directory_metadata_change(&directory);
            let removed = directory.dir().unlink(&name).await;
            // It was closed with this name: nothing else has the index forget it.
            if let (Ok(()), Some(object), Some(above)) = (&removed, &object, directory.object()) {
                object.note_lost(above, name.as_bytes(), true);
            }
            if let Err(error) = removed {
                let place = directory.path();
                let name = name.to_string_lossy();
                //@ cause: A file under a name of the server's own, which an upload or a replacement has had meanwhile, could not be
                //@ removed.
                //@ remedy: See that the file system is mounted writable. The server looks for such files at its next start and removes them.
                tracing::error!(
                    "volume {}: the temporary file {name} in /{place} cannot be removed: {error}; clients do not see it, but it takes room \
                     until the next start [volume-temporary-left]",
                    directory.volume().name()
                );
            }
        })
        .detach();
    }
}

/// Notes that a staged name comes or goes in a directory until the result is dropped: the new change time is this
/// server's, and no client is notified.
fn begin_directory_metadata_change(directory: &Directory) -> Option<MetadataChange> {
    let (object, before) = directory.object().zip(directory.dir().stat().ok())?;
    object.begin_metadata_change(&before)
}

const TRIES_MAX: u32 = 64;
