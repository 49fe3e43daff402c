//! Operation that waits until a socket can take or give something (poll(2)).

use std::io;
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;

use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;

/// Waits until `socket` takes bytes or datagrams.
pub(crate) struct Ready {
    pub(crate) socket: Fd,
}

impl Operation for Ready {
    const NAME: &'static str = "wait for room to send";
    type Value = ();
    type Output = io::Result<()>;

    fn descriptor(&self) -> Fd {
        self.socket
    }

    fn prepare(&mut self, _: &Uring) -> Start {
        let events = libc::POLLOUT.cast_unsigned().into();
        Start::Ring(opcode::PollAdd::new(RingFd(self.socket.0), events).build())
    }

    fn complete(&mut self, completion: Completion, _: &Uring) -> io::Result<()> {
        completion.result().map(drop)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<()>> {
        let at = step.socket()?;
        match at.net.is_writable(at.socket, at.key)? {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn finish(self, result: io::Result<()>) -> io::Result<()> {
        result
    }
}
