//! Whether an HTTP/2 connection still gets anywhere. What counts is requests and the bytes of answers: a client can
//! send PING, SETTINGS or WINDOW_UPDATE for ever without taking anything.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use lane::time::now;

use crate::limits::Limits;
use crate::service::abort::Abort;
use crate::service::transfer::Transfer;

/// The state of one connection's streams as a whole.
pub(super) struct Progress {
    moved_at: Cell<Instant>,
    open_streams: Cell<usize>,
    /// Since a stream was opened on an idle connection, on a clock without the time waited.
    transfer: RefCell<Transfer>,
    /// Time the server's rate kept the connection waiting, and since when it does so now.
    waited: Cell<Duration>,
    waiting_since: Cell<Option<Instant>>,
}

/// What is to become of a connection.
#[derive(Debug)]
pub(super) enum Verdict {
    GoesOn,
    /// Nothing was asked for in too long a time.
    Idle,
    Ends(Abort),
}

impl Progress {
    pub(super) fn new() -> Self {
        let now = now();
        Self {
            moved_at: Cell::new(now),
            open_streams: Cell::new(0),
            transfer: RefCell::new(Transfer { started: now, sent: 0 }),
            waited: Cell::new(Duration::ZERO),
            waiting_since: Cell::new(None),
        }
    }

    pub(super) fn stream_opened(&self) {
        if self.open_streams.get() == 0 {
            *self.transfer.borrow_mut() = Transfer { started: self.client_time(), sent: 0 };
        }
        self.open_streams.update(|count| count + 1);
        self.moved_at.set(now());
    }

    pub(super) fn stream_closed(&self) {
        self.open_streams.update(|count| count - 1);
        self.moved_at.set(now());
    }

    /// Bytes of bodies have left.
    pub(super) fn sent(&self, bytes: usize) {
        if bytes > 0 {
            self.transfer.borrow_mut().sent += bytes as u64;
            self.moved_at.set(now());
        }
    }

    /// Whether the connection waits for its turn at the server's rate.
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

    /// When to ask for the verdict next. Streams open unseen from outside, and slowness shows in none of the times
    /// kept, so never later than the patience with one that stalls.
    pub(super) fn next_look(&self, limits: &Limits) -> Instant {
        let soon = now() + limits.write_stall_timeout;
        let patience = self.patience(limits);
        // A verdict that was not final yet is not asked for again at once.
        Some(self.moved_at.get() + patience).filter(|&at| at > now()).map_or(soon, |at| at.min(soon))
    }

    pub(super) fn verdict(&self, limits: &Limits) -> Verdict {
        let open = self.open_streams.get() > 0;
        if self.waiting_since.get().is_some() {
            return Verdict::GoesOn;
        }
        if now() >= self.moved_at.get() + self.patience(limits) {
            return if open { Verdict::Ends(Abort::WriteStalled) } else { Verdict::Idle };
        }
        if open {
            let (rate_min, grace) = (limits.send_rate_min, limits.write_stall_timeout);
            if let Err(abort) = self.transfer.borrow().check(rate_min, grace, self.client_time()) {
                return Verdict::Ends(abort);
            }
        }
        Verdict::GoesOn
    }

    fn patience(&self, limits: &Limits) -> Duration {
        if self.open_streams.get() > 0 { limits.write_stall_timeout } else { limits.idle_timeout }
    }

    fn client_time(&self) -> Instant {
        now() - self.waited.get()
    }
}

/// Counts the bytes of DATA frames (RFC 9113 4.1, 6.1) in a stream of frames that comes in any pieces.
#[derive(Debug, Default)]
pub(super) struct DataMeter {
    head: [u8; FRAME_HEAD_BYTES],
    head_len: usize,
    payload_left: usize,
}

impl DataMeter {
    /// DATA payload among these next bytes.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> usize {
        let mut data = 0;
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let part = self.payload_left.min(bytes.len());
                data += if self.head[3] == TYPE_DATA { part } else { 0 };
                self.payload_left -= part;
                bytes = &bytes[part..];
                continue;
            }
            let part = (FRAME_HEAD_BYTES - self.head_len).min(bytes.len());
            self.head[self.head_len..][..part].copy_from_slice(&bytes[..part]);
            self.head_len += part;
            bytes = &bytes[part..];
            if self.head_len == FRAME_HEAD_BYTES {
                self.head_len = 0;
                self.payload_left =
                    u32::from_be_bytes([0, self.head[0], self.head[1], self.head[2]]) as usize;
            }
        }
        data
    }
}

const FRAME_HEAD_BYTES: usize = 9;
const TYPE_DATA: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0, (payload >> 8) as u8, payload as u8, kind, 0, 0, 0, 0, 1];
        frame.resize(FRAME_HEAD_BYTES + payload, 0);
        frame
    }

    #[test]
    fn only_data_counts_however_frames_are_cut() {
        const PING: u8 = 6;
        let stream =
            [frame(1, 40), frame(0, 1000), frame(PING, 8), frame(0, 0), frame(4, 0), frame(0, 16_384)]
                .concat();
        for piece in [1, 2, 8, 9, 10, 1000, stream.len()] {
            let mut meter = DataMeter::default();
            let counted: usize = stream.chunks(piece).map(|part| meter.count(part)).sum();
            assert_eq!(counted, 17_384, "in pieces of {piece}");
        }
    }
}
