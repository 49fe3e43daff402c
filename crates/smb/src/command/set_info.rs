//! SET_INFO (MS-SMB2 3.3.5.21).

use smb_wire::Status;
use smb_wire::body::query_info::info_type;
use smb_wire::body::set_info::{SetInfoRequest, SetInfoResponse};
use smb_wire::fixed::Fixed;
use smb_wire::info::file::class;

use super::target::Target;
use crate::connection::{Call, Reply};

/// Changes what is known of an open.
pub(super) async fn set_info(call: &Call<'_>, request: &SetInfoRequest<'_>) -> Result<Reply, Status> {
    let length = request.fixed.buffer_length.get();
    //= MS-SMB2 3.3.5.21
    //# More than MaxTransactSize fails with STATUS_INVALID_PARAMETER.
    if length > call.negotiated()?.transact_max {
        return Err(Status::INVALID_PARAMETER);
    }
    call.pays(length, 0)?;
    match call.target()? {
        Target::File { share, ctx, open } => {
            let _entered = call.enter(&open)?;
            share.set_info(&ctx, &open, request).await?;
        }
        // Pipes are in message mode, whatever is asked for: it is what all clients ask for.
        Target::Pipe(_)
            if request.fixed.info_type == info_type::FILE && request.fixed.file_info_class == class::PIPE => {
        }
        Target::Pipe(_) => return Err(Status::NOT_SUPPORTED),
    }
    Ok(Reply::of(|body| body.push(&SetInfoResponse::blank())))
}
