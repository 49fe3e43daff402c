//! SET_INFO (MS-SMB2 2.2.39, 2.2.40).

use zerocopy::little_endian::{U16, U32};

use crate::fixed::body;
use crate::guid::FileId;
use crate::malformed::Malformed;
use crate::message::{Body, Message};

body! {
    /// Fixed part of the request, MS-SMB2 2.2.39. `info_type` as in
    /// [`info_type`](crate::body::query_info::info_type).
    pub struct SetInfoRequestFixed = 33 {
        info_type: u8,
        file_info_class: u8,
        buffer_length: U32,
        buffer_offset: U16,
        reserved: U16,
        additional_information: U32,
        file_id: FileId,
    }
}

body! {
    /// The response, MS-SMB2 2.2.40.
    pub struct SetInfoResponse = 2 {}
}

/// A SET_INFO request.
#[derive(Clone, Copy, Debug)]
pub struct SetInfoRequest<'a> {
    /// The fixed part.
    pub fixed: &'a SetInfoRequestFixed,
    /// Data in the class that is named.
    pub data: &'a [u8],
}

impl<'a> SetInfoRequest<'a> {
    /// Reads the request.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<SetInfoRequestFixed>()?;
        let (offset, len) = (fixed.buffer_offset.get(), fixed.buffer_length.get());
        Ok(Self { fixed, data: message.part::<SetInfoRequestFixed>(offset.into(), len)? })
    }

    /// Appends a request.
    pub fn write(body: &mut Body<'_>, mut fixed: SetInfoRequestFixed, data: &[u8]) {
        body.push(&fixed);
        let data = body.bytes(data);
        fixed.buffer_offset = data.offset16();
        fixed.buffer_length.set(data.len);
        body.set_fixed(&fixed);
    }
}
