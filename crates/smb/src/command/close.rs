//! CLOSE (MS-SMB2 3.3.5.10).

use smb_wire::Status;
use smb_wire::body::close::{CloseRequest, CloseResponse};
use smb_wire::fixed::Fixed;

use super::target::Target;
use crate::connection::{Call, Reply};

/// Closes an open.
pub(super) async fn close(call: &Call<'_>, request: &CloseRequest) -> Result<Reply, Status> {
    let response = match call.target()? {
        Target::File { share, ctx, open } => share.close(&ctx, &open, request.flags.get()).await?,
        Target::Pipe(pipe) => {
            call.connection.lane.server_state.pipes.close(&pipe);
            CloseResponse::blank()
        }
    };
    Ok(Reply::of(move |body| body.push(&response)))
}
