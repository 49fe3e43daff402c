//! Operation that sends several buffers with control messages, on a stream or as datagrams (sendmsg(2)).

use std::io;
use std::net::SocketAddr;
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;

use super::message::{Message, stream_flags};
use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;
use crate::buffer::Buf;

/// Sends the bytes of the buffers but the first `from`. A stream may take less; a datagram goes whole.
pub(crate) struct SendMessage {
    socket: Fd,
    bufs: Vec<Buf>,
    from: usize,
    more: bool,
    message: Box<Message>,
}

impl SendMessage {
    /// Makes an operation on a stream. `more` says that bytes follow at once.
    pub(crate) fn on_stream(socket: Fd, bufs: Vec<Buf>, from: usize, control: Vec<u8>, more: bool) -> Self {
        let message = Message::new(&bufs, from, control, None);
        Self { socket, bufs, from, more, message }
    }

    /// Makes an operation that sends a datagram, or several where `control` says so.
    pub(crate) fn to(socket: Fd, to: SocketAddr, bufs: Vec<Buf>, control: Vec<u8>) -> Self {
        let message = Message::new(&bufs, 0, control, Some(to));
        Self { socket, bufs, from: 0, more: false, message }
    }
}

impl Operation for SendMessage {
    const NAME: &'static str = "send a message";
    /// Number of bytes taken.
    type Value = usize;
    type Output = (io::Result<usize>, Vec<Buf>);

    fn descriptor(&self) -> Fd {
        self.socket
    }

    fn prepare(&mut self, ring: &Uring) -> Start {
        let flags = match self.message.is_datagram() {
            true => libc::MSG_NOSIGNAL,
            false => stream_flags(ring, self.socket, self.more),
        };
        let entry = opcode::SendMsg::new(RingFd(self.socket.0), self.message.as_ptr());
        Start::Ring(entry.flags(flags.cast_unsigned()).build())
    }

    fn complete(&mut self, completion: Completion, ring: &Uring) -> io::Result<usize> {
        let sent = completion.bytes();
        ring.counters().bytes_out.add(sent.as_ref().map_or(0, |n| *n as u64));
        sent
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<usize>> {
        self.message.simulate(&self.bufs, self.from, self.more, step)
    }

    fn finish(self, result: io::Result<usize>) -> (io::Result<usize>, Vec<Buf>) {
        (result, self.bufs)
    }
}
