//! FLUSH (MS-SMB2 3.3.5.11).

use std::sync::Arc;

use lane::fs::SyncOf;
use smb_wire::Status;
use smb_wire::create::access::rights::{APPEND_DATA, WRITE_DATA};

use crate::lane_handle::HandleKind;
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;

impl Share {
    /// Makes safe what was written to a file, or made in a directory.
    ///
    /// # Errors
    /// `STATUS_ACCESS_DENIED` for an open that may not write.
    pub async fn flush(&self, ctx: &RequestContext, open: &Arc<Open>) -> Result<(), Status> {
        //= MS-SMB2 3.3.5.11
        //# An open without FILE_WRITE_DATA and FILE_APPEND_DATA (of a directory: FILE_ADD_FILE, FILE_ADD_SUBDIRECTORY) fails
        //# with STATUS_ACCESS_DENIED.
        if !open.may(WRITE_DATA | APPEND_DATA) {
            return Err(Status::ACCESS_DENIED);
        }
        self.tell_write_time(open);
        let handle = self.handle(ctx, open).await?;
        let synced = match &handle.what {
            HandleKind::Directory(directory) => directory.sync().await,
            HandleKind::Link(_) => Ok(()),
            HandleKind::File(_) => {
                let writer = handle.writer(self.volume(), &ctx.by(open), open.grants().object()).await;
                writer.map_err(status::of)?.sync(SyncOf::All).await
            }
        };
        synced.map_err(status::of)
    }
}
