//! QUERY_DIRECTORY (MS-SMB2 3.3.5.18).

use smb_wire::Status;
use smb_wire::body::query_directory::QueryDirectoryRequest;

use crate::connection::{Call, Reply};

/// Handles QUERY_DIRECTORY: names of a directory.
pub(super) async fn query_directory(
    call: &Call<'_>,
    request: &QueryDirectoryRequest<'_>,
) -> Result<Reply, Status> {
    let room = request.fixed.output_buffer_length.get();
    let charge = call.output_room(room).await?;
    let (share, ctx, open) = call.target()?.into_file().ok_or(Status::INVALID_PARAMETER)?;
    let _entered = call.enter(&open)?;
    let answer = share.query_directory(&ctx, &open, request).await?;
    Ok(Reply::output(answer.status, answer.output).paid_by(charge))
}
