//! Failures that are the disk's or the file system's are told to the operator, with the path; what a client may cause
//! as often as it likes (names that do not exist, and the like) is counted alone. How often a message is written is
//! bounded where the server writes them.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use crate::error::Error;
use crate::name::{RelPath, RelPathBuf};

/// Place where a file was found, for messages.
#[derive(Clone, Debug)]
pub(crate) struct FaultPlace {
    volume: Rc<Path>,
    path: RelPathBuf,
}

impl FaultPlace {
    pub(crate) fn new(volume: &Rc<Path>, path: RelPath<'_>) -> Self {
        Self { volume: Rc::clone(volume), path: path.into() }
    }
}

impl fmt::Display for FaultPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.path.as_path().is_root() { "" } else { "/" };
        write!(f, "{}{slash}{}", self.volume.display(), self.path)
    }
}

/// Logs that the file system failed a look-up or listing.
pub(crate) fn log(volume: &Rc<Path>, path: RelPath<'_>, what: &str, error: &Error) {
    if let Error::Io(error) = error {
        let place = FaultPlace::new(volume, path);
        //@ cause: The file system failed when a file was opened or found, or a directory was listed. The line says which of these, and
        //@ the file system's reason.
        //@ remedy: Look at the kernel's log, and at the disk or the server that the file system is on.
        tracing::error!(
            path = %place,
            "file {place}: {what}: {error}; the client gets an error; look at the disk [file-system-failed]"
        );
    }
}

/// Logs that attempts at something have ended without an outcome, as others changed it each time.
pub(crate) fn log_unsettled(volume: &Rc<Path>, path: RelPath<'_>, doing: &str) {
    let place = FaultPlace::new(volume, path);
    //@ cause: Clients, or programs of this machine, changed or moved a file or directory at each of many attempts to do something to it.
    //@ The line says where and what was attempted.
    //@ remedy: None, where it is rare: the client tries again. Else find out who renames there so often.
    tracing::warn!(
        path = %place,
        "file {place}: {doing}: others changed it at each attempt; the client is told to try again [attempts-unsettled]"
    );
}
