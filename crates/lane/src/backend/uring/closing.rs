//! Closing of files. The lane makes the call for a file in memory, the ring for one on a disk, and a helper
//! where the call waits for the disk. The last descriptor of a file without a name frees its blocks, and ext4
//! and XFS write a file that was cut when it is closed.

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::Fd as RingFd;

use super::key::Key;
use super::{Uring, files};
use crate::backend::Fd;
use crate::helper::queue::{Party, System};

/// Closes that wait for other work.
#[derive(Default)]
pub(super) struct Closing {
    /// Descriptors closed by their owners while operations that were given up still name them.
    named: Vec<Fd>,
    /// Files that helpers close, by file system.
    aside: BTreeMap<System, Arc<Aside>>,
}

/// Files of one file system that are slow to close, closed by one helper at a time.
#[derive(Default)]
struct Aside(Mutex<WaitingClose>);

#[derive(Default)]
struct WaitingClose {
    files: Vec<OwnedFd>,
    has_helper: bool,
}

impl Closing {
    #[cfg(test)]
    pub(super) fn has_named(&self) -> bool {
        !self.named.is_empty()
    }
}

impl Uring {
    /// Closes a file once no operation that was given up can find its number on another file.
    pub(super) fn close_file(&self, fd: Fd) {
        self.counters.files.sub(1);
        if self.ops.borrow().is_named_by_orphans(fd) {
            return self.closing.borrow_mut().named.push(fd);
        }
        // With nothing queued, no operation can find the number in another's hands, and what has no disk to wait for is best let
        // go of while it is in the processor's cache.
        if self.is_in_memory(fd) && self.ring.borrow_mut().submission().is_empty() {
            self.count_syscall();
            // SAFETY: its owner has given it up, and no operation names it.
            return drop(unsafe { OwnedFd::from_raw_fd(fd.0) });
        }
        self.close_waiting(fd);
    }

    /// Queues a close on the ring, behind operations queued earlier: an operation must never find the number
    /// on another file.
    pub(super) fn push_close(&self, fd: Fd) {
        self.push(&opcode::Close::new(RingFd(fd.0)).build(), Key::IGNORED);
    }

    /// Closes files that waited for operations that were given up and have ended.
    pub(super) fn close_let_go(&self) {
        let mut named = std::mem::take(&mut self.closing.borrow_mut().named);
        named.retain(|&fd| {
            let is_named = self.ops.borrow().is_named_by_orphans(fd);
            if !is_named {
                self.close_waiting(fd);
            }
            is_named
        });
        self.closing.borrow_mut().named = named;
    }

    /// Closes a file that may lie on a disk: on the lane's own thread, as the ring does, or by a helper.
    fn close_waiting(&self, fd: Fd) {
        let Some(system) = self.system_of(fd) else { return self.push_close(fd) };
        if !self.close_waits(fd) || !self.ring_has_taken_all() {
            return self.push_close(fd);
        }
        let aside = Arc::clone(self.closing.borrow_mut().aside.entry(system).or_default());
        if aside.is_full() {
            return self.push_close(fd);
        }
        self.counters.closes_aside.increment();
        // SAFETY: its owner has given it up, and no operation names it.
        let file = unsafe { OwnedFd::from_raw_fd(fd.0) };
        if !aside.push(file) {
            return;
        }
        // The lane's own, which never gives way: the client that caused it may be gone.
        let party = Party { client: None, system: Some(system) };
        let job = Arc::clone(&aside);
        if self.helpers.submit(party, Box::new(move || job.close_all())).is_err() {
            aside.take().into_iter().for_each(|file| self.push_close_aside(file));
        }
    }

    fn close_waits(&self, fd: Fd) -> bool {
        if self.is_cut(fd) {
            return true;
        }
        self.count_syscall();
        files::is_nameless(self.borrow_fd(fd))
    }

    /// Hands over the queue to the kernel, so that each operation has found its file by number; returns
    /// whether all was taken.
    fn ring_has_taken_all(&self) -> bool {
        let is_empty = || self.ring.borrow_mut().submission().is_empty();
        is_empty() || (self.enter().is_ok() && is_empty())
    }

    /// Queues a close by a worker of the ring.
    fn push_close_aside(&self, file: OwnedFd) {
        let entry = opcode::Close::new(RingFd(file.into_raw_fd())).build();
        self.push(&entry.flags(Flags::ASYNC), Key::IGNORED);
    }
}

impl Aside {
    fn is_full(&self) -> bool {
        self.lock().files.len() >= WAITING_MAX
    }

    /// Leaves a file to the helper; returns whether a helper must be asked.
    fn push(&self, file: OwnedFd) -> bool {
        let mut waiting = self.lock();
        waiting.files.push(file);
        !std::mem::replace(&mut waiting.has_helper, true)
    }

    /// Takes the waiting files, which have no helper from now on.
    fn take(&self) -> Vec<OwnedFd> {
        let mut waiting = self.lock();
        waiting.has_helper = false;
        std::mem::take(&mut waiting.files)
    }

    /// Closes files until none waits.
    fn close_all(&self) {
        loop {
            let mut waiting = self.lock();
            let Some(file) = waiting.files.pop() else { return waiting.has_helper = false };
            drop(waiting);
            drop(file);
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingClose> {
        self.0.lock().expect("nobody panics while it holds the lock")
    }
}

//@ limit: files that wait to be closed by a helper
//@ section: Lanes
//@ unit: file
//@ all: lane: {} of each file system; one helper thread closes them
//@ empty: the lane closes the file itself, and waits for the disk
//@ counter: lane_closes_aside
//@ attack: http-slow-uploads
const WAITING_MAX: usize = 1024;
