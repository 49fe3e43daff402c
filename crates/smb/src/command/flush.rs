//! FLUSH (MS-SMB2 3.3.5.11).

use smb_wire::Status;

use super::target::Target;
use super::test_controls;
use crate::connection::{Call, Reply};

/// Has what was written to an open on the disk before it answers.
pub(super) async fn flush(call: &Call<'_>) -> Result<Reply, Status> {
    match call.target()? {
        Target::File { share, ctx, open } => {
            let _entered = call.enter(&open)?;
            test_controls::slowness(call).await;
            share.flush(&ctx, &open).await?;
        }
        // What is written to a pipe is taken at once.
        Target::Pipe(_) => {}
    }
    Ok(Reply::empty())
}
