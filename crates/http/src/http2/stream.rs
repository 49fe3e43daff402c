//! One stream while its request is open (RFC 9113 5.1): idle and closed streams have no state.

use super::frame::{Reason, WINDOW_INITIAL, WINDOW_MAX};

#[derive(Debug)]
pub(super) struct Stream {
    /// Bytes of DATA that the client takes; below 0 after it made its windows smaller.
    pub(super) send_window: i64,
    /// Bytes of DATA that it may send: never more than the first window of an unwanted body.
    receive_window: i64,
    /// A handler is to get the stream's body.
    pub(super) is_kept: bool,
    /// The stream is answered, and its client has a moment to see that before its request is reset.
    pub(super) is_answered: bool,
    /// Bytes of it that came and were not taken yet.
    pub(super) untaken: usize,
    /// Bytes whose room was not given back yet.
    taken: usize,
    /// Rest of the body by Content-Length.
    body_left: Option<u64>,
    /// The client has sent all of its request.
    pub(super) is_half_closed: bool,
}

/// A body that breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    Window,
    Length,
}

impl Unfit {
    pub(super) fn reason(self) -> Reason {
        match self {
            Self::Window => Reason::FlowControl,
            Self::Length => Reason::Protocol,
        }
    }
}

impl Stream {
    pub(super) fn new(send_window: i64, body_length: Option<u64>) -> Self {
        Self {
            send_window,
            receive_window: WINDOW_INITIAL,
            is_kept: false,
            is_answered: false,
            untaken: 0,
            taken: 0,
            body_left: body_length,
            is_half_closed: false,
        }
    }

    /// Takes part of the request's body: `len` bytes of `flow` that count for the window.
    pub(super) fn receive(&mut self, flow: usize, len: usize) -> Result<(), Unfit> {
        self.receive_window -= flow as i64;
        if self.receive_window < 0 {
            return Err(Unfit::Window);
        }
        if let Some(left) = &mut self.body_left {
            *left = left.checked_sub(len as u64).ok_or(Unfit::Length)?;
        }
        Ok(())
    }

    /// Lets the client send so much more.
    pub(super) fn widen_receiving(&mut self, by: usize) {
        self.receive_window += by as i64;
    }

    /// Notes that a handler has taken so much of the body. Gives what of the window is to be given back, if
    /// that is worth a frame.
    pub(super) fn take(&mut self, bytes: usize, worth: usize) -> Option<usize> {
        self.untaken -= bytes;
        self.taken += bytes;
        if self.is_half_closed || self.taken < worth {
            return None;
        }
        let taken = std::mem::take(&mut self.taken);
        self.receive_window += taken as i64;
        Some(taken)
    }

    /// Counts padding, which no handler takes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.taken += bytes;
    }

    /// Notes that the request has ended.
    pub(super) fn end(&mut self) -> Result<(), Unfit> {
        self.is_half_closed = true;
        if self.body_left.is_some_and(|left| left > 0) { Err(Unfit::Length) } else { Ok(()) }
    }

    /// Changes the client's window by so much; false beyond what a window may be.
    pub(super) fn widen(&mut self, by: i64) -> bool {
        self.send_window += by;
        self.send_window <= WINDOW_MAX
    }
}
