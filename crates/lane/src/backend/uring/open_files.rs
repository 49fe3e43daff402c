//! Files that a lane has open, and which of them have no disk to wait for.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::{Uring, files, residency};
use crate::backend::operation::PARTS_MAX;
use crate::backend::{Descriptor, Fd};
use crate::helper::queue::System;

/// File systems of a lane's open files.
#[derive(Default)]
pub(super) struct OpenFiles {
    /// File systems of open files, by descriptor.
    lie_on: Vec<LiesOn>,
}

/// File system of a file, and what its kind means for a close.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LiesOn {
    /// True for a file system that is all memory.
    in_memory: bool,
    /// File system to wait for, where there is a disk or a network.
    system: Option<System>,
    /// True where the length of the file was set by this descriptor.
    is_cut: bool,
}

impl LiesOn {
    fn of(fd: &OwnedFd) -> Self {
        let Some(found) = files::file_system(fd) else { return Self::default() };
        let system = (!found.is_memory).then_some(System(found.id));
        Self { in_memory: found.is_memory, system, is_cut: false }
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
}

impl Uring {
    /// Takes over an open file, and finds its file system by one system call.
    pub(super) fn register_file(&self, fd: OwnedFd) -> Descriptor {
        self.count_syscall();
        let lies_on = LiesOn::of(&fd);
        self.register(fd, lies_on)
    }

    /// Registers a file just made in `dir`, and hence on that directory's file system
    /// ([`Uring::register_file`]).
    pub(super) fn register_made(&self, fd: OwnedFd, dir: Fd) -> Descriptor {
        let lies_on = LiesOn { is_cut: false, ..self.files.borrow().lies_on(dir.0) };
        self.register(fd, lies_on)
    }

    fn register(&self, fd: OwnedFd, lies_on: LiesOn) -> Descriptor {
        self.counters.files.add(1);
        self.files.borrow_mut().set(fd.as_raw_fd(), lies_on);
        Descriptor::new(Fd(fd.into_raw_fd()))
    }

    /// Returns whether an open file has no disk to wait for.
    pub(super) fn is_in_memory(&self, file: Fd) -> bool {
        self.files.borrow().lies_on(file.0).in_memory
    }

    /// Returns the file system of an open file, where there is a disk or a network to wait for.
    pub(super) fn system_of(&self, file: Fd) -> Option<System> {
        self.files.borrow().lies_on(file.0).system
    }

    /// Notes that the length of an open file is set by this descriptor.
    pub(crate) fn cuts(&self, file: Fd) {
        let mut files = self.files.borrow_mut();
        let lies_on = LiesOn { is_cut: true, ..files.lies_on(file.0) };
        files.set(file.0, lies_on);
    }

    pub(super) fn is_cut(&self, file: Fd) -> bool {
        self.files.borrow().lies_on(file.0).is_cut
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

    /// Gives up the descriptor, which the caller closes from now on.
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
}
