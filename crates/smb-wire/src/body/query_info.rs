//! QUERY_INFO (MS-SMB2 2.2.37); its response is [`crate::body::query_directory::Output`].

use zerocopy::little_endian::{U16, U32};

use crate::fixed::body;
use crate::guid::FileId;
use crate::malformed::Malformed;
use crate::message::{Body, Message};

/// `InfoType`, of QUERY_INFO and SET_INFO.
pub mod info_type {
    /// SMB2_0_INFO_FILE: information of the file; classes in [`crate::info::file`].
    pub const FILE: u8 = 1;
    /// SMB2_0_INFO_FILESYSTEM: information of the file system; classes in [`crate::info::file_system`].
    pub const FILE_SYSTEM: u8 = 2;
    /// SMB2_0_INFO_SECURITY: the security descriptor.
    pub const SECURITY: u8 = 3;
    /// SMB2_0_INFO_QUOTA: quotas.
    pub const QUOTA: u8 = 4;
}

/// Bits of `AdditionalInformation` where the security descriptor is asked for.
pub mod security_information {
    /// OWNER_SECURITY_INFORMATION: the owner.
    pub const OWNER: u32 = 1;
    /// GROUP_SECURITY_INFORMATION: the primary group.
    pub const GROUP: u32 = 2;
    /// DACL_SECURITY_INFORMATION: the discretionary access list.
    pub const DACL: u32 = 4;
    /// SACL_SECURITY_INFORMATION: the audit list.
    pub const SACL: u32 = 8;
    /// LABEL_SECURITY_INFORMATION: the integrity label.
    pub const LABEL: u32 = 0x10;
}

body! {
    /// Fixed part of the request, MS-SMB2 2.2.37.
    pub struct QueryInfoRequestFixed = 41 {
        info_type: u8,
        file_info_class: u8,
        output_buffer_length: U32,
        input_buffer_offset: U16,
        reserved: U16,
        input_buffer_length: U32,
        additional_information: U32,
        /// Scan of extended attributes: restart 1, one entry 2, from an index 4.
        flags: U32,
        file_id: FileId,
    }
}

/// A QUERY_INFO request.
#[derive(Clone, Copy, Debug)]
pub struct QueryInfoRequest<'a> {
    /// The fixed part.
    pub fixed: &'a QueryInfoRequestFixed,
    /// Names of extended attributes, or whose quota.
    pub input: &'a [u8],
}

impl<'a> QueryInfoRequest<'a> {
    /// Reads the request.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<QueryInfoRequestFixed>()?;
        let (offset, len) = (fixed.input_buffer_offset.get(), fixed.input_buffer_length.get());
        Ok(Self { fixed, input: message.part::<QueryInfoRequestFixed>(offset.into(), len)? })
    }

    /// Appends a request.
    pub fn write(body: &mut Body<'_>, mut fixed: QueryInfoRequestFixed, input: &[u8]) {
        body.push(&fixed);
        let input = body.bytes(input);
        fixed.input_buffer_offset = input.offset16();
        fixed.input_buffer_length.set(input.len);
        body.set_fixed(&fixed);
    }
}
