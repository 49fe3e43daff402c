//! Operation that receives into memory of the caller's, of any size, until it is full (recv(2) with
//! MSG_WAITALL). Bytes that have come already the lane takes by a call of its own, so that they are used
//! while hot; the ring waits for the rest.
//!
//! The lane's own receive of the stream rests meanwhile: see [`crate::backend::Backend::poll_quiet`]. What had come
//! when its future is dropped goes back to the stream, so that no byte is lost.

use std::io;
use std::task::Poll;

use io_uring::opcode;
use io_uring::types::Fd as RingFd;
use rustix::io::Errno;
use rustix::net::{self, RecvFlags};

use super::write::PAGE_BYTES;
use super::{Completion, Keeper, Operation, Start};
#[cfg(feature = "sim")]
use crate::backend::sim::Step;
use crate::backend::uring::Uring;
use crate::backend::{Fd, StreamToken};

/// Receives at most `wanted` bytes, appended to `into`; fewer at the end of the stream or before an error.
pub(crate) struct ReceiveInto {
    stream: Fd,
    /// Token of the stream, valid whatever socket has the number later.
    name: StreamToken,
    into: Vec<u8>,
    /// Offset in `into` of the stream's bytes, of this receive and those taken before it.
    start: usize,
    /// Offset of the bytes that this receive brings.
    began: usize,
    wanted: usize,
}

impl ReceiveInto {
    /// Takes the bytes that have come; returns a completion where that is all, or nothing more comes.
    fn receive_at_once(&mut self, ring: &Uring) -> Option<Completion> {
        let room = &mut self.into.spare_capacity_mut()[..self.wanted];
        let received = net::recv(ring.borrow_fd(self.stream), room, RecvFlags::DONTWAIT).map(|(_, n)| n);
        match received {
            Ok(n) if 0 < n && n < self.wanted => {
                ring.counters().bytes_in.add(n as u64);
                // SAFETY: the kernel wrote `n` bytes from the first of the room.
                unsafe { self.into.set_len(self.into.len() + n) };
                self.wanted -= n;
                None
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            ended => Some(Completion::of(ended)),
        }
    }
}

/// Result of a receive.
pub(crate) struct ReceivedInto {
    /// Number of bytes appended: 0 is the end of the stream.
    pub(crate) result: io::Result<usize>,
    pub(crate) into: Vec<u8>,
    start: usize,
    name: StreamToken,
}

impl ReceiveInto {
    /// Makes a receive; bytes behind the first `start` of `into` were taken from the stream before.
    pub(crate) fn new(stream: Fd, name: StreamToken, into: Vec<u8>, start: usize, wanted: usize) -> Self {
        let began = into.len();
        Self { stream, name, into, start, began, wanted }
    }
}

impl Operation for ReceiveInto {
    const NAME: &'static str = "receive into";
    type Value = ();
    type Output = ReceivedInto;

    fn descriptor(&self) -> Fd {
        self.stream
    }

    fn prepare(&mut self, ring: &Uring) -> Start {
        ring.receive_into_begins(self.name);
        self.into.reserve_exact(self.wanted);
        if ring.receives_at_once(self.wanted / PAGE_BYTES)
            && let Some(completion) = self.receive_at_once(ring)
        {
            return Start::Ended(completion);
        }
        let room = self.into.spare_capacity_mut();
        let len = u32::try_from(self.wanted.min(room.len())).unwrap_or(u32::MAX / 2);
        let entry = opcode::Recv::new(RingFd(self.stream.0), room.as_mut_ptr().cast(), len);
        Start::Ring(entry.flags(libc::MSG_WAITALL).build())
    }

    fn complete(&mut self, completion: Completion, ring: &Uring) -> io::Result<()> {
        let received = completion.bytes().or_else(|error| match error.raw_os_error() {
            // An error after some bytes is not reported, as by the ring itself: the stream seems to have ended.
            Some(errno) if errno != libc::ECANCELED && self.into.len() > self.began => Ok(0),
            _ => Err(error),
        });
        ring.receive_into_ended(self.name, received.as_ref().ok().copied());
        let n = received?;
        // SAFETY: the kernel wrote `n` bytes from the first of the room that `prepare` named, which has not moved since.
        unsafe { self.into.set_len(self.into.len() + n) };
        Ok(())
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<()>> {
        let at = step.socket()?;
        let before = self.into.len();
        let ended = at.net.receive_into(at.socket, at.key, &mut self.into, self.wanted, at.engine);
        // As in Linux: an error after some bytes is not reported, and the stream then seems to have ended.
        let ended = ended.map(|result| {
            result.or_else(|error| if self.into.len() > self.began { Ok(()) } else { Err(error) })
        });
        self.wanted -= self.into.len() - before;
        ended
    }

    fn finish(self, result: io::Result<()>) -> ReceivedInto {
        let result = result.map(|()| self.into.len() - self.began);
        ReceivedInto { result, into: self.into, start: self.start, name: self.name }
    }

    fn abandon(mut output: ReceivedInto, keeper: &mut dyn Keeper) {
        keeper.put_back(output.name, output.into.split_off(output.start));
    }
}
