//! StoreACL (164), and by its old number (134).

use afs_wire::code::{EINVAL, ENOTDIR};
use afs_wire::{Fid, Status};

use super::access::list_of;
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    pub(super) async fn set_list(&self, call: &Call, fid: Fid, text: &[u8]) -> Result<Status, CallFailure> {
        let context = self.change_context(call, fid).await?;
        if !fid.is_directory() {
            return Err(ENOTDIR.into());
        }
        let acl = list_of(text).ok_or(EINVAL)?;
        let directory = context.directory(fid).await?;
        directory.set_access_list(&context.caller, Some(&acl)).await?;
        Ok(self.status_after_change(&context, fid).await?.status)
    }
}
