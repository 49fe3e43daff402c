//! CHANGE_NOTIFY (MS-SMB2 3.3.5.19).

use smb_wire::Status;
use smb_wire::body::change_notify::ChangeNotifyRequest;

use crate::connection::{Call, Reply};

/// Waits for changes of a directory.
pub(super) async fn change_notify(call: &Call<'_>, request: &ChangeNotifyRequest) -> Result<Reply, Status> {
    let room = request.output_buffer_length.get();
    //= MS-SMB2 3.3.5.19
    //# More than MaxTransactSize fails with STATUS_INVALID_PARAMETER.
    if room > call.negotiated()?.transact_max {
        return Err(Status::INVALID_PARAMETER);
    }
    call.pays(0, room)?;
    let (share, ctx, open) = call.target()?.into_file().ok_or(Status::INVALID_PARAMETER)?;
    let entered = call.enter(&open)?;
    let answer = share.change_notify(&ctx, &open, request).await;
    drop(entered);
    let answer = answer?;
    //= MS-SMB2 2.2.2
    //# What fails is answered by an error response: STATUS_DELETE_PENDING, for a directory that goes.
    if answer.status.is_error() {
        return Err(answer.status);
    }
    Ok(Reply::output(answer.status, answer.output))
}
