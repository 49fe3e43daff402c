//! MakeDir (141).

use afs_wire::rxafs::MakeDir;

use super::asked::{Reply, name};
use super::changing::mode_of;
use super::{Call, Refused, Serving};

impl Serving {
    /// Its mode is what the process's umask leaves of what the client wants: who may do what in it its access list says.
    pub(super) async fn make_directory(
        &self,
        call: &Call,
        request: MakeDir<'_>,
    ) -> Result<Reply<MakeDir<'static>>, Refused> {
        let asked = self.changing(call, request.directory).await?;
        let name = name(&request.name)?;
        let directory = asked.directory(request.directory).await?;
        self.check_room(&directory, name)?;
        let made = directory.make_directory(&asked.caller, name, mode_of(&request.change, 0o777)).await?;
        let object = made.object().ok_or(vfs::Error::ReadOnly)?;
        let made = self.made(&asked, object.number(), request.directory).await?;
        Ok(Reply::<MakeDir<'static>> {
            fid: made.fid,
            status: made.told.status,
            directory_status: made.directory,
            call_back: made.told.call_back,
            sync: asked.sync(),
        })
    }
}
