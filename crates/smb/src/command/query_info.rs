//! QUERY_INFO (MS-SMB2 3.3.5.20).

use smb_wire::Status;
use smb_wire::body::query_info::QueryInfoRequest;

use super::target::Target;
use crate::connection::{Call, Reply};

/// Returns what is known of an open, its file system, or its security.
pub(super) async fn query_info(call: &Call<'_>, request: &QueryInfoRequest<'_>) -> Result<Reply, Status> {
    let room = request.fixed.output_buffer_length.get();
    let charge = call.output_room(room.max(request.fixed.input_buffer_length.get())).await?;
    match call.target()? {
        Target::File { share, ctx, open } => {
            let _entered = call.enter(&open)?;
            let answer = share.query_info(&ctx, &open, request).await?;
            Ok(match answer.status {
                // How much room it needs goes with the error.
                Status::BUFFER_TOO_SMALL => Reply::error(answer.status, answer.output),
                status => Reply::output(status, answer.output).paid_by(charge),
            })
        }
        Target::Pipe(pipe) => {
            let output = pipe.query_info(request)?;
            Ok(Reply::output(Status::SUCCESS, output))
        }
    }
}
