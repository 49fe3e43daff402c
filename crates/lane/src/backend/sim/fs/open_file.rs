//! Open file descriptions: what a descriptor names, and what is the description's own: its locks, and which failures to
//! write back it was told of.

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
    /// By which name; `None` where it had none.
    name: Option<Rc<Name>>,
    /// Of the inode's failures those that it was told of, or that were told before it was opened.
    told: Cell<u32>,
}

impl OpenFile {
    /// `owner` is unlike that of any other description of the host.
    pub(in crate::backend::sim) fn new(inode: Rc<Inode>, access: Access, owner: u64) -> Rc<Self> {
        let (failures, was_told) = inode.failures.get();
        // An event that no watcher was told of is told to the next watcher.
        let told = if was_told { failures } else { failures.wrapping_sub(1) };
        let name = inode.found_by.borrow().clone();
        Rc::new(Self { inode, access, owner, name, told: Cell::new(told) })
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.access == Access::Write
    }

    /// Something is done to the file by this description.
    pub(in crate::backend::sim) fn act(&self) {
        self.inode.found_by.replace(self.name.clone());
    }

    /// Returns the owner of the locks.
    pub(super) fn owner(&self) -> u64 {
        self.owner
    }

    /// `EIO`, once, when something could not be written back since it was opened (errseq in the kernel).
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
    /// The disk has refused what was to be written back.
    pub(super) fn fail(&self) {
        let (failures, _) = self.failures.get();
        self.failures.set((failures.wrapping_add(1), false));
    }
}
