//! MakeDir (141).

use afs_wire::rxafs::MakeDir;

use super::call_context::{Reply, name};
use super::changing::mode_of;
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    /// Makes a directory. The mode is what the process's umask leaves of what the client wants: rights in the directory
    /// come from its access list.
    pub(super) async fn make_directory(
        &self,
        call: &Call,
        request: MakeDir<'_>,
    ) -> Result<Reply<MakeDir<'static>>, CallFailure> {
        let context = self.change_context(call, request.directory).await?;
        let name = name(&request.name)?;
        let directory = context.directory(request.directory).await?;
        self.check_room(&directory, name)?;
        let created =
            directory.make_directory(&context.caller, name, mode_of(&request.change, 0o777)).await?;
        let object = created.object().ok_or(vfs::Error::ReadOnly)?;
        let created = self.created(&context, object.number(), request.directory).await?;
        Ok(Reply::<MakeDir<'static>> {
            fid: created.fid,
            status: created.file.status,
            directory_status: created.directory,
            call_back: created.file.call_back,
            sync: context.sync(),
        })
    }
}
