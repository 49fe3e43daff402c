//! FetchACL (131): of a directory its list, of a file that of its directory.

use afs_wire::rxafs::FetchACL;
use identity::{Acl, Nearest, Rights};
use vfs::Directory;

use super::access::text_of;
use super::call_context::{CallContext, Reply};
use super::{Call, CallFailure, ServedCall};
use afs_wire::Fid;
use afs_wire::code::EACCES;

impl ServedCall {
    pub(super) async fn list(&self, call: &Call, request: FetchACL) -> Result<Reply<FetchACL>, CallFailure> {
        if let Some(synthetic) = self.synthetic_acl(call, request.fid).await? {
            return Ok(synthetic);
        }
        let context = self.call_context(call, request.fid).await?;
        let directory = context.directory_of(request.fid).await?;
        let text = match directory.access_list(&context.caller).await? {
            Nearest::List(acl) => text_of(&acl),
            // Where mode bits count there is nothing to show, or to change an entry of.
            Nearest::None => text_of(&Acl::new()),
            Nearest::Unreadable => return Err(EACCES.into()),
        };
        // Clients read it as a string of C.
        let access_list = (text + "\0").into_bytes().into();
        let found = self.status_and_callback(&context, request.fid).await?;
        Ok(Reply::<FetchACL> { access_list, status: found.status, sync: context.sync() })
    }
}

impl CallContext {
    /// Returns the directory whose list counts for a file: itself, if it is one.
    pub(super) async fn directory_of(&self, fid: Fid) -> Result<Directory, CallFailure> {
        if fid.is_directory() {
            return self.directory(fid).await;
        }
        let (volume, number) = (&self.volume.volume, self.number(fid)?);
        Ok(volume.find_with_parent(&self.caller, number, Rights::LOOKUP, Rights::NONE).await?.directory)
    }
}
