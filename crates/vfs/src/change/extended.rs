//! Named extended attributes: those that clients keep with a file. On the disk they are `user.` attributes; the server's own
//! are among none of them.

use std::ffi::CString;

use lane::fs::XattrHow;

use super::Writer;
use crate::caller::Caller;
use crate::error::Error;
use crate::file::OpenFile;
use crate::name::NameError;
use crate::promise::What;

impl OpenFile {
    /// The value of the attribute `name`, of at most `max` bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Reserved`], [`Error::Name`]; [`Error::TooLarge`] for a longer value; those of the file system.
    pub async fn extended(&self, name: &[u8], max: usize) -> Result<Option<Vec<u8>>, Error> {
        match self.lane_file().xattr(&stored(name)?, max).await {
            Ok(value) => Ok(Some(value)),
            Err(error) => match error.raw_os_error() {
                Some(libc::ENODATA) => Ok(None),
                Some(libc::ERANGE) => Err(Error::TooLarge { max }),
                _ => Err(Error::of_write(error)),
            },
        }
    }

    /// The names of its attributes.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn extended_names(&self) -> Result<Vec<Vec<u8>>, Error> {
        let stored = self.lane_file().xattrs().await.map_err(Error::of_write)?;
        let shown = |name: &CString| {
            let name = name.as_bytes().strip_prefix(NAMESPACE)?;
            (!name.starts_with(OWN)).then(|| name.to_vec())
        };
        Ok(stored.iter().filter_map(shown).collect())
    }
}

impl Writer {
    /// Gives the file the attribute `name`.
    ///
    /// # Errors
    /// [`Error::Reserved`], [`Error::Name`]; [`Error::Exists`] and [`Error::NotFound`] as `how` says; [`Error::NoSpace`];
    /// those of the file system.
    pub async fn set_extended(
        &self,
        caller: &Caller,
        name: &[u8],
        value: Vec<u8>,
        how: XattrHow,
    ) -> Result<(), Error> {
        let name = self.volume().counted(stored(name))?;
        self.change(caller, What::Attributes, None, async move |file| {
            file.lane_file().set_xattr(&name, value, how).await.map_err(of_extended)
        })
        .await
    }

    /// Takes the attribute `name` from the file.
    ///
    /// # Errors
    /// [`Error::NotFound`]; else as [`Writer::set_extended`].
    pub async fn remove_extended(&self, caller: &Caller, name: &[u8]) -> Result<(), Error> {
        let name = self.volume().counted(stored(name))?;
        self.change(caller, What::Attributes, None, async move |file| {
            file.lane_file().remove_xattr(&name).await.map_err(of_extended)
        })
        .await
    }
}

/// As the file system keeps it.
fn stored(name: &[u8]) -> Result<CString, Error> {
    match name {
        [] => return Err(Error::Name(NameError::Empty)),
        _ if name.len() > NAME_BYTES_MAX - NAMESPACE.len() => return Err(Error::NameTooLong),
        _ if name.starts_with(OWN) => return Err(Error::Reserved),
        _ => {}
    }
    CString::new([NAMESPACE, name].concat()).map_err(|_| Error::Name(NameError::Nul))
}

fn of_extended(error: std::io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENODATA) => Error::NotFound,
        Some(libc::E2BIG) => Error::NoSpace,
        _ => Error::of_write(error),
    }
}

const NAMESPACE: &[u8] = b"user.";
/// How the names of the server's own begin (`identity::ATTRIBUTE_PREFIXES`).
const OWN: &[u8] = b"linerate.";
/// XATTR_NAME_MAX of Linux.
const NAME_BYTES_MAX: usize = 255;
