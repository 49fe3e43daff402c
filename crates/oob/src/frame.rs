//! Header in front of the bytes of a frame.

/// Largest number of bytes in a frame, without its header.
pub const FRAME_MAX: u32 = 4 << 20;
/// Bytes of a frame's header.
pub const HEADER_BYTES: usize = 24;

/// Header of a frame: its transfer and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The client's number for the transfer.
    pub transfer: u64,
    /// Kind of the frame, with its place or code.
    pub frame: Frame,
}

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Bytes of the file.
    Data {
        /// Offset in the file of the first byte.
        offset: u64,
        /// Number of bytes that follow: 1 to [`FRAME_MAX`].
        len: u32,
    },
    /// The part ends here: no further bytes of it come.
    Stop {
        /// Abort code that says why.
        code: i32,
    },
}

/// Error of a frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is of no known kind.
    #[error("a frame of kind {0}")]
    Kind(u8),
    /// A reserved bit is set, or a stop has the code 0.
    #[error("a frame with bits set that mean nothing")]
    Reserved,
    /// The frame is longer than [`FRAME_MAX`], or empty.
    #[error("a frame of {0} bytes")]
    Length(u32),
    /// The frame belongs to another transfer.
    #[error("a frame of transfer {0:#x}, which is not under way here")]
    Transfer(u64),
    /// The frame is not where the one before ended, or beyond the end of the part.
    #[error("a frame at {offset} of {len} bytes where the part is at {at} and ends at {end}")]
    Place {
        /// Offset of the frame in the file.
        offset: u64,
        /// Bytes of the frame.
        len: u32,
        /// Offset in the file at which the part goes on.
        at: u64,
        /// Offset behind the last byte of the part.
        end: u64,
    },
}

impl Header {
    /// Encodes the header as it is sent, in network byte order.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let (kind, len, word) = match self.frame {
            Frame::Data { offset, len } => (DATA, len, offset),
            Frame::Stop { code } => (STOP, 0, u64::from(code.cast_unsigned())),
        };
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&len.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.transfer.to_be_bytes());
        bytes[16..].copy_from_slice(&word.to_be_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`FrameError::Kind`], [`FrameError::Reserved`], [`FrameError::Length`].
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|n| bytes[at + n]));
        let (len, transfer, last) = ((word(0) & 0xffff_ffff) as u32, word(8), word(16));
        if bytes[1..4] != [0; 3] {
            return Err(FrameError::Reserved);
        }
        let frame = match bytes[0] {
            DATA if len == 0 || len > FRAME_MAX => return Err(FrameError::Length(len)),
            DATA => Frame::Data { offset: last, len },
            STOP if len != 0 => return Err(FrameError::Length(len)),
            STOP => {
                let code = u32::try_from(last).map_err(|_| FrameError::Reserved)?;
                Frame::Stop { code: code.cast_signed() }
            }
            kind => return Err(FrameError::Kind(kind)),
        };
        Ok(Self { transfer, frame })
    }
}

const DATA: u8 = 1;
const STOP: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_bytes_of_the_specification() {
        let data = Header {
            transfer: 0x0102_0304_0506_0708,
            frame: Frame::Data { offset: 0x1_0000_0000, len: 0x20_0000 },
        };
        let bytes = [1, 0, 0, 0, 0, 0x20, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!((data.encode(), Header::decode(&bytes)), (bytes, Ok(data)));
        let stop = Header { transfer: 9, frame: Frame::Stop { code: -455 } };
        let bytes = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0x39];
        assert_eq!((stop.encode(), Header::decode(&bytes)), (bytes, Ok(stop)));
    }

    #[test]
    fn frames_that_cannot_be_are_told_apart() {
        let good = Header { transfer: 9, frame: Frame::Data { offset: 0, len: 1 } }.encode();
        let with = |at: usize, byte: u8| {
            let mut bytes = good;
            bytes[at] = byte;
            Header::decode(&bytes)
        };
        assert_eq!(with(0, 0), Err(FrameError::Kind(0)));
        assert_eq!(with(0, 3), Err(FrameError::Kind(3)));
        assert_eq!(with(2, 1), Err(FrameError::Reserved));
        assert_eq!(with(7, 0), Err(FrameError::Length(0)));
        assert_eq!(with(4, 1), Err(FrameError::Length((1 << 24) + 1)));
        assert_eq!(with(0, 2), Err(FrameError::Length(1)), "a STOP has no bytes");
    }

    #[test]
    fn any_bytes_are_read_or_refused_and_what_is_read_is_written_alike() {
        bolero::check!().with_type::<[u8; HEADER_BYTES]>().for_each(|bytes| {
            if let Ok(header) = Header::decode(bytes) {
                assert_eq!(header.encode(), *bytes);
            }
        });
    }
}
