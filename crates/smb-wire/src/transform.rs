//! Headers that stand before a message in place of its own: encrypted (MS-SMB2 2.2.41) and compressed (2.2.42).

use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::{prefix, wire};
use crate::header::HEADER_LEN;
use crate::malformed::Malformed;

/// `ProtocolId` of the transform header.
pub const PROTOCOL_ID: [u8; 4] = [0xfd, b'S', b'M', b'B'];
/// `ProtocolId` of compressed messages, which are declined here.
pub const COMPRESSED_ID: [u8; 4] = [0xfc, b'S', b'M', b'B'];
/// Length of the transform header, bytes.
pub const TRANSFORM_LEN: usize = 52;
/// `Flags`: the message is encrypted (in 3.0 and 3.0.2: by AES-128-CCM).
pub const FLAG_ENCRYPTED: u16 = 1;
/// Offset in the header of the part that is authenticated but not encrypted; it ends with the header.
pub const AUTHENTICATED_AT: usize = 20;

wire! {
    /// The transform header, MS-SMB2 2.2.41.
    pub struct TransformHeader {
        protocol_id: [u8; 4],
        signature: [u8; 16],
        /// 11 bytes of it are used by CCM, 12 by GCM.
        nonce: [u8; 16],
        original_message_size: U32,
        reserved: U16,
        flags: U16,
        session_id: U64,
    }
}

impl TransformHeader {
    /// Creates the header in front of a message of `len` bytes.
    pub fn new(session_id: u64, nonce: [u8; 16], len: u32) -> Self {
        Self {
            protocol_id: PROTOCOL_ID,
            signature: [0; 16],
            nonce,
            original_message_size: len.into(),
            reserved: U16::ZERO,
            flags: FLAG_ENCRYPTED.into(),
            session_id: session_id.into(),
        }
    }

    /// Parses the header that a frame begins with, and the sealed message behind it.
    pub fn parse(frame: &[u8]) -> Result<(&Self, &[u8]), Malformed> {
        let (header, sealed) = prefix::<Self>(frame)?;
        //= MS-SMB2 3.3.5.2.1.1
        //# Disconnect if Flags is not 0x0001, or OriginalMessageSize exceeds the message.
        if header.protocol_id != PROTOCOL_ID || header.flags.get() != FLAG_ENCRYPTED {
            return Err(Malformed::Protocol);
        }
        // What is sealed keeps its length; a frame with less or more was not made by a client.
        if header.original_message_size.get() as usize != sealed.len() || sealed.len() < HEADER_LEN {
            return Err(Malformed::Protocol);
        }
        Ok((header, sealed))
    }
}

/// The kind of frame that its first four bytes announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Messages as they are.
    Plain,
    /// One transform header and sealed messages.
    Sealed,
    /// Compressed messages.
    Compressed,
    /// SMB1.
    Smb1,
}

impl FrameKind {
    /// Returns the kind of a frame.
    pub fn of(frame: &[u8]) -> Result<Self, Malformed> {
        match *frame.first_chunk().ok_or(Malformed::Protocol)? {
            crate::header::PROTOCOL_ID => Ok(Self::Plain),
            PROTOCOL_ID => Ok(Self::Sealed),
            COMPRESSED_ID => Ok(Self::Compressed),
            crate::negotiate::smb1::PROTOCOL_ID => Ok(Self::Smb1),
            _ => Err(Malformed::Protocol),
        }
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;

    #[test]
    fn a_header_that_lies_of_its_message_is_refused() {
        let header = TransformHeader::new(7, [1; 16], 64);
        let frame = [header.as_bytes(), &[0; 64]].concat();
        assert_eq!(header.as_bytes().len(), TRANSFORM_LEN);
        assert_eq!(TransformHeader::parse(&frame).unwrap().1.len(), 64);
        assert_eq!(FrameKind::of(&frame), Ok(FrameKind::Sealed));
        for (at, value) in [(0, 0xfe), (36, 63), (36, 65), (39, 1), (42, 0), (43, 1)] {
            let mut frame = frame.clone();
            frame[at] = value;
            assert_eq!(TransformHeader::parse(&frame), Err(Malformed::Protocol), "{at}");
        }
        let tiny = [TransformHeader::new(7, [1; 16], 63).as_bytes(), &[0; 63]].concat();
        assert_eq!(TransformHeader::parse(&tiny), Err(Malformed::Protocol));
        assert_eq!(TransformHeader::parse(&frame[..51]), Err(Malformed::Short));
        assert_eq!(FrameKind::of(b"\xfcSMB"), Ok(FrameKind::Compressed));
        assert_eq!(FrameKind::of(b"\xffSMBr"), Ok(FrameKind::Smb1));
        assert_eq!(FrameKind::of(b"GET /"), Err(Malformed::Protocol));
        assert_eq!(FrameKind::of(b"\xfeSM"), Err(Malformed::Protocol));
    }
}
