//! Requests to bind a connection to a session that has others (MS-SMB2 3.3.5.5): in which order they are refused.

use smb_wire::Status;

use crate::connection::Connection;

/// Why a connection is not bound to the session `id`: several channels are not offered yet.
pub(super) fn refusal(connection: &Connection, id: u64) -> Status {
    //= MS-SMB2 3.3.5.5
    //# A session that is not in GlobalSessionTable fails with STATUS_USER_SESSION_DELETED.
    match connection.lane.kept.sessions.get(id) {
        _ if id == 0 => Status::INVALID_PARAMETER,
        None => Status::USER_SESSION_DELETED,
        //= MS-SMB2 3.3.5.5
        //# Before 3.0, or where the server does not offer multichannel, it is STATUS_REQUEST_NOT_ACCEPTED.
        Some(_) => Status::REQUEST_NOT_ACCEPTED,
    }
}
