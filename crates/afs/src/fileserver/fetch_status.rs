//! FetchStatus (132).

use afs_wire::rxafs::FetchStatus;

use super::asked::{Reply, SYNC};
use super::{Call, Refused, Serving};

impl Serving {
    pub(super) async fn status_of(
        &self,
        call: &Call,
        request: FetchStatus,
    ) -> Result<Reply<FetchStatus>, Refused> {
        let asked = self.asked(call, request.fid).await?;
        let told = self.told(&asked, request.fid).await?;
        Ok(Reply::<FetchStatus> { status: told.status, call_back: told.call_back, sync: SYNC })
    }
}
