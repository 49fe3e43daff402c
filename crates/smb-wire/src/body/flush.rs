//! FLUSH (MS-SMB2 2.2.17, 2.2.18); its response is [`crate::body::plain::Empty`].

use zerocopy::little_endian::{U16, U32};

use crate::fixed::body;
use crate::guid::FileId;

body! {
    /// The request, MS-SMB2 2.2.17.
    pub struct FlushRequest = 24 {
        reserved1: U16,
        reserved2: U32,
        file_id: FileId,
    }
}
