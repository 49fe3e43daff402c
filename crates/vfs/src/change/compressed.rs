//! Whether the file system compresses what is written to a file, or to what is made in a directory.

use coherence::ChangeKind;
use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::File;

use super::Writer;
use crate::caller::Caller;
use crate::directory::Directory;
use crate::error::Error;

impl Writer {
    /// Has what is written to the file from now on be compressed, or not. What was written stays as it is.
    ///
    /// # Errors
    /// [`Error::Io`] with `EOPNOTSUPP` where the file system cannot do so, or not with this file; else as
    /// [`Writer::set_attributes`].
    pub fn set_compressed<'a>(
        &'a self,
        caller: &'a Caller,
        on: bool,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.change(caller, ChangeKind::Attributes, None, async move |file| {
                set(file.lane_file(), on).await
            })
            .await
        })
    }
}

impl Directory {
    /// Sets whether files made in the directory from now on are compressed ([`Writer::set_compressed`]).
    /// Takes [`Rights::WRITE`] in it.
    ///
    /// # Errors
    /// As there, and as [`Directory::create`].
    pub fn set_compressed<'a>(
        &'a self,
        caller: &'a Caller,
        on: bool,
    ) -> LocalBoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            self.attempts(async || {
                let parent = self.locate().await?;
                parent.require(caller, Rights::WRITE)?;
                let locks = parent.lock_directory().await?;
                parent.ensure_current()?;
                parent
                    .change_directory(caller, locks, ChangeKind::Attributes, async move |directory| {
                        set(directory.dir().as_file(), on).await
                    })
                    .await
            })
            .await
        })
    }
}

async fn set(file: &File, on: bool) -> Result<(), Error> {
    file.set_compressed(on).await.map_err(|error| match error.raw_os_error() {
        // All of them say that there is no such thing for this file.
        Some(libc::ENOTTY | libc::EINVAL | libc::ETXTBSY) => {
            Error::Io(std::io::Error::from_raw_os_error(libc::EOPNOTSUPP))
        }
        _ => Error::of_write(error),
    })
}
