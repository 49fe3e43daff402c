//! Netlink: questions to the kernel that sysfs does not answer.
//!
//! Layout of a message, in the machine's byte order (netlink(7)); attributes follow the family's own header:
//!
//! ```text
//! 0        4      6       8          12     16
//! | length | kind | flags | sequence | port | family's header | u16 length, u16 kind, data, padding to 4 | ...
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};
use rustix::net::{netlink, socket_with};

/// A netlink socket, for one question after another.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// Attributes of a message: `u16 length, u16 kind`, the data, padding to a multiple of 4. Ends at bytes that
/// are none.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl Netlink {
    pub(crate) fn generic() -> io::Result<Self> {
        Ok(Self { socket: open(Some(netlink::GENERIC))?, sequence: 0 })
    }

    pub(crate) fn route() -> io::Result<Self> {
        Ok(Self { socket: open(ROUTE)?, sequence: 0 })
    }

    /// Sends a question, with the family's header and attributes as `body`, and shows each message of the
    /// answer to `each`. It returns when the kernel says that the answer is complete.
    ///
    /// # Errors
    /// The kernel's, or `TimedOut`.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.sequence += 1;
        let question = message(kind, NLM_F_REQUEST | flags, self.sequence, body);
        send(&self.socket, &question, SendFlags::empty())?;
        let mut buffer = vec![0; RECEIVE_BYTES];
        loop {
            let mut waiting = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
            let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
            if poll(&mut waiting, Some(&patience))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let (_, received) = recv(&self.socket, &mut buffer, RecvFlags::empty())?;
            let mut rest = &buffer[..received.min(buffer.len())];
            while let Some(Message { kind, sequence, body, next }) = Message::parse(rest) {
                rest = next;
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    NLMSG_DONE => return Ok(()),
                    NLMSG_ERROR => return error_of(body),
                    _ => each(body),
                }
            }
        }
    }
}

impl<'a> Attributes<'a> {
    /// Reads the attributes of a message's body, after `header_bytes` of the family's header.
    pub(crate) fn after(body: &'a [u8], header_bytes: usize) -> Self {
        Self { rest: body.get(header_bytes..).unwrap_or_default() }
    }

    /// Returns the data of the first attribute of this kind.
    pub(crate) fn data(mut self, kind: u16) -> Option<&'a [u8]> {
        self.find(|(found, _)| *found == kind).map(|(_, data)| data)
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_of(self.rest.get(..2)?)?);
        let kind = u16_of(self.rest.get(2..4)?)? & NLA_TYPE_MASK;
        let data = self.rest.get(4..length)?;
        self.rest = self.rest.get(padded(length)..).unwrap_or_default();
        Some((kind, data))
    }
}

/// A message received on the socket.
struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
    next: &'a [u8],
}

impl<'a> Message<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let length = u32_of(bytes.get(..4)?)? as usize;
        let body = bytes.get(HEADER_BYTES..length)?;
        let next = bytes.get(padded(length)..).unwrap_or_default();
        Some(Self { kind: u16_of(&bytes[4..6])?, sequence: u32_of(&bytes[8..12])?, body, next })
    }
}

fn open(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?)
}

pub(crate) fn attribute(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = 4 + data.len();
    let mut bytes = [(length as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(data);
    bytes.resize(padded(length), 0);
    bytes
}

fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_BYTES + body.len()) as u32;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the error of an error message, whose first field is the negated error number; 0 acknowledges.
fn error_of(body: &[u8]) -> io::Result<()> {
    match body.get(..4).and_then(u32_of).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

pub(crate) fn u16_of(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

pub(crate) fn u32_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// Protocol NETLINK_ROUTE, which is number 0.
const ROUTE: Option<Protocol> = None;
// linux/netlink.h
pub(crate) const NLM_F_ACK: u16 = 4;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLA_TYPE_MASK: u16 = 0x3fff;
const HEADER_BYTES: usize = 16;
/// Bytes of the receive buffer; the kernel sends at most 32 KiB at once of a dump.
const RECEIVE_BYTES: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_messages_end_the_reading() {
        let whole = message(20, 0, 7, &[&[0; 4], &attribute(2, &9u32.to_ne_bytes())[..]].concat());
        for length in 0..whole.len() {
            assert!(Message::parse(&whole[..length]).is_none());
        }
        let parsed = Message::parse(&whole).unwrap();
        let mut attributes = Attributes::after(parsed.body, 4);
        assert_eq!(attributes.data(2), Some(&9u32.to_ne_bytes()[..]));
        assert_eq!(attributes.data(3), None);
        assert_eq!(attributes.next(), Some((2, &9u32.to_ne_bytes()[..])));
        assert_eq!(attributes.next(), None);
        for rest in [&[3, 0, 1][..], &[2, 0, 1, 0], &[200, 0, 1, 0]] {
            assert_eq!(Attributes { rest }.next(), None);
        }
    }
}
