//! READ (MS-SMB2 2.2.19, 2.2.20).

use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::{Fixed, body};
use crate::guid::FileId;
use crate::header::HEADER_LEN;
use crate::malformed::Malformed;
use crate::message::{Body, Message};

/// `Flags`: past the server's cache (3.0.2).
pub const FLAG_UNBUFFERED: u8 = 1;
/// `Flags`: the response may be compressed (3.1.1).
pub const FLAG_REQUEST_COMPRESSED: u8 = 2;

/// Offset from the header at which the data of every response begins: `DataOffset`.
pub const DATA_OFFSET: u8 = (HEADER_LEN + size_of::<ReadResponseFixed>()) as u8;

body! {
    /// The request, MS-SMB2 2.2.19. What channels of RDMA add is not read.
    pub struct ReadRequest = 49 {
        padding: u8,
        flags: u8,
        length: U32,
        offset: U64,
        file_id: FileId,
        minimum_count: U32,
        channel: U32,
        remaining_bytes: U32,
        channel_info_offset: U16,
        channel_info_length: U16,
    }
}

body! {
    /// Fixed part of the response, MS-SMB2 2.2.20.
    pub struct ReadResponseFixed = 17 {
        data_offset: u8,
        reserved: u8,
        data_length: U32,
        data_remaining: U32,
        flags: U32,
    }
}

impl ReadResponseFixed {
    /// Creates the fixed part in front of `len` bytes that follow at once.
    pub fn new(len: u32) -> Self {
        Self { data_offset: DATA_OFFSET, data_length: len.into(), ..Self::blank() }
    }
}

/// Bytes of a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadResponse<'a> {
    /// The fixed part.
    pub fixed: &'a ReadResponseFixed,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> ReadResponse<'a> {
    /// Reads the response.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<ReadResponseFixed>()?;
        let data = message.part::<ReadResponseFixed>(fixed.data_offset.into(), fixed.data_length.get())?;
        Ok(Self { fixed, data })
    }

    /// Appends a response with these bytes.
    pub fn write(body: &mut Body<'_>, data: &[u8]) {
        Self::write_behind(body, &[], data);
    }

    /// Writes the response ([`ReadResponse::write`]) with at most 64 bytes of padding before the data.
    pub fn write_behind(body: &mut Body<'_>, padding: &[u8], data: &[u8]) {
        let len = u32::try_from(data.len()).expect("a read is shorter than 4 GiB");
        let data_offset = DATA_OFFSET + u8::try_from(padding.len()).expect("it is short");
        body.push(&ReadResponseFixed { data_offset, ..ReadResponseFixed::new(len) });
        body.bytes(padding);
        body.bytes(data);
    }
}
