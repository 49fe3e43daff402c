//! Several messages in one frame (MS-SMB2 2.2.1, 3.3.5.2.7): how they are found, and how they are put together.

use zerocopy::IntoBytes;

use crate::header::{HEADER_LEN, Header, NEXT_COMMAND};
use crate::malformed::Malformed;
use crate::message::{Body, Message};

/// Most messages of one frame that are taken. Clients compound up to five, test suites some dozens.
pub const MESSAGES_MAX: usize = 256;

/// Walks the messages of a frame. After a refusal it ends: what follows cannot be distinguished from noise.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
    left: usize,
    ended: bool,
}

impl<'a> Messages<'a> {
    /// Creates an iterator over the messages of the frame `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, left: MESSAGES_MAX, ended: false }
    }

    fn take(&mut self) -> Result<Message<'a>, Malformed> {
        let header = Header::parse(self.rest)?;
        self.left = self.left.checked_sub(1).ok_or(Malformed::Compound)?;
        let next = header.next_command.get() as usize;
        if next == 0 {
            self.ended = true;
            return Message::new(self.rest);
        }
        //= MS-SMB2 3.3.5.2.7
        //# Each request but the first starts at an 8-byte boundary.
        if !next.is_multiple_of(8) || next < HEADER_LEN {
            return Err(Malformed::Compound);
        }
        let (this, rest) = self.rest.split_at_checked(next).ok_or(Malformed::Compound)?;
        // What follows must be a header; a frame that ends where one is announced is refused whole.
        if rest.len() < HEADER_LEN {
            return Err(Malformed::Compound);
        }
        self.rest = rest;
        Message::new(this)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let taken = self.take();
        self.ended |= taken.is_err();
        Some(taken)
    }
}

/// Puts messages together to one frame, behind what `out` already holds.
#[derive(Debug)]
pub struct Compound<'a> {
    out: &'a mut Vec<u8>,
    /// Offset of the last message.
    last: Option<usize>,
}

impl<'a> Compound<'a> {
    /// Creates an empty frame.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, last: None }
    }

    /// Goes on with a frame whose last message began at `last`, as [`Compound::last`] said.
    pub fn going_on(out: &'a mut Vec<u8>, last: Option<usize>) -> Self {
        debug_assert!(last.is_none_or(|last| last + HEADER_LEN <= out.len()));
        Self { out, last }
    }

    /// Returns where the message that was begun last begins in the buffer.
    pub fn last(&self) -> Option<usize> {
        self.last
    }

    /// Begins the next message; the one before it is padded to where this one may begin, and points to it.
    pub fn begin(&mut self, header: &Header) -> Body<'_> {
        if let Some(last) = self.last {
            let len = (self.out.len() - last).next_multiple_of(8);
            self.out.resize(last + len, 0);
            let next = u32::try_from(len).expect("a message is shorter than 4 GiB");
            let field = last + NEXT_COMMAND.start..last + NEXT_COMMAND.end;
            self.out[field].copy_from_slice(&next.to_le_bytes());
        }
        let at = self.out.len();
        self.out.extend_from_slice(Header { next_command: 0.into(), ..*header }.as_bytes());
        self.last = Some(at);
        Body::new(self.out, at)
    }
}

/// Returns the ranges that the messages of a frame take, for those that sign or seal it in place.
pub fn ranges(frame: &[u8]) -> impl Iterator<Item = Result<std::ops::Range<usize>, Malformed>> {
    let mut at = 0;
    Messages::new(frame).map(move |message| {
        let len = message?.bytes().len();
        at += len;
        Ok(at - len..at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    fn frame(lens: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut compound = Compound::new(&mut out);
        for (number, len) in lens.iter().enumerate() {
            let header = Header::request(Command::Echo, number as u64);
            compound.begin(&header).bytes(&vec![number as u8; *len]);
        }
        out
    }

    #[test]
    fn messages_come_apart_as_they_were_put_together() {
        let frame = frame(&[4, 9, 16]);
        let messages: Vec<_> = Messages::new(&frame).map(Result::unwrap).collect();
        assert_eq!(messages.iter().map(|message| message.body().len()).collect::<Vec<_>>(), [8, 16, 16]);
        assert_eq!(messages[1].body(), [&[1; 9][..], &[0; 7]].concat());
        assert_eq!(messages[2].header().message_id.get(), 2);
        assert_eq!(ranges(&frame).map(Result::unwrap).collect::<Vec<_>>(), [0..72, 72..152, 152..232]);
    }

    #[test]
    fn a_compound_that_overruns_or_is_unaligned_ends_at_once() {
        let whole = frame(&[4, 4]);
        for next in [1, 4, 8, 56, 63, 71, 73, 80, 136, 0x7fff_fff8, 0xffff_fff8, u32::MAX] {
            let mut frame = whole.clone();
            frame[20..24].copy_from_slice(&next.to_le_bytes());
            let mut messages = Messages::new(&frame);
            let first = messages.next().unwrap();
            // 80 leaves less than a header behind it; no value loops, as every step is forward.
            assert_eq!(first.unwrap_err(), Malformed::Compound, "{next}");
            assert!(messages.next().is_none());
        }
        let cut = &whole[..72 + 63];
        assert_eq!(Messages::new(cut).last().unwrap().unwrap_err(), Malformed::Compound);
        assert_eq!(Messages::new(&[]).next().unwrap().unwrap_err(), Malformed::Short);
    }

    #[test]
    fn only_so_many_messages_are_taken() {
        let frame = frame(&vec![0; MESSAGES_MAX + 1]);
        assert_eq!(Messages::new(&frame).filter(Result::is_ok).count(), MESSAGES_MAX);
        assert_eq!(Messages::new(&frame).last().unwrap().unwrap_err(), Malformed::Compound);
    }
}
