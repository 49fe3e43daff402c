//! Lock that each server takes on the directory of a volume that some client may change, to find other
//! writers.

use std::fs::File;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

/// Lock that keeps servers from writing to a tree, as long as it is held. On a file system without such locks
/// it has no effect.
#[derive(Debug)]
pub(crate) struct TreeHeld {
    _dir: File,
}

/// Locks a tree, to look at it or, `alone`, to change it; `None` where a server writes to it.
///
/// # Errors
/// Those of opening the directory.
pub(crate) fn hold(path: &Path, alone: bool) -> std::io::Result<Option<TreeHeld>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let how = match alone {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    match flock(&dir, how) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        // As NFS has it, which locks no directories.
        _ => Ok(Some(TreeHeld { _dir: dir })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_keeps_out_who_changes_and_the_other_way_round() {
        let dir = tempfile::tempdir().unwrap();
        let at = |alone| hold(dir.path(), alone).unwrap();
        let looking = at(false).unwrap();
        let too = at(false).unwrap();
        assert!(at(true).is_none());
        drop((looking, too));
        let changing = at(true).unwrap();
        assert!(at(true).is_none() && at(false).is_none());
        drop(changing);
        assert!(at(true).is_some());
        assert!(hold(&dir.path().join("absent"), false).is_err());
    }
}
