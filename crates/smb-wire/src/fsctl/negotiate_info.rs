//! FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 2.2.31.4, 2.2.32.6): below 3.1.1 a signed repetition of what was negotiated.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::fixed::{prefix, prefix_of, wire};
use crate::guid::Guid;
use crate::malformed::Malformed;

wire! {
    /// Fixed part of what the client says it offered.
    pub struct ValidateRequestFixed {
        capabilities: U32,
        guid: Guid,
        security_mode: U16,
        dialect_count: U16,
    }
}

wire! {
    /// Response: what the server says that it chose.
    pub struct ValidateResponse {
        capabilities: U32,
        guid: Guid,
        security_mode: U16,
        dialect: U16,
    }
}

/// Request: what the client says that it offered.
#[derive(Clone, Copy, Debug)]
pub struct ValidateRequest<'a> {
    /// The fixed part.
    pub fixed: &'a ValidateRequestFixed,
    /// The dialects.
    pub dialects: &'a [U16],
}

impl<'a> ValidateRequest<'a> {
    /// Reads IOCTL's input.
    pub fn parse(input: &'a [u8]) -> Result<Self, Malformed> {
        let (fixed, rest) = prefix::<ValidateRequestFixed>(input)?;
        let count = usize::from(fixed.dialect_count.get());
        Ok(Self { fixed, dialects: prefix_of(rest, count)? })
    }

    /// Returns the bytes of the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.fixed.as_bytes(), self.dialects.as_bytes()].concat()
    }
}
