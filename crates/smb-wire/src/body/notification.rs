//! SERVER_TO_CLIENT_NOTIFICATION (MS-SMB2 2.2.44).

use zerocopy::little_endian::{U16, U32};

use crate::fixed::body;

/// `NotificationType`: the session is closed. Nothing but a reserved word goes with it.
pub const SESSION_CLOSED: u32 = 0;

body! {
    /// Notification that a session was closed, MS-SMB2 2.2.44.1 and 2.2.44.2.
    pub struct SessionClosed = 12 {
        reserved: U16,
        notification_type: U32,
        notification: U32,
    }
}
