//! StoreStatus (135): mode, times, and for administrators owner and group. The data version stays.

use afs_wire::rxafs::StoreStatus;
use afs_wire::{Fid, SET_FSYNC};
use identity::Rights;
use lane::fs::AttributeChange;
use vfs::{Directory, Name};

use super::asked::{ATTEMPTS_MAX, Asked, Reply};
use super::look::Look;
use super::status::wanted;
use super::{Call, Refused, Serving};

impl Serving {
    pub(super) async fn set_status(
        &self,
        call: &Call,
        request: StoreStatus,
    ) -> Result<Reply<StoreStatus>, Refused> {
        let asked = self.changing(call, request.fid).await?;
        let change = wanted(&request.change);
        if change != AttributeChange::NONE {
            self.set_attributes(&asked, request.fid, change).await?;
        }
        if request.change.mask & SET_FSYNC != 0 && !request.fid.is_directory() {
            let number = asked.number(request.fid)?;
            let found = asked.volume.volume.find(&asked.caller, number, Rights::WRITE).await?;
            if let vfs::Resolved::File(file, _) = found {
                let synced = file.lane_file().sync(lane::fs::SyncOf::All).await;
                synced.map_err(vfs::Error::from)?;
            }
        }
        let status = self.told_of_change(&asked, request.fid).await?.status;
        if change.mode.is_some() {
            self.let_go_if_executable(&asked, request.fid, &status)?;
        }
        Ok(Reply::<StoreStatus> { status, sync: asked.sync() })
    }

    /// Sets attributes of a file by its name, which may just move.
    pub(super) async fn set_attributes(
        &self,
        asked: &Asked,
        fid: Fid,
        change: AttributeChange,
    ) -> Result<(), Refused> {
        if fid.is_directory() {
            return Ok(asked.directory(fid).await?.set_attributes(&asked.caller, change).await?);
        }
        for _ in 0..ATTEMPTS_MAX {
            let promise = self.server.inner.hosts.promise();
            let look = self.look(asked, fid, Rights::LOOKUP, promise.until).await?;
            let (directory, name) = self.placed(asked, fid, &look).await?;
            let set =
                directory.set_attributes_if(&asked.caller, asked.number(fid)?, Name::parse(&name)?, change);
            match set.await {
                // It has been renamed since.
                Err(vfs::Error::Unexpected | vfs::Error::NotFound) => {}
                set => return Ok(set?),
            }
        }
        Err(vfs::Error::Busy.into())
    }

    /// The directory that a file or link is in, and its name there.
    async fn placed(&self, asked: &Asked, fid: Fid, look: &Look) -> Result<(Directory, Box<[u8]>), Refused> {
        match look {
            Look::Node(_) => {
                let (volume, number) = (&asked.volume.volume, asked.number(fid)?);
                let placed = volume.find_placed(&asked.caller, number, Rights::NONE, Rights::NONE).await?;
                Ok((placed.directory, placed.name))
            }
            Look::Link(link) => {
                let (above, name) = link.link().object.seen_in().ok_or(vfs::Error::Stale)?;
                Ok((asked.directory(asked.fid(above)).await?, name))
            }
        }
    }
}
