//! Streams at rest, so that a task can receive into memory of its own.

use std::io;
use std::task::{Context, Poll, Waker};

use super::Uring;
use super::key::GENERATION_MASK;
use super::sockets::{Arrived, Receive, Socket};
use crate::backend::{Fd, RecvPaused, StreamToken};
use crate::buffer::RecvBuf;

impl Uring {
    /// Pauses the receive of a stream; see [`crate::backend::Backend::poll_quiet`].
    pub(super) fn quieten(&self, fd: Fd, cx: &mut Context<'_>) -> Poll<io::Result<RecvPaused>> {
        let mut sockets = self.sockets.borrow_mut();
        let socket = sockets.get_mut(fd.0).expect("the stream is open");
        if let Some(arrived) = self.take_arrived(socket) {
            return Poll::Ready(arrived.map(RecvPaused::Bytes));
        }
        match socket.receive {
            Receive::Ended => return Poll::Ready(Ok(RecvPaused::Bytes(RecvBuf::empty()))),
            Receive::Off => return Poll::Ready(Ok(RecvPaused::Resting(name(fd.0, socket)))),
            Receive::On => self.pause(fd.0, socket),
            Receive::Pausing | Receive::Into => {}
        }
        socket.keeps_quiet = true;
        socket.wait(cx);
        Poll::Pending
    }

    /// Gives the stream to a receive into a task's memory alone.
    pub(crate) fn receive_into_begins(&self, stream: StreamToken) {
        self.with_named(stream, |_, socket| {
            assert_eq!(socket.receive, Receive::Off, "one receive at a time");
            (socket.receive, socket.keeps_quiet) = (Receive::Into, false);
        });
    }

    /// Notes that a receive into a task's memory has ended, with the bytes received, or `None` for an error.
    pub(crate) fn receive_into_ended(&self, stream: StreamToken, received: Option<usize>) {
        self.counters.bytes_in.add(received.unwrap_or(0) as u64);
        self.with_named(stream, |fd, socket| {
            socket.receive = if received == Some(0) { Receive::Ended } else { Receive::Off };
            match socket.keeps_quiet || socket.receive == Receive::Ended {
                true => self.woken.borrow_mut().extend(socket.tell()),
                // A task asked for more meanwhile.
                false if socket.waker.is_some() => self.arm_receive(fd, socket),
                false => {}
            }
        });
    }

    /// Puts bytes that were taken from a stream back to the stream's beginning, if the stream is still open.
    pub(super) fn give_back(&self, stream: StreamToken, bytes: RecvBuf) {
        let waker = self.with_named(stream, |_, socket| {
            let Arrived::Bytes(untaken) = &mut socket.arrived else { return None };
            self.shares.put_back(untaken, bytes);
            socket.tell()
        });
        waker.flatten().into_iter().for_each(Waker::wake);
    }

    pub(super) fn stream_name(&self, fd: Fd) -> StreamToken {
        name(fd.0, self.sockets.borrow_mut().get_mut(fd.0).expect("the stream is open"))
    }

    fn with_named<R>(&self, stream: StreamToken, act: impl FnOnce(i32, &mut Socket) -> R) -> Option<R> {
        let (index, generation) = (stream.0 as u32, (stream.0 >> 32) as u32 & GENERATION_MASK);
        let mut sockets = self.sockets.borrow_mut();
        sockets.of_completion(index, generation).map(|socket| act(index.cast_signed(), socket))
    }
}

fn name(fd: i32, socket: &Socket) -> StreamToken {
    StreamToken(u64::from(socket.generation) << 32 | u64::from(fd.cast_unsigned()))
}
