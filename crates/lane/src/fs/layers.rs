//! File systems of layers, in which a change makes another file of a file.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, fstatfs, fstatvfs};

use crate::backend::operation::handle_at;

/// Returns whether files beneath the directory get another handle and inode number by their first change.
/// Overlayfs copies a file from a lower layer into its upper one then, and gives handles that stay only if it
/// is mounted with `nfs_export=on`. Blocks: for start-up and configuration.
///
/// # Errors
/// Those of opening the directory, and of statfs(2).
pub fn changes_identities(directory: &Path) -> io::Result<bool> {
    let directory = std::fs::File::open(directory)?;
    if fstatfs(&directory)?.f_type != OVERLAYFS {
        return Ok(false);
    }
    // Of what is mounted read-only, or has no upper layer, nothing is copied.
    let is_fixed = fstatvfs(&directory)?.f_flag.contains(StatVfsMountFlags::RDONLY);
    Ok(!is_fixed && handle_at(directory.as_fd(), &CString::from(c".")).is_err())
}

/// Number of overlayfs in statfs(2), OVERLAYFS_SUPER_MAGIC of linux/magic.h.
const OVERLAYFS: rustix::fs::FsWord = 0x794c_7630;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_layers_changes_no_identity() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        assert!(!changes_identities(dir.path()).unwrap());
        assert!(changes_identities(&dir.path().join("none")).is_err());
    }
}
