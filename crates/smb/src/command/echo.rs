//! ECHO (MS-SMB2 3.3.5.17).

use smb_wire::Status;

use crate::connection::Reply;

/// Says that the server is there.
pub(super) fn echo() -> Result<Reply, Status> {
    Ok(Reply::empty())
}
