//! The send queue of a connection: replies in the order in which they are done, sent by one writer.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use lane::buffer::{Buf, BufClass};
use lane::resident::Resident;
use lane::time::{now, timeout};
use service::memory::Charge;
use vfs::OpenFile;

use super::Connection;
use super::deferred_read::{DEFERRED_READS_MAX, DeferredReads, SLOW};

/// A frame that is ready to be sent.
pub(crate) struct OutgoingFrame {
    /// Prefix and headers, from [`OutgoingFrame::from`] on.
    pub(crate) head: Vec<u8>,
    pub(crate) from: usize,
    pub(crate) payload: Payload,
    /// Charge of the memory that it holds.
    pub(crate) charge: Option<Charge>,
    /// Bytes of it that a deferred read has brought.
    pub(crate) deferred_bytes: usize,
}

/// Payload behind the headers.
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

impl OutgoingFrame {
    fn len(&self) -> usize {
        let payload = match &self.payload {
            Payload::None => 0,
            Payload::Piece { piece, from } => piece.len() - from,
            // Nothing is held for it.
            Payload::File { .. } => 0,
        };
        self.head.len() - self.from + payload
    }

    /// Returns whether it may leave in a batch with others.
    fn is_short(&self) -> bool {
        matches!(self.payload, Payload::None) && self.head.len() - self.from <= BufClass::Small.bytes()
    }

    /// Returns the number of bytes that leave of it.
    fn wire_len(&self) -> u64 {
        match &self.payload {
            Payload::File { len, .. } => self.len() as u64 + u64::from(*len),
            _ => self.len() as u64,
        }
    }
}

/// The queues of a connection. What is short does not wait until all has left that is long: each long frame waits for those short
/// ones alone that go into one batch, and a short one for one long frame at most.
#[derive(Default)]
pub(crate) struct SendQueue {
    short: RefCell<VecDeque<OutgoingFrame>>,
    long: RefCell<VecDeque<OutgoingFrame>>,
    /// Long ones that are not put together yet.
    pub(super) deferred_reads: DeferredReads,
    /// Short ones have just left.
    is_turn_of_long: Cell<bool>,
    bytes: Cell<usize>,
    /// Bytes of all that was ever queued, and what of them the stream has taken.
    queued: Cell<u64>,
    sent: Cell<u64>,
    is_writing: Cell<bool>,
    is_closed: Cell<bool>,
    /// Waker of the task that waits until some of the queue has left.
    waiting: RefCell<Option<Waker>>,
    /// Waker of the task that waits until all of the queue has left.
    emptied: RefCell<Option<Waker>>,
}

