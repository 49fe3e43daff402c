//! CreateFile (137): a new file or none.

use afs_wire::rxafs::CreateFile;
use vfs::How;

use super::asked::{Reply, name};
use super::changing::{left_to_do, mode_of};
use super::{Call, Refused, Serving};

impl Serving {
    pub(super) async fn create(
        &self,
        call: &Call,
        request: CreateFile<'_>,
    ) -> Result<Reply<CreateFile<'static>>, Refused> {
        let asked = self.changing(call, request.directory).await?;
        let name = name(&request.name)?;
        let directory = asked.directory(request.directory).await?;
        self.check_room(&directory, name)?;
        let how = How { exclusive: true, mode: mode_of(&request.change, 0o666) };
        let created = directory.create(&asked.caller, name, how).await?;
        if let Some(change) = left_to_do(&request.change, created.attributes.mode) {
            // It is made, whatever becomes of this: the reply says which attributes it has.
            let _ = created.writer.set_attributes(&asked.caller, change).await;
        }
        let object = created.writer.file().object().ok_or(vfs::Error::ReadOnly)?;
        self.server.inner.writers.keep_made(asked.host.holder(), object, &created.writer);
        let made = self.made(&asked, object.number(), request.directory).await?;
        Ok(Reply::<CreateFile<'static>> {
            fid: made.fid,
            status: made.told.status,
            directory_status: made.directory,
            call_back: made.told.call_back,
            sync: asked.sync(),
        })
    }
}
