//! Receiver's state of one part: the bytes that come next.

use crate::frame::{Frame, FrameError, HEADER_BYTES, Header};
use crate::part::Part;

/// The receiver's end of a part. Ask [`expected`](Self::expected) what comes next, and hand it that.
#[derive(Clone, Debug)]
pub struct Receiving {
    transfer: u64,
    at: u64,
    end: u64,
    /// Bytes of the frame under way that have not come.
    in_frame: u32,
    stopped: Option<i32>,
}

/// Input that is expected next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A frame's header is expected.
    Header,
    /// Bytes of the file are expected.
    Bytes {
        /// Offset of the first byte in the file.
        offset: u64,
        /// Number of bytes to the end of the frame.
        len: u32,
    },
    /// The part has come as a whole.
    Ended,
    /// The sender stopped the part with this abort code.
    Stopped(i32),
}

impl Receiving {
    /// Makes the state of a part of which nothing has come.
    pub fn new(transfer: u64, part: Part) -> Self {
        Self { transfer, at: part.offset, end: part.end(), in_frame: 0, stopped: None }
    }

    /// Returns which input comes next.
    pub fn expected(&self) -> Expected {
        match self.stopped {
            Some(code) => Expected::Stopped(code),
            None if self.in_frame > 0 => Expected::Bytes { offset: self.at, len: self.in_frame },
            None if self.at == self.end => Expected::Ended,
            None => Expected::Header,
        }
    }

    /// Takes a frame's header that was received.
    ///
    /// # Errors
    /// [`FrameError`]: the connection is of no use any more.
    pub fn handle_header(&mut self, bytes: &[u8; HEADER_BYTES]) -> Result<(), FrameError> {
        debug_assert_eq!(self.expected(), Expected::Header);
        let header = Header::decode(bytes)?;
        if header.transfer != self.transfer {
            return Err(FrameError::Transfer(header.transfer));
        }
        match header.frame {
            Frame::Stop { code } => self.stopped = Some(code),
            Frame::Data { offset, len } if offset != self.at || u64::from(len) > self.end - self.at => {
                return Err(FrameError::Place { offset, len, at: self.at, end: self.end });
            }
            Frame::Data { len, .. } => self.in_frame = len,
        }
        Ok(())
    }

    /// Notes that `count` bytes of the file have come.
    ///
    /// # Panics
    /// When the frame has not so many.
    pub fn handle_bytes(&mut self, count: u32) {
        assert!(count <= self.in_frame, "more came than the frame has");
        self.in_frame -= count;
        self.at += u64::from(count);
    }

    /// Returns whether behind the next `count` bytes of the file there is a header for certain, so that both
    /// may be received at once.
    pub fn is_followed_by_header(&self, count: u32) -> bool {
        self.in_frame == count && self.at + u64::from(count) < self.end
    }

    /// Returns the number of bytes of the file that have not come.
    pub fn left(&self) -> u64 {
        self.end - self.at
    }
}
