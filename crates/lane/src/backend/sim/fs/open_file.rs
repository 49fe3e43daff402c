//! Open file descriptions: an inode, and the description's own state. The latter is its locks, and which failures to
//! write back it has reported.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use super::errno;
use super::inode::{Inode, Name};
use crate::backend::sim::core::Access;

/// An open file or directory.
pub(crate) struct OpenFile {
    pub(crate) inode: Rc<Inode>,
    access: Access,
    owner: u64,
    /// Name by which the file was opened; `None` where it had none.
    name: Option<Rc<Name>>,
    /// Count of the inode's write-back failures that this description has reported, or another before the open.
    told: Cell<u32>,
}

impl OpenFile {
    /// Makes an open file description with an `owner` of locks unlike that of any other on the host.
    pub(in crate::backend::sim) fn new(inode: Rc<Inode>, access: Access, owner: u64) -> Rc<Self> {
        let (failures, was_told) = inode.failures.get();
        // A failure that no description has reported is reported by the next one that is opened.
        let told = if was_told { failures } else { failures.wrapping_sub(1) };
        let name = inode.found_by.borrow().clone();
        Rc::new(Self { inode, access, owner, name, told: Cell::new(told) })
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.access == Access::Write
    }

    /// Notes that this description's name is the one by which the next operation finds the file.
    pub(in crate::backend::sim) fn act(&self) {
        self.inode.found_by.replace(self.name.clone());
    }

    /// Returns the path of the name by which it was opened, wherever that is now.
    pub(crate) fn path(&self) -> Vec<u8> {
        let is_there = |name: &&Rc<Name>| self.inode.names.borrow().iter().any(|kept| Rc::ptr_eq(kept, name));
        let mut names = Vec::new();
        let mut next = self.name.clone();
        while let Some(name) = next {
            names.push(name.called.borrow().clone());
            let above = name.dir.borrow().upgrade();
            next = above.and_then(|above| above.names.borrow().first().cloned());
        }
        let mut path: Vec<u8> = names.iter().rev().flat_map(|name| [b"/", &name[..]].concat()).collect();
        match &self.name {
            Some(name) if !is_there(&name) => path.extend(b" (deleted)"),
            None if path.is_empty() => path.push(b'/'),
            _ => {}
        }
        path
    }

    /// Returns the owner of the locks.
    pub(super) fn owner(&self) -> u64 {
        self.owner
    }

    /// Returns `EIO`, once, when something could not be written back since the open (errseq in the kernel).
    pub(super) fn check_failures(&self) -> io::Result<()> {
        let (failures, _) = self.inode.failures.get();
        if self.told.replace(failures) == failures {
            return Ok(());
        }
        self.inode.failures.set((failures, true));
        Err(errno(libc::EIO))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.inode.locks.borrow_mut().release(self.owner);
    }
}

impl Inode {
    /// Notes that the disk has refused what was to be written back.
    pub(super) fn fail(&self) {
        let (failures, _) = self.failures.get();
        self.failures.set((failures.wrapping_add(1), false));
    }
}
