//! Operation that moves pages between a file or socket and a pipe (splice(2)). On the ring a kernel thread
//! does it, which may wait for the disk without holding up the lane.

use std::io;
use std::os::fd::AsRawFd;
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;

use super::{Completion, Operation, Start};
use crate::backend::Fd;
use crate::backend::pipe::{Ends, Pipe};
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;

/// Moves up to `len` bytes into or out of a pipe, which is returned in every case and knows its content.
pub(crate) struct Splice {
    pub(crate) pipe: Pipe,
    pub(crate) way: SpliceDirection,
    pub(crate) len: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SpliceDirection {
    /// Direction from a file at an offset into the pipe; 0 bytes at the file's end.
    In { file: Fd, offset: u64 },
    /// Direction from the pipe to a stream; `EAGAIN` when it takes nothing now. `more` says that bytes follow
    /// at once.
    Out { socket: Fd, more: bool },
}

impl Operation for Splice {
    const NAME: &'static str = "splice";
    /// Number of bytes moved.
    type Value = usize;
    type Output = (io::Result<usize>, Pipe);

    fn descriptor(&self) -> Fd {
        match self.way {
            SpliceDirection::In { file, .. } => file,
            SpliceDirection::Out { socket, .. } => socket,
        }
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let Ends::Kernel { read, write } = &self.pipe.ends else {
            unreachable!("no simulated pipe is on a ring")
        };
        let len = u32::try_from(self.len).unwrap_or(u32::MAX);
        Start::Ring(match self.way {
            SpliceDirection::In { file, offset } => {
                let (pipe, offset) = (RingFd(write.as_raw_fd()), offset.cast_signed());
                opcode::Splice::new(RingFd(file.0), offset, pipe, -1, len).flags(libc::SPLICE_F_MOVE).build()
            }
            SpliceDirection::Out { socket, more } => {
                let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
                let flags = if more { flags | libc::SPLICE_F_MORE } else { flags };
                opcode::Splice::new(RingFd(read.as_raw_fd()), -1, RingFd(socket.0), -1, len)
                    .flags(flags)
                    .build()
            }
        })
    }

    fn complete(&mut self, completion: Completion, ring: &Uring) -> io::Result<usize> {
        let moved = completion.bytes()?;
        if let SpliceDirection::Out { .. } = self.way {
            ring.counters().bytes_out.add(moved as u64);
        }
        Ok(moved)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<usize>> {
        let room = self.pipe.capacity() - self.pipe.held();
        let Ends::Simulated(bytes) = &mut self.pipe.ends else {
            unreachable!("a world has pipes of its own")
        };
        match self.way {
            SpliceDirection::In { offset, .. } => {
                let at = step.file()?;
                let mut read = vec![0; room.min(self.len)];
                at.inode.bring_in(offset, read.len());
                let n = at.disk.read(at.inode, offset, &mut read, at.engine)?;
                bytes.extend(&read[..n]);
                Poll::Ready(Ok(n))
            }
            SpliceDirection::Out { more, .. } => {
                let at = step.socket()?;
                let (first, _) = bytes.as_slices();
                let part = io::IoSlice::new(&first[..first.len().min(self.len)]);
                let sent = at.net.send(at.socket, &[part], more, at.engine)?;
                let n = sent.ok_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN))?;
                bytes.drain(..n);
                Poll::Ready(Ok(n))
            }
        }
    }

    fn finish(mut self, result: io::Result<usize>) -> (io::Result<usize>, Pipe) {
        if let Ok(n) = result {
            match self.way {
                SpliceDirection::In { .. } => self.pipe.fill(n),
                SpliceDirection::Out { .. } => self.pipe.drain(n),
            }
        }
        (result, self.pipe)
    }
}
