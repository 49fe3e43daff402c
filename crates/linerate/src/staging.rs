//! Private directories for files on their way to or from what is no file, such as standard output.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Directory of this user alone in `$TMPDIR`, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub(crate) struct Staging(PathBuf);

impl Staging {
    /// Name of the one file in it.
    pub(crate) const NAME: &CStr = c"file";

    pub(crate) fn new() -> io::Result<Self> {
        for number in 0..TRIES_MAX {
            let path = std::env::temp_dir().join(format!("linerate-staging-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Self(path)),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Returns its path and the file's name.
    pub(crate) fn place(&self) -> (PathBuf, CString) {
        (self.0.clone(), Self::NAME.to_owned())
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join(OsStr::from_bytes(Self::NAME.to_bytes()))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const TRIES_MAX: u32 = 1_000;
