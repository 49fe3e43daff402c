//! Handles: what names a file whatever its names are, until it is gone (name_to_handle_at(2), open_by_handle_at(2)).

use std::io;
use std::rc::{Rc, Weak};

use super::{Disk, Inode, READ, WRITE, errno};
use crate::backend::file::{FileHandle, FileKind, Timestamp};
use crate::backend::sim::engine::Engine;

impl Disk {
    pub(crate) fn handle_of(&self, inode: &Inode) -> io::Result<FileHandle> {
        Ok(FileHandle { kind: KIND, bytes: inode.ino().to_ne_bytes().into() })
    }

    /// What a handle names: also what has no name any more, while it is open.
    pub(crate) fn open_handle(
        &self,
        handle: &FileHandle,
        write: bool,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        self.may_fail(self.config.name_error, engine)?;
        let number = <[u8; 8]>::try_from(&*handle.bytes).ok().filter(|_| handle.kind == KIND);
        let inode = number.and_then(|number| self.by_number.get(&u64::from_ne_bytes(number)));
        let inode = inode.and_then(Weak::upgrade).ok_or_else(|| errno(libc::ESTALE))?;
        match inode.kind() {
            FileKind::Symlink => return Err(errno(libc::ELOOP)),
            FileKind::Other => return Err(errno(libc::ENXIO)),
            FileKind::Directory if write => return Err(errno(libc::EISDIR)),
            FileKind::File | FileKind::Directory => {}
        }
        inode.check_access(if write { READ | WRITE } else { READ })?;
        Ok(inode)
    }
}

impl Inode {
    /// When it was made.
    pub(crate) fn born(&self) -> Timestamp {
        self.born
    }
}

/// linux/exportfs.h: FILEID_INO32_GEN.
const KIND: i32 = 1;
