//! What leaves by a connection: replies in the order in which they are done, by one writer.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use lane::buffer::{Buf, BufClass};
use lane::resident::Resident;
use lane::time::timeout;
use service::memory::Charge;
use vfs::OpenFile;

use super::Connection;

/// A frame, ready to leave.
pub(crate) struct Outgoing {
    /// Prefix and headers, from [`Outgoing::from`] on.
    pub(crate) head: Vec<u8>,
    pub(crate) from: usize,
    pub(crate) payload: Payload,
    /// For what it holds.
    pub(crate) charge: Option<Charge>,
}

/// What follows the headers.
pub(crate) enum Payload {
    None,
    /// A whole frame, from some byte of it on.
    Piece {
        piece: Buf,
        from: usize,
    },
    /// Bytes of a file, page cache to socket.
    File {
        file: Rc<OpenFile>,
        offset: u64,
        len: u32,
    },
}

impl Outgoing {
    fn len(&self) -> usize {
        let payload = match &self.payload {
            Payload::None => 0,
            Payload::Piece { piece, from } => piece.len() - from,
            // Nothing is held for it.
            Payload::File { .. } => 0,
        };
        self.head.len() - self.from + payload
    }
}

/// The queue of a connection.
#[derive(Default)]
pub(crate) struct Outbox {
    queue: RefCell<VecDeque<Outgoing>>,
    bytes: Cell<usize>,
    is_writing: Cell<bool>,
    is_closed: Cell<bool>,
    /// Who waits until some of it has left.
    waiting: RefCell<Option<Waker>>,
    /// Who waits until all of it has.
    emptied: RefCell<Option<Waker>>,
}

