//! RemoveFile (136) and RemoveDir (142).

use afs_wire::rxafs::{RemoveDir, RemoveFile};

use super::call_context::{Reply, name};
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    pub(super) async fn remove(
        &self,
        call: &Call,
        request: RemoveFile<'_>,
    ) -> Result<Reply<RemoveFile<'static>>, CallFailure> {
        let context = self.change_context(call, request.directory).await?;
        let name = name(&request.name)?;
        context.directory(request.directory).await?.remove(&context.caller, name).await?;
        let status = self.directory_status(&context, request.directory).await?;
        Ok(Reply::<RemoveFile<'static>> { status, sync: context.sync() })
    }

    pub(super) async fn remove_directory(
        &self,
        call: &Call,
        request: RemoveDir<'_>,
    ) -> Result<Reply<RemoveDir<'static>>, CallFailure> {
        let context = self.change_context(call, request.directory).await?;
        let name = name(&request.name)?;
        context.directory(request.directory).await?.remove_directory(&context.caller, name).await?;
        let status = self.directory_status(&context, request.directory).await?;
        Ok(Reply::<RemoveDir<'static>> { status, sync: context.sync() })
    }
}
