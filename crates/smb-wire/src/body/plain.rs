//! Bodies that say nothing: LOGOFF, TREE_DISCONNECT, ECHO and CANCEL (MS-SMB2 2.2.7, 2.2.8, 2.2.11, 2.2.12, 2.2.28 to
//! 2.2.30).

use zerocopy::little_endian::U16;

use crate::fixed::body;

body! {
    /// Request and response of LOGOFF, TREE_DISCONNECT and ECHO, and request of CANCEL, which has no response.
    pub struct Empty = 4 {
        reserved: U16,
    }
}
