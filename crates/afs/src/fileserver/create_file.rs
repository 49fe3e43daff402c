//! CreateFile (137): a new file or none.

use afs_wire::rxafs::CreateFile;
use vfs::CreateOptions;

use super::call_context::{Reply, name};
use super::changing::{left_to_do, mode_of};
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    pub(super) async fn create(
        &self,
        call: &Call,
        request: CreateFile<'_>,
    ) -> Result<Reply<CreateFile<'static>>, CallFailure> {
        let context = self.change_context(call, request.directory).await?;
        let name = name(&request.name)?;
        let directory = context.directory(request.directory).await?;
        self.check_room(&directory, name)?;
        let how = CreateOptions { exclusive: true, mode: mode_of(&request.change, 0o666) };
        let created = directory.create(&context.caller, name, how).await?;
        if let Some(change) = left_to_do(&request.change, created.attributes.mode) {
            // It is made, whatever becomes of this: the reply says which attributes it has.
            let _ = created.writer.set_attributes(&context.caller, change).await;
        }
        let object = created.writer.file().object().ok_or(vfs::Error::ReadOnly)?;
        self.server.inner.writers.keep_made(context.host.holder(), object, &created.writer);
        let created = self.created(&context, object.number(), request.directory).await?;
        Ok(Reply::<CreateFile<'static>> {
            fid: created.fid,
            status: created.file.status,
            directory_status: created.directory,
            call_back: created.file.call_back,
            sync: context.sync(),
        })
    }
}
