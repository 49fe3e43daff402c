//! Operation that syncs a file (fsync(2), fdatasync(2)).

use std::io;
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::{Fd as RingFd, FsyncFlags};
use rustix::fs as sys;

use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;

/// Syncs `file`. After an error data written since the last success may be lost, whatever a later sync says:
/// the kernel does not write it again.
pub(crate) struct Sync {
    pub(crate) file: Fd,
    /// True to leave out attributes that reading the content back does not need.
    pub(crate) data_only: bool,
}

impl Operation for Sync {
    const NAME: &'static str = "sync";
    type Value = ();
    type Output = io::Result<()>;

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn prepare(&mut self, ring: &Uring) -> Start {
        if ring.makes_call(self.file, 0) {
            return Start::Ended(Completion::of(sys::fsync(ring.borrow_fd(self.file)).map(|()| 0)));
        }
        let flags = if self.data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
        Start::Ring(opcode::Fsync::new(RingFd(self.file.0)).flags(flags).build())
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<()> {
        completion.result().map(drop)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<()>> {
        let at = step.file()?;
        Poll::Ready(at.disk.sync(at.file, self.data_only, at.engine))
    }

    fn finish(self, result: io::Result<()>) -> io::Result<()> {
        result
    }
}
