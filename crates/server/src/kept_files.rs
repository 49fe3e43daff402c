//! Files that the server keeps in its state directory: which they are, and whether a path leads to one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::logs::place::{is_one, real};

/// Files that the server makes in its state directory, there already or not.
#[derive(Debug, Default)]
pub(crate) struct KeptFiles {
    state: PathBuf,
    /// Files that are there.
    found: Vec<PathBuf>,
}

impl KeptFiles {
    pub(crate) fn in_directory(state: PathBuf) -> Self {
        let entries = std::fs::read_dir(&state).into_iter().flatten().flatten();
        let kept = entries.filter(|entry| is_kept_name(&entry.file_name()));
        let found = kept.map(|entry| entry.path()).collect();
        Self { state, found }
    }

    /// Returns the one that a path leads to, by symbolic and hard links too.
    pub(crate) fn find(&self, path: &Path) -> Option<PathBuf> {
        let named =
            real(path).file_name().filter(|name| is_kept_name(name)).map(|name| self.state.join(name));
        named.into_iter().chain(self.found.iter().cloned()).find(|kept| is_one(path, kept))
    }
}

/// Returns whether the server makes files of this name in its state directory.
fn is_kept_name(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let is_beside = |kept: &&str| {
        let behind = name.strip_prefix(kept.as_bytes());
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with(b"."))
    };
    KEPT_NAMES.iter().any(is_beside) || KEPT_ENDINGS.iter().any(|kept| name.ends_with(kept.as_bytes()))
}

/// Names of files in the state directory; what has a dot behind one of them belongs to it.
const KEPT_NAMES: [&str; 5] =
    ["index.redb", "self-signed.crt", "self-signed.key", "afs-server-uuid", "room-ahead"];
/// Endings of what services leave for the next start.
const KEPT_ENDINGS: [&str; 2] = [".left", ".left-new"];
