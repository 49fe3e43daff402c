//! Control messages (`cmsg`) of sendmsg and recvmsg: written to and read from plain bytes, without allocation.
//!
//! The bytes serve any caller: a `msghdr` for sendmsg or the ring, and what a multishot receive puts before its
//! payload. Layout of one message on 64-bit machines, in the machine's byte order (cmsg(3)):
//!
//! ```text
//! 0        8       12      16              16+n
//! | length | level | kind  | n bytes of data | padding to a multiple of 8 |     length = 16 + n
//! ```

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Size of a buffer for the messages of one datagram: segment size and source address, or the facts about a received
/// one.
pub const CONTROL_BYTES: usize = 128;

/// Writer of control messages into a caller's buffer.
#[derive(Debug)]
pub struct ControlWriter<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

/// Error of a buffer that cannot hold another message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room for a control message of {needed} bytes; {left} are left")]
pub struct ControlFull {
    /// Bytes that the message takes, padding included.
    pub needed: usize,
    /// Bytes free in the buffer.
    pub left: usize,
}

/// Control message that was received with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlMessage<'a> {
    /// Protocol that wrote the message, such as `SOL_UDP`.
    pub level: i32,
    /// Kind of the message in its protocol, such as `UDP_GRO`.
    pub kind: i32,
    /// Content of the message.
    pub data: &'a [u8],
}

/// Reader of control messages, which ends quietly at bytes that are no message.
#[derive(Clone, Debug)]
pub struct ControlMessages<'a> {
    rest: &'a [u8],
}

impl<'a> ControlWriter<'a> {
    /// Starts at the beginning of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    /// Appends a message with its header and padding.
    pub fn push(&mut self, level: i32, kind: i32, data: &[u8]) -> Result<(), ControlFull> {
        let needed = padded(HEADER_BYTES + data.len());
        let left = self.buffer.len() - self.length;
        let Some(space) = self.buffer[self.length..].get_mut(..needed) else {
            return Err(ControlFull { needed, left });
        };
        let (header, rest) = space.split_at_mut(HEADER_BYTES);
        header[..LENGTH_BYTES].copy_from_slice(&(HEADER_BYTES + data.len()).to_ne_bytes());
        header[LENGTH_BYTES..LENGTH_BYTES + 4].copy_from_slice(&level.to_ne_bytes());
        header[LENGTH_BYTES + 4..].copy_from_slice(&kind.to_ne_bytes());
        rest[..data.len()].copy_from_slice(data);
        rest[data.len()..].fill(0);
        self.length += needed;
        Ok(())
    }

    /// Returns the bytes written, for `msg_controllen`.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether nothing was written; then `msg_control` stays null.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl<'a> ControlMessages<'a> {
    /// Reads the messages in `bytes`: the first `msg_controllen` bytes of a control buffer.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the data of the first message of this level and kind.
    pub fn find_data(mut self, level: i32, kind: i32) -> Option<&'a [u8]> {
        self.find(|message| message.level == level && message.kind == kind).map(|message| message.data)
    }
}

impl<'a> Iterator for ControlMessages<'a> {
    type Item = ControlMessage<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let (header, _) = self.rest.split_at_checked(HEADER_BYTES)?;
        let length = usize::from_ne_bytes(header[..LENGTH_BYTES].try_into().ok()?);
        let data = self.rest.get(HEADER_BYTES..length)?;
        let level = i32::from_ne_bytes(header[LENGTH_BYTES..LENGTH_BYTES + 4].try_into().ok()?);
        let kind = i32::from_ne_bytes(header[LENGTH_BYTES + 4..].try_into().ok()?);
        // The last message may lack its padding.
        self.rest = self.rest.get(padded(length)..).unwrap_or_default();
        Some(ControlMessage { level, kind, data })
    }
}

/// Sends `bytes` and the control messages of the first `control.len()` bytes on a connected socket, with the flags
/// of sendmsg(2).
pub(crate) fn send_with_control(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    control: &[u8],
    flags: libc::c_int,
) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: a msghdr of zeros is a valid one without name, parts and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if !control.is_empty() {
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = control.len();
    }
    // SAFETY: `message` names one part and one control buffer, both alive until the call returns, and sendmsg only
    // reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

const fn padded(length: usize) -> usize {
    length.next_multiple_of(LENGTH_BYTES)
}

const LENGTH_BYTES: usize = size_of::<usize>();
const HEADER_BYTES: usize = LENGTH_BYTES + 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_is_the_c_librarys() {
        for length in 0..40u32 {
            // SAFETY: CMSG_SPACE and CMSG_LEN only compute.
            let (space, whole) = unsafe { (libc::CMSG_SPACE(length), libc::CMSG_LEN(length)) };
            assert_eq!(padded(HEADER_BYTES + length as usize), space as usize);
            assert_eq!(HEADER_BYTES + length as usize, whole as usize);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut buffer = [0xee; CONTROL_BYTES];
        let mut writer = ControlWriter::new(&mut buffer);
        assert!(writer.is_empty());
        writer.push(17, 103, &1444u16.to_ne_bytes()).unwrap();
        writer.push(0, 8, &[9; 12]).unwrap();
        let length = writer.len();
        assert_eq!(length, 24 + 32);
        let read: Vec<ControlMessage<'_>> = ControlMessages::new(&buffer[..length]).collect();
        assert_eq!(read[0], ControlMessage { level: 17, kind: 103, data: &1444u16.to_ne_bytes() });
        assert_eq!(read[1], ControlMessage { level: 0, kind: 8, data: &[9; 12] });
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn full_buffer_is_refused_and_left_as_it_was() {
        let mut buffer = [0; 40];
        let mut writer = ControlWriter::new(&mut buffer);
        writer.push(1, 2, &[3; 4]).unwrap();
        assert_eq!(writer.push(1, 2, &[3; 1]), Err(ControlFull { needed: 24, left: 16 }));
        assert_eq!(writer.len(), 24);
        assert_eq!(ControlMessages::new(&buffer).count(), 1);
    }

    #[test]
    fn lengths_that_lie_end_the_iteration() {
        for lie in [0usize, 1, 15, 25, 1 << 40, usize::MAX] {
            let mut bytes = [0u8; 24];
            bytes[..LENGTH_BYTES].copy_from_slice(&lie.to_ne_bytes());
            assert_eq!(ControlMessages::new(&bytes).next(), None, "{lie}");
        }
        assert_eq!(ControlMessages::new(&[1, 2, 3]).next(), None);
    }
}
