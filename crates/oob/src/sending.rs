//! Sender's state of one part: the bytes that leave next.

use crate::frame::{FRAME_MAX, Frame, HEADER_BYTES, Header};
use crate::part::Part;

/// The sender's end of a part. Ask [`step`](Self::step) what leaves next, and say by [`sent`](Self::sent) how much of that the
/// stream took, until nothing is left.
#[derive(Clone, Debug)]
pub struct Sending {
    transfer: u64,
    frame_max: u32,
    /// Offset in the file of the next byte, and of the end of the part.
    at: u64,
    end: u64,
    /// Bytes of the begun frame that have not left.
    in_frame: u32,
    header: Option<([u8; HEADER_BYTES], usize)>,
    stop: Option<i32>,
    stopped: bool,
}

/// Output that leaves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The rest of a header.
    Header {
        /// The whole header.
        bytes: [u8; HEADER_BYTES],
        /// Number of the part's first bytes that have left.
        from: usize,
        /// True when bytes of the file follow at once.
        more: bool,
    },
    /// Bytes of the file.
    Bytes {
        /// Offset of the first byte in the file.
        offset: u64,
        /// Largest number of bytes that may be sent.
        len: u32,
    },
    /// The part has left as a whole.
    Ended,
    /// The part was stopped with this abort code, and its receiver knows.
    Stopped(i32),
}

impl Sending {
    /// Begins a part in frames of at most `frame_max` bytes.
    pub fn new(transfer: u64, part: Part, frame_max: u32) -> Self {
        let mut sending = Self {
            transfer,
            frame_max: frame_max.clamp(1, FRAME_MAX),
            at: part.offset,
            end: part.end(),
            in_frame: 0,
            header: None,
            stop: None,
            stopped: false,
        };
        sending.begin_frame();
        sending
    }

    /// Returns which bytes leave next.
    pub fn step(&self) -> Step {
        match (self.header, self.stop) {
            (Some((bytes, from)), _) => Step::Header { bytes, from, more: self.in_frame > 0 },
            _ if self.in_frame > 0 => Step::Bytes { offset: self.at, len: self.in_frame },
            (None, Some(code)) if self.stopped => Step::Stopped(code),
            _ => Step::Ended,
        }
    }

    /// Notes that the stream took `count` bytes of the step.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn sent(&mut self, count: usize) {
        if let Some((bytes, from)) = self.header {
            let from = from + count;
            assert!(from <= HEADER_BYTES, "more was sent than the header has");
            self.header = (from < HEADER_BYTES).then_some((bytes, from));
        } else {
            let sent = u32::try_from(count).ok().filter(|sent| *sent <= self.in_frame);
            let sent = sent.expect("more was sent than the frame has");
            self.in_frame -= sent;
            self.at += u64::from(sent);
        }
        if self.header.is_none() && self.in_frame == 0 {
            self.begin_frame();
        }
    }

    /// Ends the part behind the frame that was begun. The first code counts; of a part whose last frame was begun nothing changes.
    pub fn stop(&mut self, code: i32) {
        self.stop.get_or_insert(code);
        // A header of which nothing has left is taken back.
        if let (Some((_, 0)), false) = (self.header, self.stopped) {
            (self.header, self.in_frame) = (None, 0);
            self.begin_frame();
        }
    }

    /// Returns the offset in the file of the next byte to leave.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Returns the number of bytes of the file that have not left.
    pub fn left(&self) -> u64 {
        self.end - self.at
    }

    fn begin_frame(&mut self) {
        let frame = match self.stop {
            _ if self.at == self.end || self.stopped => return,
            Some(code) => {
                self.stopped = true;
                Frame::Stop { code }
            }
            None => {
                let len = u32::try_from(self.end - self.at).unwrap_or(u32::MAX).min(self.frame_max);
                self.in_frame = len;
                Frame::Data { offset: self.at, len }
            }
        };
        self.header = Some((Header { transfer: self.transfer, frame }.encode(), 0));
    }
}
