//! Operation that sends a buffer on a stream (send(2)).

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

/// Sends `buf[from..]`, or a part. `more` says that bytes follow at once.
pub(crate) struct Send {
    pub(crate) socket: Fd,
    pub(crate) buf: Buf,
    pub(crate) from: usize,
    pub(crate) more: bool,
}

impl Operation for Send {
    const NAME: &'static str = "send";
    /// Number of bytes taken.
    type Value = usize;
    type Output = (io::Result<usize>, Buf);

    fn descriptor(&self) -> Fd {
        self.socket
    }

    fn prepare(&mut self, ring: &Uring) -> Start {
        let bytes = &self.buf[self.from..];
        let len = u32::try_from(bytes.len()).expect("buffers are far below 4 GiB");
        let more = if self.more { libc::MSG_MORE } else { 0 };
        let flags = libc::MSG_NOSIGNAL | ring.wait_all(self.socket) | more;
        Start::Ring(opcode::Send::new(RingFd(self.socket.0), bytes.as_ptr(), len).flags(flags).build())
    }

    fn complete(&mut self, completion: Completion, ring: &Uring) -> io::Result<usize> {
        let sent = completion.bytes();
        ring.counters().bytes_out.add(sent.as_ref().map_or(0, |n| *n as u64));
        sent
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<usize>> {
        step.send(&[IoSlice::new(&self.buf[self.from..])], self.more)
    }

    fn finish(self, result: io::Result<usize>) -> (io::Result<usize>, Buf) {
        (result, self.buf)
    }
}
