//! Operation that writes several buffers to a file (pwritev(2)).

use std::io::{self, IoSlice};
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;

use super::vectors::{PARTS_MAX, Vectors, beginning_of, rest_of};
use super::write::{AT_ONCE_BYTES_MAX, PAGE_BYTES};
use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;
use crate::buffer::Buf;

/// Writes the bytes of the buffers, one after another but the first `from`, at `offset`, or a part.
pub(crate) struct WriteVectored {
    file: Fd,
    offset: u64,
    from: usize,
    parts: Vectors,
    bufs: Vec<Buf>,
}

impl WriteVectored {
    pub(crate) fn new(file: Fd, offset: u64, from: usize, bufs: Vec<Buf>) -> Self {
        let parts = Vectors::of_bytes(&bufs, from);
        Self { file, offset, from, parts, bufs }
    }
}

impl Operation for WriteVectored {
    const NAME: &'static str = "vectored write";
    /// Number of bytes written.
    type Value = usize;
    type Output = (io::Result<usize>, Vec<Buf>);

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn prepare(&mut self, ring: &Uring) -> Start {
        let len = self.parts.bytes().min(AT_ONCE_BYTES_MAX);
        if ring.makes_call(self.file, len / PAGE_BYTES) {
            let parts: Vec<_> =
                beginning_of(rest_of(&self.bufs, self.from), len).take(PARTS_MAX).map(IoSlice::new).collect();
            let file = ring.borrow_fd(self.file);
            return Start::Ended(Completion::of(rustix::io::pwritev(file, &parts, self.offset)));
        }
        let entry = opcode::Writev::new(RingFd(self.file.0), self.parts.as_ptr(), self.parts.len());
        Start::Ring(entry.offset(self.offset).build())
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<usize> {
        completion.bytes()
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<usize>> {
        let at = step.file()?;
        at.check_writable()?;
        let parts: Vec<_> = rest_of(&self.bufs, self.from).map(IoSlice::new).collect();
        Poll::Ready(at.disk.write(at.inode, self.offset, &parts, at.engine))
    }

    fn finish(self, result: io::Result<usize>) -> (io::Result<usize>, Vec<Buf>) {
        (result, self.bufs)
    }
}
