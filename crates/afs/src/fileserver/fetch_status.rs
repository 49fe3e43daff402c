//! FetchStatus (132).

use afs_wire::Fid;
use afs_wire::rxafs::FetchStatus;

use super::call_context::Reply;
use super::status_and_callback::StatusAndCallback;
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    pub(super) async fn status_of(
        &self,
        call: &Call,
        request: FetchStatus,
    ) -> Result<Reply<FetchStatus>, CallFailure> {
        let found = self.status_of_fid(call, request.fid).await?;
        Ok(Reply::<FetchStatus> { status: found.status, call_back: found.call_back, sync: self.sync(call) })
    }

    /// Returns the status of a file as far as the client may see it, with a callback.
    pub(super) async fn status_of_fid(
        &self,
        call: &Call,
        fid: Fid,
    ) -> Result<StatusAndCallback, CallFailure> {
        if let Some((found, _)) = self.synthetic(call, fid).await? {
            return Ok(found);
        }
        let context = self.call_context(call, fid).await?;
        self.status_and_callback(&context, fid).await
    }
}
