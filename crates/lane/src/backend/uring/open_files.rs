//! The files that a lane has open: which of them have no disk to wait for, and when their numbers may go.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use io_uring::opcode;
use io_uring::types::Fd as RingFd;
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::key::Key;
use super::{Uring, files, residency};
use crate::backend::operation::PARTS_MAX;
use crate::backend::{Descriptor, Fd};
use crate::helper::queue::System;

/// What a lane keeps of its open files.
#[derive(Default)]
pub(super) struct OpenFiles {
    /// Where they lie, by descriptor.
    lie_on: Vec<LiesOn>,
    /// Closed by their owners while operations that were given up still name them.
    closing: Vec<Fd>,
}

/// Where a file lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LiesOn {
    /// A file system that is all memory.
    in_memory: bool,
    /// Which one, where there is a disk or a network to wait for.
    system: Option<System>,
}

impl LiesOn {
    fn of(fd: &OwnedFd) -> Self {
        let Some(found) = files::file_system(fd) else { return Self::default() };
        Self { in_memory: found.is_memory, system: (!found.is_memory).then_some(System(found.id)) }
    }
}

impl OpenFiles {
    fn set(&mut self, fd: RawFd, lies_on: LiesOn) {
        let index = usize::try_from(fd).expect("descriptors are not negative");
        if index >= self.lie_on.len() {
            self.lie_on.resize(index + 1, LiesOn::default());
        }
        self.lie_on[index] = lies_on;
    }

    fn lies_on(&self, fd: RawFd) -> LiesOn {
        let index = usize::try_from(fd).ok();
        index.and_then(|index| self.lie_on.get(index)).copied().unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn has_closing(&self) -> bool {
        !self.closing.is_empty()
    }
}

impl Uring {
    /// Takes over an open file. One system call tells where it lies.
    pub(super) fn register_file(&self, fd: OwnedFd) -> Descriptor {
        self.count_syscall();
        let lies_on = LiesOn::of(&fd);
        self.register(fd, lies_on)
    }

    /// As [`Uring::register_file`], of a file that was just made in `dir`, hence lies where that does.
    pub(super) fn register_made(&self, fd: OwnedFd, dir: Fd) -> Descriptor {
        let lies_on = self.files.borrow().lies_on(dir.0);
        self.register(fd, lies_on)
    }

    fn register(&self, fd: OwnedFd, lies_on: LiesOn) -> Descriptor {
        self.counters.files.add(1);
        self.files.borrow_mut().set(fd.as_raw_fd(), lies_on);
        Descriptor::new(Fd(fd.into_raw_fd()))
    }

    /// Whether an open file has no disk to wait for.
    pub(super) fn is_in_memory(&self, file: Fd) -> bool {
        self.files.borrow().lies_on(file.0).in_memory
    }

    /// The file system that an open file lies on, where there is a disk or a network to wait for.
    pub(super) fn system_of(&self, file: Fd) -> Option<System> {
        self.files.borrow().lies_on(file.0).system
    }

    pub(super) fn try_read(
        &self,
        file: Fd,
        offset: u64,
        into: &mut [IoSliceMut<'_>],
    ) -> io::Result<Option<usize>> {
        self.count_syscall();
        let parts = into.len().min(PARTS_MAX);
        // What is all in memory has no page to wait for, and refuses to be asked not to.
        let flags = if self.is_in_memory(file) { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
        match preadv2(self.borrow_fd(file), &mut into[..parts], offset, flags) {
            Ok(n) => Ok(Some(n)),
            // Cold, or a file system that cannot tell.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => {
                self.counters.cold_reads.increment();
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn resident_from(&self, file: Fd, offset: u64, len: usize) -> io::Result<usize> {
        if self.is_in_memory(file) {
            return Ok(len);
        }
        self.count_syscall();
        let has = |at| Ok(self.try_read(file, at, &mut [IoSliceMut::new(&mut [0])])?.is_some());
        residency::resident(self.borrow_fd(file), offset, len, has)
    }

    pub(super) fn lend(&self, file: Fd) -> io::Result<OwnedFd> {
        if self.is_in_memory(file) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.count_syscall();
        self.borrow_fd(file).try_clone_to_owned()
    }

    /// Closes a file once no operation that was given up can find its number in another's hands.
    pub(super) fn close_file(&self, fd: Fd) {
        self.counters.files.sub(1);
        if self.ops.borrow().is_named_by_orphans(fd) {
            return self.files.borrow_mut().closing.push(fd);
        }
        // With nothing queued, no operation can find the number in another's hands, and what has no disk to wait for is best let
        // go of while it is in the processor's cache.
        if self.is_in_memory(fd) && self.ring.borrow_mut().submission().is_empty() {
            self.count_syscall();
            // SAFETY: its owner has given it up, and no operation names it.
            return drop(unsafe { OwnedFd::from_raw_fd(fd.0) });
        }
        self.push_close(fd);
    }

    /// Its number is another's to close from now on.
    ///
    /// # Errors
    /// `EBUSY` while an operation that was given up names it.
    pub(super) fn let_go_of_file(&self, fd: Fd) -> io::Result<OwnedFd> {
        if self.ops.borrow().is_named_by_orphans(fd) {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        self.counters.files.sub(1);
        // SAFETY: its owner gives it up with this, and no operation names it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd.0) })
    }

    /// Through the ring, behind whatever was queued on this descriptor before: an operation must never find the number
    /// in another's hands.
    pub(super) fn push_close(&self, fd: Fd) {
        self.push(&opcode::Close::new(RingFd(fd.0)).build(), Key::IGNORED);
    }

    /// Closes what waited for operations that were given up and have ended.
    pub(super) fn close_let_go(&self) {
        let mut closing = std::mem::take(&mut self.files.borrow_mut().closing);
        closing.retain(|&fd| {
            let is_named = self.ops.borrow().is_named_by_orphans(fd);
            if !is_named {
                self.push_close(fd);
            }
            is_named
        });
        self.files.borrow_mut().closing = closing;
    }
}
