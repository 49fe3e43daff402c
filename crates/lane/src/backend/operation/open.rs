//! Operation that opens a directory beneath another, or finds any other file (openat2(2)).

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::{Fd as RingFd, OpenHow as RingHow};

use super::{Completion, Keeper, Opened, Operation, Start};
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::{Uring, files};
use crate::backend::{Fd, OpenHow, OpenKind};

/// Opens `path` beneath `dir`. On a ring what [may be no directory](crate::backend::OpenKind::Any) is found only, and opened by
/// [`super::OpenFound`] when it is seen what it is; a simulated host opens it at once.
pub(crate) struct Open {
    dir: Fd,
    how: OpenHow,
    /// Arguments that the kernel reads: the path and the options.
    read: Box<(CString, RingHow)>,
}

impl Open {
    pub(crate) fn new(dir: Fd, path: CString, how: OpenHow) -> Self {
        let (flags, resolve) = files::open_rules(how);
        let ring_how = RingHow::new().flags(flags.bits().into()).resolve(resolve.bits());
        Self { dir, how, read: Box::new((path, ring_how)) }
    }
}

impl Operation for Open {
    const NAME: &'static str = "open";
    type Value = Opened;
    type Output = io::Result<Opened>;
    const LOOKED_UP_LATE: bool = true;

    fn descriptor(&self) -> Fd {
        self.dir
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let (path, how) = (self.read.0.as_ptr(), &raw const self.read.1);
        Start::Ring(opcode::OpenAt2::new(RingFd(self.dir.0), path, how).build())
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<Opened> {
        let fd = completion.result()?.cast_signed();
        // SAFETY: the kernel made this descriptor for this operation, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        match self.how.kind {
            OpenKind::Directory => files::settle(fd).map(Opened::Kernel),
            OpenKind::Any => Ok(Opened::Kernel(fd)),
        }
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<Opened>> {
        let at = step.file()?;
        let inode = at.disk.open(at.inode, self.read.0.as_bytes(), self.how, at.engine)?;
        Poll::Ready(at.process.add_file(inode, self.how.into()).map(Opened::Simulated))
    }

    fn finish(self, result: io::Result<Opened>) -> io::Result<Opened> {
        result
    }

    fn abandon(output: io::Result<Opened>, keeper: &mut dyn Keeper) {
        if let Ok(opened) = output {
            keeper.close(opened);
        }
    }
}
