//! GetVolumeStatus (149) and SetVolumeStatus (150).

use afs_wire::VolumeStatus;
use afs_wire::code::{EACCES, EROFS};
use afs_wire::rxafs::{GetVolumeStatus, SetVolumeStatus};
use identity::Rights;
use vfs::Number;

use super::call_context::Reply;
use super::{Call, CallFailure, ServedCall};
use crate::attached_volumes::VolumeType;

impl ServedCall {
    /// Returns what the volume has and may have, where that is counted; else what its file system has. What
    /// is free is the file system's.
    pub(super) async fn volume_status(
        &self,
        call: &Call,
        request: GetVolumeStatus,
    ) -> Result<Reply<GetVolumeStatus>, CallFailure> {
        if let Some(synthetic) = self.synthetic_volume(request.volume)? {
            return Ok(synthetic);
        }
        let volume = self.volume(request.volume)?;
        let caller = vfs::Caller::new(self.principal(call.connection()));
        // A client that may pass to the root may know of it.
        volume.volume.find(&caller, Number::ROOT, Rights::NONE).await?;
        let space = volume.volume.room().await?;
        let kib =
            |blocks: u64| i32::try_from(blocks.saturating_mul(space.block_bytes) >> 10).unwrap_or(i32::MAX);
        let account = volume.volume.shared().and_then(|shared| shared.space());
        let of_bytes = |bytes: u64| i32::try_from(bytes.div_ceil(1024)).unwrap_or(i32::MAX);
        // 0 is without limit.
        let quota = account.as_ref().and_then(|account| account.quota.bytes);
        let counted = account.filter(vfs::Space::is_counted);
        let in_file_system = kib(space.blocks.saturating_sub(space.blocks_free));
        let status = VolumeStatus {
            id: volume.id as i32,
            parent_id: volume.served.first as i32,
            online: 1,
            in_service: 1,
            blessed: 1,
            needs_salvage: 0,
            r#type: i32::from(volume.kind == VolumeType::ReadWrite),
            min_quota: 0,
            max_quota: quota.map_or(0, |bytes| of_bytes(bytes).max(1)),
            blocks_in_use: counted.map_or(in_file_system, |account| of_bytes(account.used.bytes)),
            partition_blocks_free: kib(space.blocks_free),
            partition_blocks: kib(space.blocks),
        };
        let name = format!("{}{}", volume.served.name, volume.kind.suffix());
        Ok(Reply::<GetVolumeStatus> {
            status,
            name: name.into_bytes().into(),
            offline_message: Vec::new().into(),
            message_of_the_day: Vec::new().into(),
        })
    }

    /// Refuses quotas, which are the operator's: no client has rights to set one by this call yet.
    pub(super) fn set_volume_status(
        &self,
        request: &SetVolumeStatus<'_>,
    ) -> Result<Reply<SetVolumeStatus<'static>>, CallFailure> {
        let volume = self.volume(request.volume)?;
        Err(if volume.kind == VolumeType::ReadWrite { EACCES } else { EROFS }.into())
    }
}
