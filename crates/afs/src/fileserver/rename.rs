//! Rename (138): within a volume; what has the new name goes.

use afs_wire::code::EXDEV;
use afs_wire::rxafs::Rename;
use vfs::Replace;

use super::call_context::{Reply, name};
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    pub(super) async fn move_name(
        &self,
        call: &Call,
        request: Rename<'_>,
    ) -> Result<Reply<Rename<'static>>, CallFailure> {
        let context = self.change_context(call, request.from).await?;
        if request.to.volume != request.from.volume {
            return Err(EXDEV.into());
        }
        let (old, new) = (name(&request.old_name)?, name(&request.new_name)?);
        let (from, to) = (context.directory(request.from).await?, context.directory(request.to).await?);
        if request.from != request.to || old != new {
            self.check_room(&to, new)?;
        }
        from.rename(&context.caller, old, &to, new, Replace::Existing).await?;
        let from_status = self.directory_status(&context, request.from).await?;
        let to_status = match request.from == request.to {
            true => from_status,
            false => self.directory_status(&context, request.to).await?,
        };
        Ok(Reply::<Rename<'static>> { from_status, to_status, sync: context.sync() })
    }
}
