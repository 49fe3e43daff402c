//! Whether an HTTP/2 connection still gets anywhere. What counts is requests and the bytes of answers that the client's
//! host has acknowledged: a client can send PING, SETTINGS or WINDOW_UPDATE for ever without taking anything.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lane::net::TcpStream;
use lane::time::now;

use crate::limits::Limits;
use crate::service::abort::Abort;
use crate::service::transfer::{BodyTransfer, LOOKS, Taken};
use service::connection_slots::ConnectionSlot;

/// The state of one connection's streams as a whole.
pub(super) struct Progress {
    stream: Rc<TcpStream>,
    place: Rc<ConnectionSlot>,
    /// Uploads under way: each has patience of its own with the client.
    uploads: Rc<Cell<usize>>,
    moved_at: Cell<Instant>,
    open_streams: Cell<usize>,
    /// Bytes of bodies that were to be sent, all bytes that were, and those that the socket got.
    data: Cell<i64>,
    owed: Cell<i64>,
    handed: Cell<i64>,
    /// The most of the bodies that the client was seen to have.
    seen: Cell<i64>,
    /// Set while a body waits for the client to open a window.
    awaits_window: Cell<bool>,
    /// Since a stream was opened on an idle connection, on a clock without the time waited.
    transfer: RefCell<BodyTransfer>,
    /// Time the server's rate kept the connection waiting, and since when it does so now.
    waited: Cell<Duration>,
    waiting_since: Cell<Option<Instant>>,
}

/// Verdict on the pace of a connection.
#[derive(Debug)]
pub(super) enum PaceVerdict {
    GoesOn,
    /// Nothing was asked for in too long a time.
    Idle,
    Ends(Abort),
}

impl Progress {
    /// Tells `place` what the connection does.
    pub(super) fn new(stream: Rc<TcpStream>, place: Rc<ConnectionSlot>) -> Self {
        let now = now();
        Self {
            stream,
            place,
            uploads: Rc::default(),
            moved_at: Cell::new(now),
            open_streams: Cell::new(0),
            data: Cell::new(0),
            owed: Cell::new(0),
            handed: Cell::new(0),
            seen: Cell::new(0),
            awaits_window: Cell::new(false),
            transfer: RefCell::default(),
            waited: Cell::new(Duration::ZERO),
            waiting_since: Cell::new(None),
        }
    }

    pub(super) fn stream_opened(&self) {
        if self.open_streams.get() == 0 {
            self.transfer.take();
        }
        self.open_streams.update(|count| count + 1);
        self.moved_at.set(now());
        self.place.busy(self.moved_at.get());
    }

    pub(super) fn stream_closed(&self) {
        self.open_streams.update(|count| count - 1);
        self.moved_at.set(now());
        if self.open_streams.get() == 0 {
            self.place.idle(self.moved_at.get());
        }
    }

    /// Returns the number of uploads under way, to be kept by the counter of them.
    pub(super) fn uploads(&self) -> &Rc<Cell<usize>> {
        &self.uploads
    }

    /// Notes that part of a wanted body came.
    pub(super) fn moved(&self) {
        self.moved_at.set(now());
    }

    /// Notes that `bytes` more wait to be sent, `data` bytes of bodies among them.
    pub(super) fn takes(&self, bytes: usize, data: usize) {
        self.owed.update(|before| before + bytes as i64);
        self.data.update(|before| before + data as i64);
    }

    /// Notes whether a body waits for the client to open a window.
    pub(super) fn awaits_window(&self, waits: bool) {
        self.awaits_window.set(waits);
    }

    /// Notes that the socket got `bytes` more.
    pub(super) fn handed(&self, bytes: usize) {
        self.handed.update(|before| before + bytes as i64);
    }

    /// Checks whether the connection waits for its turn at the server's rate.
    pub(super) fn waits(&self, waits: bool) {
        match (waits, self.waiting_since.get()) {
            (true, None) => self.waiting_since.set(Some(now())),
            (false, Some(since)) => {
                self.waiting_since.set(None);
                self.waited.update(|waited| waited + now().duration_since(since));
                self.moved_at.set(now());
            }
            _ => {}
        }
    }

    /// Returns when to ask for the verdict next. Streams open unseen from outside, and slowness shows in none
    /// of the times kept, so never later than the patience with one that stalls.
    pub(super) fn next_look(&self, limits: &Limits) -> Instant {
        let (stall, is_open) = (limits.write_stall_timeout, self.open_streams.get() > 0);
        let soon = now() + if is_open { stall / LOOKS } else { stall };
        let end = self.moved_at.get() + self.patience(limits);
        // A verdict that was not final yet is not asked for again at once.
        Some(end).filter(|&at| at > now()).map_or(soon, |at| at.min(soon))
    }

    /// Returns what is to become of the connection: one system call.
    pub(super) fn verdict(&self, limits: &Limits) -> PaceVerdict {
        let open = self.open_streams.get() > 0;
        if self.waiting_since.get().is_some() {
            return PaceVerdict::GoesOn;
        }
        let (taken, on_the_way) = match self.taken() {
            Ok(both) => both,
            Err(error) => return PaceVerdict::Ends(Abort::Io(error)),
        };
        // What was answered may be on its way for long after its streams have ended.
        if taken > self.seen.get() {
            self.seen.set(taken);
            if open || on_the_way > 0 {
                self.moved_at.set(now());
            }
        }
        if self.uploads.get() > 0 {
            // A client that sends has less of the line to take what it asked for: its time for that begins
            // anew.
            self.moved_at.set(now());
            self.transfer.take();
        }
        match (now() >= self.moved_at.get() + self.patience(limits), open) {
            (true, true) => return PaceVerdict::Ends(Abort::WriteStalled),
            (true, false) => return PaceVerdict::Idle,
            (false, false) => return PaceVerdict::GoesOn,
            (false, true) => {}
        }
        let taken = Taken { bytes: taken, is_owed_more: on_the_way > 0 || self.awaits_window.get() };
        let (rate_min, period) = (limits.send_rate_min, limits.write_stall_timeout);
        match self.transfer.borrow_mut().check(taken, rate_min, period, self.client_time()) {
            Ok(()) => PaceVerdict::GoesOn,
            Err(abort) => PaceVerdict::Ends(abort),
        }
    }

    /// Returns the bytes of bodies that the client has, at least, since what it has not acknowledged is taken for data;
    /// and how much that is.
    fn taken(&self) -> std::io::Result<(i64, i64)> {
        let on_the_way = self.owed.get() - self.handed.get() + self.stream.unacknowledged()? as i64;
        Ok((self.data.get() - on_the_way, on_the_way))
    }

    fn patience(&self, limits: &Limits) -> Duration {
        if self.open_streams.get() > 0 { limits.write_stall_timeout } else { limits.idle_timeout }
    }

    fn client_time(&self) -> Instant {
        now() - self.waited.get()
    }
}
