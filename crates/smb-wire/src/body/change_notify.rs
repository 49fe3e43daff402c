//! CHANGE_NOTIFY (MS-SMB2 2.2.35); its response is [`crate::body::query_directory::Output`] of
//! [`crate::info::notify`].

use zerocopy::little_endian::{U16, U32};

use crate::fixed::body;
use crate::guid::FileId;

/// `Flags`: changes of the whole subtree.
pub const FLAG_WATCH_TREE: u16 = 1;

/// Bits of `CompletionFilter`.
pub mod filter {
    /// A file's name.
    pub const FILE_NAME: u32 = 0x001;
    /// A directory's name.
    pub const DIR_NAME: u32 = 0x002;
    /// Attributes.
    pub const ATTRIBUTES: u32 = 0x004;
    /// Length.
    pub const SIZE: u32 = 0x008;
    /// Time of the last write.
    pub const LAST_WRITE: u32 = 0x010;
    /// Time of the last access.
    pub const LAST_ACCESS: u32 = 0x020;
    /// Time of creation.
    pub const CREATION: u32 = 0x040;
    /// Extended attributes.
    pub const EA: u32 = 0x080;
    /// Access list.
    pub const SECURITY: u32 = 0x100;
    /// A stream's name.
    pub const STREAM_NAME: u32 = 0x200;
    /// A stream's length.
    pub const STREAM_SIZE: u32 = 0x400;
    /// A stream's content.
    pub const STREAM_WRITE: u32 = 0x800;
}

body! {
    /// The request, MS-SMB2 2.2.35.
    pub struct ChangeNotifyRequest = 32 {
        flags: U16,
        output_buffer_length: U32,
        file_id: FileId,
        completion_filter: U32,
        reserved: U32,
    }
}
