//! CLOSE (MS-SMB2 2.2.15, 2.2.16).

use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::body;
use crate::guid::FileId;

/// `Flags`: the response tells the file's attributes.
pub const FLAG_POSTQUERY_ATTRIB: u16 = 1;

body! {
    /// The request, MS-SMB2 2.2.15.
    pub struct CloseRequest = 24 {
        flags: U16,
        reserved: U32,
        file_id: FileId,
    }
}

body! {
    /// The response, MS-SMB2 2.2.16.
    pub struct CloseResponse = 60 {
        flags: U16,
        reserved: U32,
        creation_time: U64,
        last_access_time: U64,
        last_write_time: U64,
        change_time: U64,
        allocation_size: U64,
        end_of_file: U64,
        file_attributes: U32,
    }
}
