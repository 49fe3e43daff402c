//! QUERY_DIRECTORY (MS-SMB2 2.2.33, 2.2.34).

use zerocopy::little_endian::{U16, U32};

use crate::fixed::body;
use crate::guid::FileId;
use crate::malformed::Malformed;
use crate::message::{Body, Message};
use crate::text::{Text, encoded};

/// Bits of `Flags`.
pub mod flags {
    /// The listing begins at the first name again.
    pub const RESTART_SCANS: u8 = 0x01;
    /// The answer has one name at most.
    pub const RETURN_SINGLE_ENTRY: u8 = 0x02;
    /// The listing goes on from `FileIndex`.
    pub const INDEX_SPECIFIED: u8 = 0x04;
    /// The listing begins at the first name, with the pattern of this request.
    pub const REOPEN: u8 = 0x10;
}

body! {
    /// Fixed part of the request, MS-SMB2 2.2.33.
    pub struct QueryDirectoryRequestFixed = 33 {
        file_information_class: u8,
        flags: u8,
        file_index: U32,
        file_id: FileId,
        file_name_offset: U16,
        file_name_length: U16,
        output_buffer_length: U32,
    }
}

/// A QUERY_DIRECTORY request: the names that a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct QueryDirectoryRequest<'a> {
    /// The fixed part.
    pub fixed: &'a QueryDirectoryRequestFixed,
    /// The pattern.
    pub pattern: Text<'a>,
}

impl<'a> QueryDirectoryRequest<'a> {
    /// Reads the request.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<QueryDirectoryRequestFixed>()?;
        let (offset, len) = (fixed.file_name_offset.get(), fixed.file_name_length.get());
        let pattern = message.part::<QueryDirectoryRequestFixed>(offset.into(), len.into())?;
        Ok(Self { fixed, pattern: Text::new(pattern)? })
    }

    /// Appends a request for names that fit a pattern of less than 32 Ki code units.
    pub fn write(body: &mut Body<'_>, mut fixed: QueryDirectoryRequestFixed, pattern: &str) {
        body.push(&fixed);
        let pattern = body.bytes(&encoded(pattern));
        fixed.file_name_offset = pattern.offset16();
        fixed.file_name_length = pattern.len16();
        body.set_fixed(&fixed);
    }
}

body! {
    /// Fixed part of the responses to QUERY_DIRECTORY, CHANGE_NOTIFY and QUERY_INFO, MS-SMB2 2.2.34, 2.2.36, 2.2.38.
    pub struct OutputFixed = 9 {
        output_buffer_offset: U16,
        output_buffer_length: U32,
    }
}

/// A response that holds the requested data.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// The fixed part.
    pub fixed: &'a OutputFixed,
    /// The answer, in the class that was asked for.
    pub data: &'a [u8],
}

impl<'a> Output<'a> {
    /// Reads the response.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<OutputFixed>()?;
        let (offset, len) = (fixed.output_buffer_offset.get(), fixed.output_buffer_length.get());
        Ok(Self { fixed, data: message.part::<OutputFixed>(offset.into(), len)? })
    }

    /// Appends a response whose answer `fill` appends.
    pub fn write(body: &mut Body<'_>, fill: impl FnOnce(&mut Vec<u8>)) {
        let mut fixed = <OutputFixed as crate::fixed::Fixed>::blank();
        body.push(&fixed);
        let data = body.placed(fill);
        fixed.output_buffer_offset = data.offset16();
        fixed.output_buffer_length.set(data.len);
        body.set_fixed(&fixed);
    }
}