impl Outbox {
    /// Waits while so much is queued that nothing more should be asked for.
    pub(crate) async fn room(&self) {
        poll_fn(|cx| {
            if self.bytes.get() < QUEUED_MAX && self.queue.borrow().len() < FRAMES_MAX || self.is_closed.get()
            {
                return Poll::Ready(());
            }
            *self.waiting.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until all of it has left, or nothing can.
    pub(crate) async fn empty(&self) {
        poll_fn(|cx| {
            if self.is_closed.get() || !self.is_writing.get() {
                return Poll::Ready(());
            }
            *self.emptied.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Nothing leaves any more.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.queue.borrow_mut().clear();
        self.bytes.set(0);
        self.wake();
    }

    fn wake(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
        if self.is_closed.get() || !self.is_writing.get() {
            self.emptied.take().into_iter().for_each(Waker::wake);
        }
    }

    fn pop(&self) -> Option<Outgoing> {
        let next = self.queue.borrow_mut().pop_front()?;
        self.bytes.update(|bytes| bytes.saturating_sub(next.len()));
        Some(next)
    }

    /// The next, if it is short and nothing but headers.
    fn pop_short(&self, room: usize) -> Option<Outgoing> {
        let fits =
            self.queue.borrow().front().is_some_and(|next| {
                matches!(next.payload, Payload::None) && next.head.len() - next.from <= room
            });
        if fits { self.pop() } else { None }
    }
}

impl Connection {
    /// Has a frame leave behind those that are done already.
    pub(crate) fn send(self: &Rc<Self>, frame: Outgoing) {
        let outbox = &self.outbox;
        if outbox.is_closed.get() {
            return;
        }
        outbox.bytes.update(|bytes| bytes + frame.len());
        outbox.queue.borrow_mut().push_back(frame);
        if !outbox.is_writing.replace(true) {
            let me = Rc::clone(self);
            lane::spawn(async move { me.write().await }).detach();
        }
    }

    /// Writes until the queue is empty.
    async fn write(self: Rc<Self>) {
        let outbox = &self.outbox;
        while let Some(frame) = outbox.pop() {
            match self.account.unless_short(self.write_frame(frame)).await {
                Ok(Ok(())) => outbox.wake(),
                Ok(Err(error)) => {
                    if error.kind() == io::ErrorKind::TimedOut {
                        self.lane.counters.ended_stalled.increment();
                    }
                    self.end();
                    break;
                }
                Err(_) => {
                    self.lane.counters.ended_short.increment();
                    self.end();
                    break;
                }
            }
        }
        outbox.is_writing.set(false);
        outbox.wake();
    }

    async fn write_frame(&self, frame: Outgoing) -> io::Result<()> {
        let Outgoing { head, from, payload, charge } = frame;
        match payload {
            Payload::None if head.len() - from <= BufClass::Small.bytes() => {
                let lane = lane::current();
                let Some(mut batch) = lane.buffers().try_get(BufClass::Small) else {
                    return self.write_piece(Buf::from(head), from).await;
                };
                batch.append(&head[from..]);
                let mut charges = Vec::new();
                charges.extend(charge);
                while let Some(next) = self.outbox.pop_short(batch.spare()) {
                    batch.append(&next.head[next.from..]);
                    charges.extend(next.charge);
                }
                self.write_batch(batch).await
            }
            Payload::None => self.write_piece(Buf::from(head), from).await,
            Payload::Piece { piece, from } => {
                let written = self.write_piece(piece, from).await;
                drop(charge);
                written
            }
            Payload::File { file, offset, len } => self.write_file(&head[from..], &file, offset, len).await,
        }
    }

    /// Short frames together: the kernel is entered once for those of many connections.
    async fn write_batch(&self, batch: Buf) -> io::Result<()> {
        self.pace(batch.len()).await;
        let sent = timeout(STALL, self.stream.send(batch, false)).await;
        sent.map_or(Err(io::ErrorKind::TimedOut.into()), |(result, _)| result)
    }

    /// A long frame, as the stream takes it.
    async fn write_piece(&self, piece: Buf, from: usize) -> io::Result<()> {
        let mut at = from;
        while at < piece.len() {
            let granted = self.pace(piece.len() - at).await;
            match self.stream.try_send(&[IoSlice::new(&piece[at..at + granted])], false)? {
                Some(sent) => at += sent,
                None => self.writable().await?,
            }
        }
        Ok(())
    }

    /// Headers, then bytes of a file as the page cache has them.
    async fn write_file(&self, head: &[u8], file: &OpenFile, offset: u64, len: u32) -> io::Result<()> {
        let mut rest = head;
        while !rest.is_empty() {
            match self.stream.try_send(&[IoSlice::new(rest)], true)? {
                Some(sent) => rest = &rest[sent..],
                None => self.writable().await?,
            }
        }
        let (file, end) = (file.lane_file(), offset + u64::from(len));
        let mut resident = Resident::new(end);
        let mut at = offset;
        while at < end {
            let wanted = self.pace((end - at) as usize).await;
            let part = resident.ensure(file, at, wanted).await?;
            match self.stream.try_send_file(file, at, part)? {
                None => self.writable().await?,
                Some(0) => return self.write_zeros(end - at).await,
                Some(sent) => {
                    at += sent as u64;
                    self.lane.counters.bytes_read.add(sent as u64);
                    // Others of this lane get their turn between the runs of a long reply.
                    if at < end {
                        lane::give_way().await;
                    }
                }
            }
        }
        Ok(())
    }

    /// The file has become shorter since its length was promised.
    async fn write_zeros(&self, mut left: u64) -> io::Result<()> {
        self.lane.counters.reads_cut.increment();
        while left > 0 {
            let zeros = &ZEROS[..ZEROS.len().min(left as usize)];
            match self.stream.try_send(&[IoSlice::new(zeros)], false)? {
                Some(sent) => left -= sent as u64,
                None => self.writable().await?,
            }
        }
        Ok(())
    }

    async fn writable(&self) -> io::Result<()> {
        timeout(STALL, self.stream.writable()).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Waits for leave to send some of `want` bytes at the server's rate.
    async fn pace(&self, want: usize) -> usize {
        let ticket = self.ticket.take();
        let Some(mut ticket) = ticket else { return want };
        let granted = if ticket.is_bounded() { ticket.grant(want).await } else { want };
        self.ticket.replace(Some(ticket));
        granted
    }
}

/// Bytes of replies that wait before no more requests are read.
const QUEUED_MAX: usize = 4 << 20;
/// And so many frames.
const FRAMES_MAX: usize = 1024;
/// How long a client may take nothing.
const STALL: Duration = Duration::from_secs(60);
/// Bytes that a file does not have any more.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
