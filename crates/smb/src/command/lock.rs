//! LOCK (MS-SMB2 3.3.5.14).

use smb_wire::Status;
use smb_wire::body::lock::LockRequest;

use crate::connection::{Call, Reply};

/// Locks ranges of a file or gives them back; waits for others where the client says so.
pub(super) async fn lock(call: &Call<'_>, request: &LockRequest<'_>) -> Result<Reply, Status> {
    let (share, ctx, open) = call.target()?.into_file().ok_or(Status::INVALID_DEVICE_REQUEST)?;
    let _entered = call.enter(&open)?;
    share.lock(&ctx, &open, request, call.sequence()).await?;
    Ok(Reply::empty())
}
