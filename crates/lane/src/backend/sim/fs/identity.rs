//! Handles, which name a file whatever its names are, until the file is gone (name_to_handle_at(2),
//! open_by_handle_at(2)).

use std::io;
use std::rc::{Rc, Weak};

use super::{Disk, Inode, READ, SEARCH, WRITE, errno};
use crate::backend::file::{FileHandle, FileKind};
use crate::backend::sim::engine::Engine;

impl Disk {
    /// Returns the handle of an inode: number and generation, as ext4 gives them.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system has no handles, as overlayfs.
    pub(crate) fn handle_of(&self, inode: &Inode) -> io::Result<FileHandle> {
        if !self.config.handles {
            return Err(errno(libc::EOPNOTSUPP));
        }
        let number = u32::try_from(inode.ino()).expect("worlds have few inodes");
        let bytes = [number.to_ne_bytes(), inode.stored.generation.to_ne_bytes()].concat();
        Ok(FileHandle { kind: INO32_GEN, bytes: bytes.into() })
    }

    /// Returns the inode of a handle, even one without a name while a descriptor holds it open.
    ///
    /// # Errors
    /// `EPERM` where the server may not (CAP_DAC_READ_SEARCH); `ESTALE` when the file is gone, or its number
    /// is another's now, and at the rate given.
    pub(crate) fn open_handle(
        &self,
        handle: &FileHandle,
        write: bool,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        if !self.config.open_by_handle {
            return Err(errno(libc::EPERM));
        }
        self.may_fail(self.config.name_error, engine)?;
        if !self.config.handles || engine.chance(self.config.stale_handle) {
            return Err(errno(libc::ESTALE));
        }
        let Ok([number, generation]) = <[[u8; 4]; 2]>::try_from(handle.bytes.as_chunks().0) else {
            return Err(errno(libc::ESTALE));
        };
        let inode = self.by_number.get(&u32::from_ne_bytes(number).into()).and_then(Weak::upgrade);
        let generation = u32::from_ne_bytes(generation);
        let inode = inode.filter(|inode| handle.kind == INO32_GEN && inode.stored.generation == generation);
        let inode = inode.ok_or_else(|| errno(libc::ESTALE))?;
        let any_name = inode.names.borrow().first().cloned();
        inode.found_by.replace(any_name);
        match inode.kind() {
            FileKind::Symlink => Err(errno(libc::ELOOP)),
            FileKind::Other => Err(errno(libc::ENXIO)),
            FileKind::Directory if write => Err(errno(libc::EISDIR)),
            FileKind::File | FileKind::Directory => {
                self.check_access(&inode, if write { READ | WRITE } else { READ })?;
                Ok(inode)
            }
        }
    }

    pub(crate) fn handle_at(
        &self,
        dir: &Rc<Inode>,
        name: &[u8],
        engine: &mut Engine,
    ) -> io::Result<FileHandle> {
        let inode = self.child(dir, name, engine)?;
        self.handle_of(&inode)
    }

    /// Returns the directory above an open one; the root is above itself.
    pub(crate) fn parent_of(&self, dir: &Rc<Inode>, engine: &mut Engine) -> io::Result<Rc<Inode>> {
        self.may_fail(self.config.name_error, engine)?;
        dir.directory()?;
        self.check_access(dir, SEARCH)?;
        if Rc::ptr_eq(dir, &self.root) {
            return Ok(Rc::clone(dir));
        }
        let parent = dir.parent().ok_or_else(|| errno(libc::ENOENT))?;
        self.check_access(&parent, READ)?;
        Ok(parent)
    }
}

/// Type of a handle made of an inode's number and generation, FILEID_INO32_GEN of linux/exportfs.h.
const INO32_GEN: i32 = 1;
