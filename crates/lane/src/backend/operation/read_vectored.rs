//! Operation that reads from a file into several buffers (preadv(2)).

use std::io;
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;

use super::vectors::{Vectors, fill};
use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;
use crate::buffer::Buf;

/// Reads up to `len` bytes at `offset`, appended to the buffers one after another.
pub(crate) struct ReadVectored {
    file: Fd,
    offset: u64,
    len: usize,
    rooms: Vectors,
    bufs: Vec<Buf>,
}

impl ReadVectored {
    pub(crate) fn new(file: Fd, offset: u64, len: usize, mut bufs: Vec<Buf>) -> Self {
        let rooms = Vectors::of_room(&mut bufs, len);
        Self { file, offset, len, rooms, bufs }
    }
}

impl Operation for ReadVectored {
    const NAME: &'static str = "vectored read";
    /// Number of bytes read.
    type Value = usize;
    type Output = (io::Result<usize>, Vec<Buf>);

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let entry = opcode::Readv::new(RingFd(self.file.0), self.rooms.as_ptr(), self.rooms.len());
        Start::Ring(entry.offset(self.offset).build())
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<usize> {
        completion.bytes()
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<usize>> {
        let at = step.file()?;
        let room = self.bufs.iter().map(Buf::spare).sum::<usize>().min(self.len);
        at.inode.bring_in(self.offset, room);
        let mut bytes = vec![0; room];
        let n = at.disk.read(at.inode, self.offset, &mut bytes, at.engine)?;
        let mut rest = &bytes[..n];
        for buf in &mut self.bufs {
            let here = rest.len().min(buf.spare());
            buf.spare_mut()[..here].copy_from_slice(&rest[..here]);
            rest = &rest[here..];
        }
        Poll::Ready(Ok(n))
    }

    fn finish(mut self, result: io::Result<usize>) -> (io::Result<usize>, Vec<Buf>) {
        if let Ok(n) = result {
            fill(&mut self.bufs, n);
        }
        (result, self.bufs)
    }
}
