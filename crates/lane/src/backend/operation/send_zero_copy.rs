//! Operation that sends several buffers on a stream out of their memory (IORING_OP_SENDMSG_ZC, and SEND_ZC
//! for one registered buffer; Linux 6.1).
//!
//! It ends in two steps: the bytes are the stream's, and much later, when the peer has acknowledged them, the kernel
//! has let go of the memory. Only then the buffers come back.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Poll, Waker};

use io_uring::opcode;
use io_uring::types::Fd as RingFd;

use super::message::{Message, stream_flags};
use super::vectors::rest_of;
use super::{Completion, Operation, Start};
use crate::backend::Fd;
#[cfg(feature = "sim")]
use crate::backend::sim::{Step, Unreleased};
use crate::backend::uring::Uring;
use crate::buffer::Buf;

/// Sends the bytes of the buffers but the first `from`, or a part.
pub(crate) struct SendZeroCopy {
    socket: Fd,
    bufs: Vec<Buf>,
    from: usize,
    more: bool,
    message: Box<Message>,
    first: Rc<FirstStep>,
    /// Bytes that the peer has to acknowledge, in a simulated world.
    #[cfg(feature = "sim")]
    unreleased: Option<Unreleased>,
}

/// Result of the first step: how many bytes the stream took, or why none.
#[derive(Default)]
pub(crate) struct FirstStep {
    told: RefCell<ZeroCopyNotice>,
}

#[derive(Default)]
struct ZeroCopyNotice {
    sent: Option<io::Result<usize>>,
    is_over: bool,
    waker: Option<Waker>,
}

impl SendZeroCopy {
    pub(crate) fn new(socket: Fd, bufs: Vec<Buf>, from: usize, more: bool) -> (Self, Rc<FirstStep>) {
        let first: Rc<FirstStep> = Rc::default();
        let message = Message::new(&bufs, from, Vec::new(), None);
        let op = Self {
            socket,
            bufs,
            from,
            more,
            message,
            first: Rc::clone(&first),
            #[cfg(feature = "sim")]
            unreleased: None,
        };
        (op, first)
    }
}

impl Operation for SendZeroCopy {
    const NAME: &'static str = "zero-copy send";
    type Value = ();
    /// Buffers of the send, whose result is in [`FirstStep`].
    type Output = Vec<Buf>;

    fn descriptor(&self) -> Fd {
        self.socket
    }

    fn prepare(&mut self, ring: &Uring) -> Start {
        ring.counters().zero_copy_sends.increment();
        let flags = stream_flags(ring, self.socket, self.more);
        let report = if ring.reports_copies() { REPORT_USAGE } else { 0 };
        let socket = RingFd(self.socket.0);
        if let [buf] = &*self.bufs
            && let Some(index) = buf.registered()
        {
            let bytes = &buf[self.from..];
            let len = u32::try_from(bytes.len()).expect("buffers are far below 4 GiB");
            let entry = opcode::SendZc::new(socket, bytes.as_ptr(), len).buf_index(Some(index));
            return Start::Ring(entry.flags(flags).zc_flags(report).build());
        }
        let entry = opcode::SendMsgZc::new(socket, self.message.as_ptr());
        Start::Ring(entry.flags(flags.cast_unsigned()).ioprio(report).build())
    }

    fn progress(&mut self, completion: Completion, ring: &Uring) -> Option<Waker> {
        let sent = completion.bytes();
        ring.counters().bytes_out.add(sent.as_ref().map_or(0, |n| *n as u64));
        self.first.tell(sent)
    }

    fn complete(&mut self, completion: Completion, ring: &Uring) -> io::Result<()> {
        if self.first.is_over() {
            ring.counters().zero_copy_copied.add(u64::from(completion.was_copied()));
            return Ok(());
        }
        // Without a second step nothing was sent.
        let refused = completion.bytes();
        ring.note_zero_copy(&refused);
        refused.map(drop)
    }

    #[cfg(feature = "sim")]
    fn simulate(&mut self, step: &mut Step<'_>) -> Poll<io::Result<()>> {
        if self.unreleased.is_none() {
            let at = step.socket()?;
            if at.net.makes_records(at.socket)? {
                // As Linux: what it seals lies elsewhere.
                return Poll::Ready(Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
            }
            let Poll::Ready(sent) = self.message.simulate(&self.bufs, self.from, self.more, step) else {
                return Poll::Pending;
            };
            let sent = sent?;
            let at = step.socket()?;
            at.engine.wake(self.first.tell(Ok(sent)));
            self.unreleased = Some(at.net.unreleased(at.socket)?);
        }
        let unreleased = self.unreleased.as_ref().expect("made above");
        match step.is_released(unreleased) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Returns whether the send can be cancelled: bytes that the stream has taken are sent, though the task
    /// that began it is gone.
    fn can_be_cancelled(&self) -> bool {
        !self.first.is_over()
    }

    fn finish(self, result: io::Result<()>) -> Vec<Buf> {
        if !self.first.is_over() {
            // A task that waits for the buffers waits for the operation too.
            drop(self.first.tell(result.map(|()| rest_of(&self.bufs, self.from).map(<[u8]>::len).sum())));
        }
        self.bufs
    }
}

impl FirstStep {
    /// Returns the result of the first step, once; `waker` is called when it comes.
    pub(crate) fn take(&self, waker: &Waker) -> Option<io::Result<usize>> {
        let mut told = self.told.borrow_mut();
        told.waker = Some(waker.clone());
        told.sent.take()
    }

    fn is_over(&self) -> bool {
        self.told.borrow().is_over
    }

    fn tell(&self, sent: io::Result<usize>) -> Option<Waker> {
        let mut told = self.told.borrow_mut();
        (told.sent, told.is_over) = (Some(sent), true);
        told.waker.take()
    }
}

/// Flag IORING_SEND_ZC_REPORT_USAGE (Linux 6.2).
const REPORT_USAGE: u16 = 1 << 3;
