//! Operation that writes a buffer to a file (pwrite(2)). Written data shows at once and is safe after
//! [`super::Sync`].

use std::io::{self, IoSlice};
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;

use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;
use crate::buffer::Buf;

/// Writes `buf[from..]` at `offset`, or a part.
pub(crate) struct Write {
    pub(crate) file: Fd,
    pub(crate) offset: u64,
    pub(crate) from: usize,
    pub(crate) buf: Buf,
}

impl Operation for Write {
    const NAME: &'static str = "write";
    /// Number of bytes written.
    type Value = usize;
    type Output = (io::Result<usize>, Buf);

    fn descriptor(&self) -> Fd {
        self.file
    }

    fn prepare(&mut self, ring: &Uring) -> Start {
        let bytes = &self.buf[self.from..];
        let at_once = &bytes[..bytes.len().min(AT_ONCE_BYTES_MAX)];
        if ring.makes_call(self.file, at_once.len() / PAGE_BYTES) {
            let written = rustix::io::pwrite(ring.borrow_fd(self.file), at_once, self.offset);
            return Start::Ended(Completion::of(written));
        }
        let len = u32::try_from(bytes.len()).expect("buffers are far below 4 GiB");
        if let Some(index) = self.buf.registered() {
            let entry = opcode::WriteFixed::new(RingFd(self.file.0), bytes.as_ptr(), len, index);
            return Start::Ring(entry.offset(self.offset).build());
        }
        Start::Ring(opcode::Write::new(RingFd(self.file.0), bytes.as_ptr(), len).offset(self.offset).build())
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<usize> {
        completion.bytes()
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<usize>> {
        let at = step.file()?;
        at.check_writable()?;
        let parts = [IoSlice::new(&self.buf[self.from..])];
        Poll::Ready(at.disk.write(at.inode, self.offset, &parts, at.engine))
    }

    fn finish(self, result: io::Result<usize>) -> (io::Result<usize>, Buf) {
        (result, self.buf)
    }
}

//@ limit: receive buffers that a file is written from
//@ section: Lanes
//@ unit: buffer
//@ connection: those that its service has taken, until the write is over; {:b} by one call
//@ all: lane: half of the receive ring
//@ empty: what arrives is copied out of the ring; others feel nothing
//@ counter: lane_recv_copied
//@ attack: http-slow-uploads
/// Most bytes that the lane itself copies in one write where there is no disk to wait for.
///
/// The ring would have a thread of its own do it, on another CPU, which takes more of both.
pub(super) const AT_ONCE_BYTES_MAX: usize = 1 << 20;
pub(super) const PAGE_BYTES: usize = 4096;
