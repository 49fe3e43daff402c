//! Failures that are the disk's or the file system's are told to the operator, with the path; what a client may cause
//! as often as it likes (names that do not exist, and the like) is counted alone. How often a message is written is
//! bounded where the server writes them.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use crate::error::Error;
use crate::name::{RelPath, RelPathBuf};

/// Where a file was found, for messages.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    volume: Rc<Path>,
    path: RelPathBuf,
}

impl Place {
    pub(crate) fn new(volume: &Rc<Path>, path: RelPath<'_>) -> Self {
        Self { volume: Rc::clone(volume), path: path.into() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.path.as_path().is_root() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.volume.display(), self.path)
    }
}

/// Tells of a look-up or listing that the file system failed.
pub(crate) fn tell(volume: &Rc<Path>, path: RelPath<'_>, what: &str, error: &Error) {
    if let Error::Io(error) = error {
        tracing::error!(path = %Place::new(volume, path), %error, "{what}");
    }
}
