//! Operation that reads from a file into a buffer (pread(2)).

use std::io;
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;

use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;
use crate::buffer::Buf;

/// Reads up to `len` bytes at `offset`, appended to `buf`.
pub(crate) struct Read {
    pub(crate) file: Fd,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    pub(crate) buf: Buf,
}

impl Operation for Read {
    const NAME: &'static str = "read";
    /// Number of bytes read.
    type Value = usize;
    type Output = (io::Result<usize>, Buf);

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let registered = self.buf.registered();
        let room = self.buf.spare_mut();
        let len = u32::try_from(self.len.min(room.len())).expect("buffers are far below 4 GiB");
        if let Some(index) = registered {
            let entry = opcode::ReadFixed::new(RingFd(self.file.0), room.as_mut_ptr(), len, index);
            return Start::Ring(entry.offset(self.offset).build());
        }
        Start::Ring(
            opcode::Read::new(RingFd(self.file.0), room.as_mut_ptr(), len).offset(self.offset).build(),
        )
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<usize> {
        completion.bytes()
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<usize>> {
        let at = step.file()?;
        let len = self.len.min(self.buf.spare());
        at.inode.bring_in(self.offset, len);
        Poll::Ready(at.disk.read(at.inode, self.offset, &mut self.buf.spare_mut()[..len], at.engine))
    }

    fn finish(mut self, result: io::Result<usize>) -> (io::Result<usize>, Buf) {
        if let Ok(n) = result {
            self.buf.grow(n);
        }
        (result, self.buf)
    }
}
