//! Framing of messages on TCP: a zero byte, 24 bits of length in network order, the message (MS-SMB2 2.1).

use crate::malformed::Malformed;

/// Length of the prefix, bytes.
pub const PREFIX_LEN: usize = 4;

/// Longest message that a prefix can announce, bytes.
pub const MESSAGE_MAX: usize = 0xff_ffff;

/// NetBIOS session messages other than data (RFC 1002 4.3.1) that may come on port 139 and mean nothing on 445.
const KEEP_ALIVE: u8 = 0x85;

/// The frame that a prefix announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A message of this many bytes follows.
    Message(usize),
    /// Nothing follows; it only keeps the connection alive.
    KeepAlive,
}

/// Reads a prefix; `max` is the longest message that is taken at this time.
pub fn parse(prefix: [u8; PREFIX_LEN], max: usize) -> Result<Frame, Malformed> {
    let len = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]);
    match prefix[0] {
        //= MS-SMB2 2.1
        //# The first byte of a direct TCP packet is zero.
        0 if len as usize > max => Err(Malformed::Long(len)),
        0 => Ok(Frame::Message(len as usize)),
        KEEP_ALIVE if len == 0 => Ok(Frame::KeepAlive),
        _ => Err(Malformed::Protocol),
    }
}

/// Returns the prefix of a message of `len` bytes; `None` if no prefix can say so.
pub fn prefix(len: usize) -> Option<[u8; PREFIX_LEN]> {
    let [zero, rest @ ..] = u32::try_from(len).ok()?.to_be_bytes();
    (zero == 0).then_some([0, rest[0], rest[1], rest[2]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_says_the_length_in_network_order() {
        assert_eq!(prefix(0x01_0203), Some([0, 1, 2, 3]));
        assert_eq!(parse([0, 1, 2, 3], MESSAGE_MAX), Ok(Frame::Message(0x01_0203)));
        assert_eq!(prefix(MESSAGE_MAX), Some([0, 0xff, 0xff, 0xff]));
        assert_eq!(prefix(MESSAGE_MAX + 1), None);
    }

    #[test]
    fn too_long_and_foreign_frames_are_refused() {
        assert_eq!(parse([0, 0, 1, 1], 256), Err(Malformed::Long(257)));
        assert_eq!(parse([0, 0, 1, 0], 256), Ok(Frame::Message(256)));
        assert_eq!(parse([KEEP_ALIVE, 0, 0, 0], 256), Ok(Frame::KeepAlive));
        for foreign in [[KEEP_ALIVE, 0, 0, 1], [0x81, 0, 0, 68], [b'G', b'E', b'T', b' ']] {
            assert_eq!(parse(foreign, MESSAGE_MAX), Err(Malformed::Protocol));
        }
    }
}
