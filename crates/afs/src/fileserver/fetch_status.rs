//! FetchStatus (132).

use afs_wire::Fid;
use afs_wire::rxafs::FetchStatus;

use super::asked::Reply;
use super::look::Told;
use super::{Call, Refused, Serving};

impl Serving {
    pub(super) async fn status_of(
        &self,
        call: &Call,
        request: FetchStatus,
    ) -> Result<Reply<FetchStatus>, Refused> {
        let told = self.told_of(call, request.fid).await?;
        Ok(Reply::<FetchStatus> { status: told.status, call_back: told.call_back, sync: self.sync(call) })
    }

    /// What may be told of a file, with a promise.
    pub(super) async fn told_of(&self, call: &Call, fid: Fid) -> Result<Told, Refused> {
        if let Some((told, _)) = self.made_up(call, fid).await? {
            return Ok(told);
        }
        let asked = self.asked(call, fid).await?;
        self.told(&asked, fid).await
    }
}
