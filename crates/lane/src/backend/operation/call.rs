//! Operations that are one call on a file or two and need no memory of the caller's while they last: names,
//! attributes, lengths, locks. Each file says its arguments, its entry for the ring where there is one, and
//! the call itself. This module decides which of the two is made, and on which thread:
//!
//! - the lane makes the call itself where it waits for no disk, on a file system that is all memory say, unless it takes
//!   long by its size ([`Call::is_brief`]);
//! - else the ring's opcode, where the running kernel has it;
//! - else a helper thread.

use std::io;
use std::os::fd::BorrowedFd;
use std::task::Poll;

use io_uring::squeue;

use super::{Completion, Keeper, Operation, Registered, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::{AtFile, Step};
use crate::backend::uring::Uring;

/// Kind of call. A value of it is its arguments.
pub(crate) trait Call: Registered + Clone + std::marker::Send + 'static {
    /// Name of the call in reports.
    const NAME: &'static str;

    /// True for a call after which the close of the file may have to write.
    const CUTS: bool = false;

    /// Result of a successful call.
    type Value: std::marker::Send + 'static;

    /// Returns the descriptor that the call works on.
    fn descriptor(&self) -> Fd;

    /// Returns the second descriptor that the call works on, if any.
    fn second(&self) -> Option<Fd> {
        None
    }

    /// Returns the call's entry for the ring, which points to nothing that moves with the value; `None` where
    /// no ring has the operation.
    fn entry(&mut self) -> Option<squeue::Entry> {
        None
    }

    /// Converts the ring's answer to a result.
    ///
    /// # Errors
    /// The kernel's.
    fn answer(&mut self, completion: Completion) -> io::Result<Self::Value> {
        let _ = completion;
        unreachable!("{} has no entry for the ring", Self::NAME)
    }

    /// Makes the call. `second` is the first descriptor where there is no second.
    ///
    /// # Errors
    /// The kernel's.
    fn call(&self, file: BorrowedFd<'_>, second: BorrowedFd<'_>) -> io::Result<Self::Value>;

    /// Returns whether the call takes only a moment where there is no disk to wait for.
    fn is_brief(&self, file: BorrowedFd<'_>, second: BorrowedFd<'_>) -> bool {
        let _ = (file, second);
        true
    }

    /// Returns whether the call may have to wait for a disk where there is one.
    fn waits_for_disk(&self) -> bool {
        true
    }

    /// Makes the call in a simulated world.
    ///
    /// # Errors
    /// The kernel's.
    #[cfg(feature = "sim")]
    fn simulate(&mut self, at: &mut AtFile<'_>) -> io::Result<Self::Value>;

    /// Disposes of a result that no task takes.
    fn abandon(value: Self::Value, keeper: &mut dyn Keeper) {
        let _ = keeper;
        drop(value);
    }
}

impl<C: Call> Operation for C {
    const NAME: &'static str = <C as Call>::NAME;
    type Value = <C as Call>::Value;
    type Output = io::Result<<C as Call>::Value>;
    const LOOKED_UP_LATE: bool = true;

    fn descriptor(&self) -> Fd {
        Call::descriptor(self)
    }

    fn second(&self) -> Option<Fd> {
        Call::second(self)
    }

    fn prepare(&mut self, ring: &Uring) -> Start {
        let file = Call::descriptor(self);
        let second = Call::second(self).unwrap_or(file);
        let is_brief = || self.is_brief(ring.borrow_fd(file), ring.borrow_fd(second));
        if !self.waits_for_disk() || ring.makes_call(file, PAGES) && is_brief() {
            return Start::Done(Self::outcome(self.call(ring.borrow_fd(file), ring.borrow_fd(second))));
        }
        if Self::CUTS {
            ring.cuts(file);
        }
        if let Some(entry) = self.entry() {
            if ring.knows(&entry) {
                return Start::Ring(entry);
            }
            //@ limit: operations that the ring lacks (truncation before Linux 6.9)
            //@ section: Lanes
            //@ unit: operation
            //@ connection: its own
            //@ all: process: the helpers' queue
            //@ empty: refused (`EAGAIN`); others take turns
            //@ counter: lane_ring_lacks, lane_helper_refused
            //@ attack: smb-cut
            ring.counters().ring_lacks.increment();
        }
        let arguments = self.clone();
        if second == file {
            return Start::on_helper::<Self>(file, move |file| arguments.call(file, file));
        }
        ring.count_syscall();
        match ring.borrow_fd(second).try_clone_to_owned() {
            Ok(second) => Start::on_helper::<Self>(file, move |file| {
                use std::os::fd::AsFd;
                arguments.call(file, second.as_fd())
            }),
            Err(error) => Start::Done(Self::outcome(Err(error))),
        }
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<Self::Value> {
        self.answer(completion)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<Self::Value>> {
        let mut at = step.file()?;
        Poll::Ready(Call::simulate(self, &mut at))
    }

    fn finish(self, result: io::Result<Self::Value>) -> Self::Output {
        result
    }

    fn abandon(output: Self::Output, keeper: &mut dyn Keeper) {
        if let Ok(value) = output {
            <C as Call>::abandon(value, keeper);
        }
    }
}

/// Weight of a call among those of one turn, in pages.
const PAGES: usize = 8;
