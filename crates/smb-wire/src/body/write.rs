//! WRITE (MS-SMB2 2.2.21, 2.2.22).

use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::body;
use crate::guid::FileId;
use crate::malformed::Malformed;
use crate::message::{Body, Message};

/// `Flags`: the data is on disk before the response (2.1 and newer).
pub const FLAG_WRITE_THROUGH: u32 = 1;
/// `Flags`: past the server's cache (3.0.2).
pub const FLAG_WRITE_UNBUFFERED: u32 = 2;

body! {
    /// Fixed part of the request, MS-SMB2 2.2.21.
    pub struct WriteRequestFixed = 49 {
        data_offset: U16,
        length: U32,
        offset: U64,
        file_id: FileId,
        channel: U32,
        remaining_bytes: U32,
        channel_info_offset: U16,
        channel_info_length: U16,
        flags: U32,
    }
}

body! {
    /// The response, MS-SMB2 2.2.22.
    pub struct WriteResponse = 17 {
        reserved: U16,
        count: U32,
        remaining: U32,
        channel_info_offset: U16,
        channel_info_length: U16,
    }
}

/// Bytes for a file.
#[derive(Clone, Copy, Debug)]
pub struct WriteRequest<'a> {
    /// The fixed part.
    pub fixed: &'a WriteRequestFixed,
    /// The bytes.
    pub data: &'a [u8],
}

impl<'a> WriteRequest<'a> {
    /// Reads the request.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<WriteRequestFixed>()?;
        let data = message.part::<WriteRequestFixed>(fixed.data_offset.get().into(), fixed.length.get())?;
        Ok(Self { fixed, data })
    }

    /// Appends a request with these bytes.
    pub fn write(body: &mut Body<'_>, mut fixed: WriteRequestFixed, data: &[u8]) {
        body.push(&fixed);
        let data = body.bytes(data);
        fixed.data_offset = data.offset16();
        fixed.length.set(data.len);
        body.set_fixed(&fixed);
    }
}
