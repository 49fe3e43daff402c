//! ECHO (MS-SMB2 3.3.5.17).

use smb_wire::Status;
use smb_wire::header::flags;

use crate::connection::{Call, Reply};
use crate::session::SessionState;

/// Says that the server is there.
///
/// # Errors
/// `STATUS_USER_SESSION_DELETED`: it names a session that this connection does not have.
pub(super) fn echo(call: &Call<'_>) -> Result<Reply, Status> {
    let header = call.header();
    //= MS-SMB2 3.3.5.17
    //# The session is verified where the request is signed, or is not encrypted and names one. A connection without sessions is answered too:
    //# clients ask so whether it lives before they sign in.
    let names_one = header.has(flags::SIGNED) || (!call.is_sealed && header.session_id.get() != 0);
    if names_one && call.channel()?.session.state() != SessionState::Valid {
        return Err(Status::USER_SESSION_DELETED);
    }
    Ok(Reply::empty())
}
