//! StoreStatus (135): mode, times, and for administrators owner and group. The data version stays.

use afs_wire::rxafs::StoreStatus;
use afs_wire::{Fid, SET_FSYNC};
use identity::Rights;
use lane::fs::AttributeChange;
use vfs::{Directory, Name};

use super::call_context::{ATTEMPTS_MAX, CallContext, Reply};
use super::status::attribute_change;
use super::status_and_callback::FileLookup;
use super::{Call, CallFailure, ServedCall};

impl ServedCall {
    pub(super) async fn set_status(
        &self,
        call: &Call,
        request: StoreStatus,
    ) -> Result<Reply<StoreStatus>, CallFailure> {
        let context = self.change_context(call, request.fid).await?;
        let change = attribute_change(&request.change);
        if change != AttributeChange::NONE {
            self.set_attributes(&context, request.fid, change).await?;
        }
        if request.change.mask & SET_FSYNC != 0 && !request.fid.is_directory() {
            let number = context.number(request.fid)?;
            let found = context.volume.volume.find(&context.caller, number, Rights::WRITE).await?;
            if let vfs::Resolved::File(file, _) = found {
                let synced = file.lane_file().sync(lane::fs::SyncOf::All).await;
                synced.map_err(vfs::Error::from)?;
            }
        }
        let status = self.status_after_change(&context, request.fid).await?.status;
        if change.mode.is_some() {
            self.close_if_executable(&context, request.fid, &status)?;
        }
        Ok(Reply::<StoreStatus> { status, sync: context.sync() })
    }

    /// Sets attributes of a file by its name, which may just move.
    pub(super) async fn set_attributes(
        &self,
        context: &CallContext,
        fid: Fid,
        change: AttributeChange,
    ) -> Result<(), CallFailure> {
        if fid.is_directory() {
            return Ok(context.directory(fid).await?.set_attributes(&context.caller, change).await?);
        }
        for _ in 0..ATTEMPTS_MAX {
            let promise = self.server.inner.hosts.promise();
            let lookup = self.lookup(context, fid, Rights::LOOKUP, promise.until).await?;
            let (directory, name) = self.placed(context, fid, &lookup).await?;
            let set = directory.set_attributes_if(
                &context.caller,
                context.number(fid)?,
                Name::parse(&name)?,
                change,
            );
            match set.await {
                // It has been renamed since.
                Err(vfs::Error::Unexpected | vfs::Error::NotFound) => {}
                set => return Ok(set?),
            }
        }
        Err(vfs::Error::Busy.into())
    }

    /// Returns the directory that a file or link is in, and its name there.
    async fn placed(
        &self,
        context: &CallContext,
        fid: Fid,
        lookup: &FileLookup,
    ) -> Result<(Directory, Box<[u8]>), CallFailure> {
        match lookup {
            FileLookup::Node(_) => {
                let (volume, number) = (&context.volume.volume, context.number(fid)?);
                let placed =
                    volume.find_with_parent(&context.caller, number, Rights::NONE, Rights::NONE).await?;
                Ok((placed.directory, placed.name))
            }
            FileLookup::Link(link) => {
                let (above, name) = link.link().object.seen_in().ok_or(vfs::Error::Stale)?;
                Ok((context.directory(context.fid(above)).await?, name))
            }
        }
    }
}
