//! RemoveFile (136) and RemoveDir (142).

use afs_wire::rxafs::{RemoveDir, RemoveFile};

use super::asked::{Reply, name};
use super::{Call, Refused, Serving};

impl Serving {
    pub(super) async fn remove(
        &self,
        call: &Call,
        request: RemoveFile<'_>,
    ) -> Result<Reply<RemoveFile<'static>>, Refused> {
        let asked = self.changing(call, request.directory).await?;
        let name = name(&request.name)?;
        asked.directory(request.directory).await?.remove(&asked.caller, name).await?;
        let status = self.directory_status(&asked, request.directory).await?;
        Ok(Reply::<RemoveFile<'static>> { status, sync: asked.sync() })
    }

    pub(super) async fn remove_directory(
        &self,
        call: &Call,
        request: RemoveDir<'_>,
    ) -> Result<Reply<RemoveDir<'static>>, Refused> {
        let asked = self.changing(call, request.directory).await?;
        let name = name(&request.name)?;
        asked.directory(request.directory).await?.remove_directory(&asked.caller, name).await?;
        let status = self.directory_status(&asked, request.directory).await?;
        Ok(Reply::<RemoveDir<'static>> { status, sync: asked.sync() })
    }
}