impl SendQueue {
    /// Waits while so much is queued that nothing more should be asked for.
    pub(crate) async fn room(&self) {
        poll_fn(|cx| {
            let frames = self.short.borrow().len() + self.long.borrow().len();
            let has_room = self.bytes.get() < QUEUED_MAX
                && frames < FRAMES_MAX
                && self.deferred_reads.waiting() < DEFERRED_READS_MAX;
            if has_room || self.is_closed.get() {
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
            if self.is_closed.get() || self.is_empty() {
                return Poll::Ready(());
            }
            *self.emptied.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns the end of what was queued last, in bytes of the connection.
    pub(crate) fn end(&self) -> u64 {
        self.queued.get()
    }

    /// Returns how far the stream has taken it.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Closes the queue: nothing leaves any more.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.short.borrow_mut().clear();
        self.long.borrow_mut().clear();
        self.deferred_reads.drop_all();
        self.bytes.set(0);
        self.wake();
    }

    fn is_empty(&self) -> bool {
        !self.is_writing.get() && self.deferred_reads.are_done()
    }

    /// Wakes what waits for the queue: some of it has left, or will not.
    pub(super) fn wake(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
        if self.is_closed.get() || self.is_empty() {
            self.emptied.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Returns the number of bytes of replies that wait here.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    fn push(&self, frame: OutgoingFrame) {
        self.bytes.update(|bytes| bytes + frame.len());
        let queue = if frame.is_short() { &self.short } else { &self.long };
        queue.borrow_mut().push_back(frame);
    }

    fn pop(&self) -> Option<OutgoingFrame> {
        let first =
            if self.is_turn_of_long.get() { [&self.long, &self.short] } else { [&self.short, &self.long] };
        let next = first.into_iter().find_map(|queue| queue.borrow_mut().pop_front())?;
        self.is_turn_of_long.set(next.is_short());
        self.bytes.update(|bytes| bytes.saturating_sub(next.len()));
        Some(next)
    }

    /// Takes the next short frame, if there is room for it.
    fn pop_short(&self, room: usize) -> Option<OutgoingFrame> {
        let mut short = self.short.borrow_mut();
        let next = short.pop_front_if(|next| next.len() <= room)?;
        self.bytes.update(|bytes| bytes.saturating_sub(next.len()));
        Some(next)
    }
}

impl Connection {
    /// Has a frame leave behind those that are done already.
    pub(crate) fn send(self: &Rc<Self>, frame: OutgoingFrame) {
        let send_queue = &self.send_queue;
        if send_queue.is_closed.get() {
            return;
        }
        send_queue.queued.update(|queued| queued + frame.wire_len());
        send_queue.push(frame);
        if !send_queue.is_writing.replace(true) {
            let me = Rc::clone(self);
            lane::spawn(async move { me.write().await }).detach();
        }
    }

    /// Notes that the stream has taken so much more.
    fn took(&self, bytes: u64) {
        self.send_queue.sent.update(|sent| sent + bytes);
        self.stats.bytes_out.add(bytes);
        self.moved().bytes_out.add(bytes);
    }

    /// Writes until the queue is empty.
    async fn write(self: Rc<Self>) {
        let send_queue = &self.send_queue;
        while let Some(frame) = send_queue.pop() {
            let deferred_bytes = frame.deferred_bytes;
            match self.account.unless_short(self.write_frame(frame)).await {
                Ok(Ok(())) => {
                    if deferred_bytes > 0 {
                        self.deferred_read_sent(deferred_bytes);
                    }
                    send_queue.wake();
                }
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
        send_queue.is_writing.set(false);
        send_queue.wake();
    }

    async fn write_frame(&self, frame: OutgoingFrame) -> io::Result<()> {
        let is_short = frame.is_short();
        let OutgoingFrame { head, from, payload, charge, .. } = frame;
        match payload {
            Payload::None if is_short => {
                let Some(mut batch) = self.batch(head.len() - from) else {
                    return self.write_piece(Buf::from(head), from).await;
                };
                batch.append(&head[from..]);
                let mut charges = Vec::new();
                charges.extend(charge);
                while let Some(next) = self.send_queue.pop_short(batch.spare()) {
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

    /// Returns room for a frame of `len` bytes and those behind it.
    fn batch(&self, len: usize) -> Option<Buf> {
        let lane = lane::current();
        let buffers = lane.buffers();
        let large = if len + self.send_queue.bytes.get() > BufClass::Small.bytes() {
            buffers.try_get(BufClass::Large)
        } else {
            None
        };
        large.or_else(|| buffers.try_get(BufClass::Small))
    }

    /// Writes short frames together: the kernel is entered once for those of many connections.
    async fn write_batch(&self, batch: Buf) -> io::Result<()> {
        let len = batch.len() as u64;
        self.pace(batch.len()).await;
        let sent = timeout(STALL, self.stream.send(batch, false)).await;
        self.took(len);
        sent.map_or(Err(io::ErrorKind::TimedOut.into()), |(result, _)| result)
    }

    /// Writes a long frame, as the stream takes it.
    async fn write_piece(&self, piece: Buf, from: usize) -> io::Result<()> {
        let mut at = from;
        while at < piece.len() {
            let granted = self.pace((piece.len() - at).min(RUN_MAX)).await;
            match self.stream.try_send(&[IoSlice::new(&piece[at..at + granted])], false)? {
                // Others of this lane get their turn after each run.
                Some(sent) => {
                    self.took(sent as u64);
                    at += sent;
                    lane::yield_if_due().await;
                }
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
                Some(sent) => {
                    self.took(sent as u64);
                    rest = &rest[sent..];
                }
                None => self.writable().await?,
            }
        }
        let (file, end) = (file.lane_file(), offset + u64::from(len));
        let mut resident = Resident::new(end);
        let mut at = offset;
        while at < end {
            let wanted = self.pace(((end - at) as usize).min(RUN_MAX)).await;
            let part = resident.ensure(file, at, wanted).await?;
            match self.stream.try_send_file(file, at, part)? {
                None => self.writable().await?,
                Some(0) => return self.write_zeros(end - at).await,
                Some(sent) => {
                    at += sent as u64;
                    self.took(sent as u64);
                    self.lane.counters.bytes_read.add(sent as u64);
                    // As there.
                    lane::yield_if_due().await;
                }
            }
        }
        Ok(())
    }

    /// Sends zeros for the rest, as the file has become shorter since its length was announced.
    async fn write_zeros(&self, mut left: u64) -> io::Result<()> {
        self.lane.counters.reads_cut.increment();
        while left > 0 {
            let zeros = &ZEROS[..ZEROS.len().min(left as usize)];
            match self.stream.try_send(&[IoSlice::new(zeros)], false)? {
                Some(sent) => {
                    self.took(sent as u64);
                    left -= sent as u64;
                }
                None => self.writable().await?,
            }
        }
        Ok(())
    }

    async fn writable(&self) -> io::Result<()> {
        let began = now();
        let writable = timeout(STALL, self.stream.writable()).await;
        if now() >= began + SLOW {
            self.send_queue.deferred_reads.is_slow();
        }
        writable.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
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

//@ limit: replies that wait for their client
//@ section: SMB
//@ unit: byte
//@ connection: {:b}, {FRAMES_MAX} frames
//@ address: as the memory of long WRITEs
//@ empty: no more is read until some have left; others feel nothing
//@ counter: smb_ended_stalled, smb_reply_memory_bytes
//@ attack: smb-unread
/// Bytes of replies that wait before no more requests are read.
const QUEUED_MAX: usize = 4 << 20;
/// Largest number of queued frames.
const FRAMES_MAX: usize = 1024;
/// Bytes that the stream is given at once, before others of the lane have their turn.
const RUN_MAX: usize = 1 << 20;
//@ limit: client that takes nothing
//@ section: SMB
//@ unit: time
//@ connection: {}
//@ empty: the connection ends; others feel nothing
//@ counter: smb_ended_stalled, smb_reply_memory_bytes
//@ attack: smb-unread
/// Time for which a client may take nothing.
const STALL: Duration = Duration::from_secs(60);
/// Bytes that a file does not have any more.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
