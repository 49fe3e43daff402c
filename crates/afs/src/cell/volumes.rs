//! Volume server (AFSVol), for `vos examine`, `listvol`, `partinfo` and `status`. A partition is a file
//! system that volumes lie on: `/vicepa` is that of the first one.

use std::rc::Rc;
use std::sync::Arc;

use afs_wire::code::cell::{VOLSERBAD_ACCESS, VOLSERILLEGAL_PARTITION, VOLSERNOVOL};
use afs_wire::{self as wire, afs_vol};
use rx_lane::ServerCall;
use vfs::{RelPath, SystemStat};
use xdr::rpc::Failure;
use xdr::{Chars, List};

use super::{Cell, CellCounters, Current, Refusal, refused};
use crate::attached_volumes::{ServedVolume, VolumeEntry, VolumeType};
use crate::code;
use crate::roots::Root;

/// The volume server of one lane.
pub struct Volumes {
    cell: Current<Cell>,
    counters: Arc<CellCounters>,
    tally: afs_vol::Tally,
}

impl Volumes {
    /// The Rx service.
    pub const SERVICE: u16 = 4;

    /// Answers from `cell`.
    pub fn new(cell: Current<Cell>, counters: Arc<CellCounters>) -> Self {
        Self { cell, counters, tally: afs_vol::Tally::default() }
    }

    /// Offers the service.
    pub fn serve_on(self, driver: &rx_lane::Driver) {
        let me = Rc::new(self);
        driver.serve(Self::SERVICE, move |mut call: ServerCall| {
            let me = Rc::clone(&me);
            async move {
                me.counters.volume_calls.increment();
                afs_vol::serve(&*me, &mut call, &me.tally).await
            }
        });
    }

    /// Returns the volumes of a partition.
    fn on(&self, partition: i32) -> Result<Vec<VolumeEntry>, Refusal> {
        let mut found = self.cell.get().attached.known();
        found.retain(|volume| i32::from(volume.partition) == partition);
        if found.is_empty() { Err(Failure::Refused(VOLSERILLEGAL_PARTITION)) } else { Ok(found) }
    }

    /// Returns a volume, or a copy of it, which exists for clients that ask by its number.
    fn one(&self, partition: i32, id: u32) -> Result<VolumeEntry, Refusal> {
        // Whether there is such a partition comes first.
        self.on(partition)?;
        let found = self.cell.get().attached.located(id).filter(|(volume, kind)| {
            i32::from(volume.partition) == partition
                && (*kind != VolumeType::ReadWrite || volume.kind == *kind)
        });
        // Stock servers tell it as a system call would.
        found.map(|(volume, kind)| VolumeEntry { kind, ..volume }).ok_or_else(|| {
            //@ limit: volumes that are not there, changes that are not allowed
            //@ section: AFS cell
            //@ unit: call
            //@ connection: its own
            //@ empty: refused; others feel nothing
            //@ counter: afs_volumes_not_found, afs_changes_refused
            //@ attack: afs-pools
            self.counters.volumes_not_found.increment();
            Failure::Refused(ENODEV)
        })
    }

    /// Returns what a volume is like; `None` of one that is gone meanwhile.
    async fn volume_report(&self, volume: &VolumeEntry) -> Option<VolumeReport> {
        let cell = self.cell.get();
        if let Some(served) = cell.attached.served(volume) {
            return Some(VolumeReport::of(volume, served).await);
        }
        cell.attached.synthetic().now().by_id(volume.first).map(|root| VolumeReport::synthetic(volume, root))
    }

    /// Returns the name of a partition and the capacity of its file system.
    async fn room(&self, name: &[u8]) -> Result<(String, SystemStat), Refusal> {
        let cell = self.cell.get();
        let found = cell.attached.partitions().into_iter().find(|served| {
            let own = partition_name(served.partition);
            // The zero at its end may be sent, too.
            own.as_bytes() == name.strip_suffix(b"\0").unwrap_or(name)
        });
        let served = found.ok_or(Failure::Refused(VOLSERILLEGAL_PARTITION))?;
        let room = served.volume.room().await.map_err(|error| Failure::Refused(code::of(&error)))?;
        Ok((partition_name(served.partition), room))
    }
}

/// Report on a volume, for either form of answer.
struct VolumeReport {
    name: Chars<32>,
    volume: u32,
    kind: i32,
    parent: u32,
    created: u32,
    updated: u32,
    files: i32,
    quota: i32,
    size: i32,
}

impl VolumeReport {
    async fn of(known: &VolumeEntry, served: &ServedVolume) -> Self {
        let record = served.volume.shared().and_then(|shared| shared.record());
        let created = record.as_ref().map_or(0, |record| seconds(record.created));
        // Its own directory's time: of the files below nothing is kept for the volume as a whole.
        let root = served.volume.lookup(RelPath::ROOT).await;
        let changed = root.ok().map_or(0, |root| seconds(root.attributes().mtime.secs));
        let usage = record.as_ref().map(|record| record.usage).unwrap_or_default();
        let quota = record.and_then(|record| record.quota.bytes);
        Self {
            name: full_name(known),
            volume: known.id(),
            kind: known.kind.index() as i32,
            parent: known.first,
            created,
            updated: changed.max(created),
            files: i32::try_from(usage.files).unwrap_or(i32::MAX),
            // 0 is without limit.
            quota: quota.map_or(0, |bytes| kilobytes(bytes).max(1)),
            size: kilobytes(usage.bytes),
        }
    }

    fn synthetic(known: &VolumeEntry, root: &Root) -> Self {
        let since = root.since();
        Self {
            name: full_name(known),
            volume: known.id(),
            kind: known.kind.index() as i32,
            parent: known.first,
            created: since,
            updated: since,
            files: i32::try_from(root.files()).unwrap_or(i32::MAX),
            quota: 0,
            size: kilobytes(root.bytes() as u64),
        }
    }

    fn short(&self) -> wire::VolumeInfo {
        wire::VolumeInfo {
            name: self.name,
            volume: self.volume,
            kind: self.kind,
            parent_volume: self.parent,
            status: wire::VOL_STATUS_OK as i32,
            copied: self.created,
            in_use: 1,
            created: self.created,
            accessed: self.updated,
            updated: self.updated,
            files: self.files,
            quota_max: self.quota,
            size: self.size,
            ..Default::default()
        }
    }

    fn long(&self) -> wire::VolumeInfoLong {
        wire::VolumeInfoLong {
            name: self.name,
            volume: self.volume,
            kind: self.kind,
            parent_volume: self.parent,
            status: wire::VOL_STATUS_OK as i32,
            copied: self.created,
            in_use: 1,
            created: self.created,
            accessed: self.updated,
            updated: self.updated,
            files: self.files,
            quota_max: self.quota,
            size: self.size,
            ..Default::default()
        }
    }
}

fn full_name(known: &VolumeEntry) -> Chars<32> {
    Chars::from_text(known.full_name().as_bytes()).expect("names of AFS leave room for the suffix")
}

/// Returns the name of a partition: `/vicepa` to `/vicepz`, then `/vicepaa` and so on.
fn partition_name(index: u8) -> String {
    let letter = |index: u8| char::from(b'a' + index);
    match index.checked_sub(26) {
        None => format!("/vicep{}", letter(index)),
        Some(rest) => format!("/vicep{}{}", letter(rest / 26), letter(rest % 26)),
    }
}

/// Converts seconds since 1970, as far as 32 bits go.
fn seconds(seconds: i64) -> u32 {
    u32::try_from(seconds.max(0)).unwrap_or(u32::MAX)
}

fn kilobytes(bytes: u64) -> i32 {
    i32::try_from(bytes.div_ceil(1024)).unwrap_or(i32::MAX)
}

/// Kilobytes in all, and free.
fn room_of(room: &SystemStat) -> [i64; 2] {
    let kilobytes = |blocks: u64| {
        let bytes = u128::from(blocks) * u128::from(room.block_bytes);
        i64::try_from(bytes / 1024).unwrap_or(i64::MAX)
    };
    [kilobytes(room.blocks), kilobytes(room.blocks_free)]
}

/// Clips a size to a field of 32 bits.
fn clipped(kilobytes: i64) -> i32 {
    i32::try_from(kilobytes).unwrap_or(i32::MAX)
}

impl afs_vol::Server<ServerCall> for Volumes {
    async fn list_partitions(
        &self,
        _: &ServerCall,
        _: afs_vol::ListPartitions,
    ) -> Result<afs_vol::ListPartitionsReply, Refusal> {
        let partitions = self.cell.get().attached.partitions().len();
        let mut old = wire::OldPartitions::default();
        for (index, id) in old.id.iter_mut().enumerate() {
            *id = if index < partitions { index as i32 } else { -1 };
        }
        Ok(afs_vol::ListPartitionsReply { partitions: old })
    }

    async fn x_list_partitions(
        &self,
        _: &ServerCall,
        _: afs_vol::XListPartitions,
    ) -> Result<afs_vol::XListPartitionsReply, Refusal> {
        let cell = self.cell.get();
        let partitions = cell.attached.partitions().iter().map(|served| served.partition.into()).collect();
        Ok(afs_vol::XListPartitionsReply { partitions })
    }

    async fn partition_info(
        &self,
        _: &ServerCall,
        request: afs_vol::PartitionInfo<'_>,
    ) -> Result<afs_vol::PartitionInfoReply, Refusal> {
        let (name, room) = self.room(&request.name).await?;
        let name = Chars::from_text(name.as_bytes()).expect("they are short");
        let [total, free] = room_of(&room).map(clipped);
        let partition = wire::Partition { name, device: name, lock: -1, total, free, usable: total };
        Ok(afs_vol::PartitionInfoReply { partition })
    }

    async fn partition_info64(
        &self,
        _: &ServerCall,
        request: afs_vol::PartitionInfo64<'_>,
    ) -> Result<afs_vol::PartitionInfo64Reply, Refusal> {
        let (name, room) = self.room(&request.name).await?;
        let name = Chars::from_text(name.as_bytes()).expect("they are short");
        let [total, free] = room_of(&room);
        let partition = wire::Partition64 { name, device: name, lock: -1, total, free, usable: total };
        Ok(afs_vol::PartitionInfo64Reply { partition })
    }

    async fn list_volumes(
        &self,
        _: &ServerCall,
        request: afs_vol::ListVolumes,
    ) -> Result<afs_vol::ListVolumesReply, Refusal> {
        let mut volumes = Vec::new();
        for volume in self.on(request.partition)? {
            match request.whole {
                0 => volumes.push(wire::VolumeInfo { volume: volume.id(), ..Default::default() }),
                _ => volumes
                    .extend(self.volume_report(&volume).await.map(|volume_report| volume_report.short())),
            }
        }
        Ok(afs_vol::ListVolumesReply { volumes: List(volumes) })
    }

    async fn x_list_volumes(
        &self,
        _: &ServerCall,
        request: afs_vol::XListVolumes,
    ) -> Result<afs_vol::XListVolumesReply, Refusal> {
        let mut volumes = Vec::new();
        for volume in self.on(request.partition)? {
            match request.whole {
                0 => volumes.push(wire::VolumeInfoLong { volume: volume.id(), ..Default::default() }),
                _ => volumes
                    .extend(self.volume_report(&volume).await.map(|volume_report| volume_report.long())),
            }
        }
        Ok(afs_vol::XListVolumesReply { volumes: List(volumes) })
    }

    async fn list_one_volume(
        &self,
        _: &ServerCall,
        request: afs_vol::ListOneVolume,
    ) -> Result<afs_vol::ListOneVolumeReply, Refusal> {
        let volume_report = self.volume_report(&self.one(request.partition, request.volume)?).await;
        Ok(afs_vol::ListOneVolumeReply {
            volumes: List(volume_report.map(|volume_report| volume_report.short()).into_iter().collect()),
        })
    }

    async fn x_list_one_volume(
        &self,
        _: &ServerCall,
        request: afs_vol::XListOneVolume,
    ) -> Result<afs_vol::XListOneVolumeReply, Refusal> {
        let volume_report = self.volume_report(&self.one(request.partition, request.volume)?).await;
        Ok(afs_vol::XListOneVolumeReply {
            volumes: List(volume_report.map(|volume_report| volume_report.long()).into_iter().collect()),
        })
    }

    async fn get_nth_volume(
        &self,
        _: &ServerCall,
        request: afs_vol::GetNthVolume,
    ) -> Result<afs_vol::GetNthVolumeReply, Refusal> {
        let all = self.cell.get().attached.known();
        let volume = usize::try_from(request.index).ok().and_then(|index| all.get(index));
        let volume = volume.ok_or(Failure::Refused(VOLSERNOVOL))?;
        Ok(afs_vol::GetNthVolumeReply { volume: volume.id(), partition: volume.partition.into() })
    }

    async fn monitor(&self, _: &ServerCall, _: afs_vol::Monitor) -> Result<afs_vol::MonitorReply, Refusal> {
        // No client can begin a transaction.
        Ok(afs_vol::MonitorReply::default())
    }

    async fn end_trans(
        &self,
        _: &ServerCall,
        _: afs_vol::EndTrans,
    ) -> Result<afs_vol::EndTransReply, Refusal> {
        Err(NO_TRANSACTION)
    }

    async fn get_flags(
        &self,
        _: &ServerCall,
        _: afs_vol::GetFlags,
    ) -> Result<afs_vol::GetFlagsReply, Refusal> {
        Err(NO_TRANSACTION)
    }

    async fn get_name(
        &self,
        _: &ServerCall,
        _: afs_vol::GetName,
    ) -> Result<afs_vol::GetNameReply<'static>, Refusal> {
        Err(NO_TRANSACTION)
    }

    async fn get_status(
        &self,
        _: &ServerCall,
        _: afs_vol::GetStatus,
    ) -> Result<afs_vol::GetStatusReply, Refusal> {
        Err(NO_TRANSACTION)
    }

    async fn get_size(&self, _: &ServerCall, _: afs_vol::GetSize) -> Result<afs_vol::GetSizeReply, Refusal> {
        Err(NO_TRANSACTION)
    }

    async fn restore(
        &self,
        _: &mut ServerCall,
        _: afs_vol::Restore,
    ) -> Result<afs_vol::RestoreReply, Refusal> {
        self.counters.changes_refused.increment();
        Err(Failure::Refused(VOLSERBAD_ACCESS))
    }

    async fn dump(&self, _: &mut ServerCall, _: afs_vol::Dump) -> Result<afs_vol::DumpReply, Refusal> {
        Err(NO_TRANSACTION)
    }

    async fn dump_v2(&self, _: &mut ServerCall, _: afs_vol::DumpV2) -> Result<afs_vol::DumpV2Reply, Refusal> {
        Err(NO_TRANSACTION)
    }

    refused! {
        VOLSERBAD_ACCESS,
        trans_create(afs_vol::TransCreate) -> afs_vol::TransCreateReply;
        create_volume(afs_vol::CreateVolume<'_>) -> afs_vol::CreateVolumeReply;
        delete_volume(afs_vol::DeleteVolume) -> afs_vol::DeleteVolumeReply;
        forward(afs_vol::Forward) -> afs_vol::ForwardReply;
        clone(afs_vol::Clone<'_>) -> afs_vol::CloneReply;
        set_flags(afs_vol::SetFlags) -> afs_vol::SetFlagsReply;
        set_forwarding(afs_vol::SetForwarding) -> afs_vol::SetForwardingReply;
        signal_restore(afs_vol::SignalRestore<'_>) -> afs_vol::SignalRestoreReply;
        set_ids_types(afs_vol::SetIdsTypes<'_>) -> afs_vol::SetIdsTypesReply;
        re_clone(afs_vol::ReClone) -> afs_vol::ReCloneReply;
        nuke_volume(afs_vol::NukeVolume) -> afs_vol::NukeVolumeReply;
        set_date(afs_vol::SetDate) -> afs_vol::SetDateReply;
        set_info(afs_vol::SetInfo) -> afs_vol::SetInfoReply;
        forward_multiple(afs_vol::ForwardMultiple) -> afs_vol::ForwardMultipleReply;
        convert_to_read_write(afs_vol::ConvertToReadWrite) -> afs_vol::ConvertToReadWriteReply;
    }
}

/// Refusal of an unknown transaction: what stock servers answer, a system call's number as it stands.
const NO_TRANSACTION: Refusal = Failure::Refused(ENOENT);
const ENOENT: i32 = 2;
const ENODEV: i32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_lettered_as_stock_servers_do() {
        for (index, name) in
            [(0, "/vicepa"), (25, "/vicepz"), (26, "/vicepaa"), (52, "/vicepba"), (254, "/vicepiu")]
        {
            assert_eq!(partition_name(index), name);
        }
    }

    #[test]
    fn room_beyond_32_bits_is_clipped_only_where_the_form_is_old() {
        let room = SystemStat {
            block_bytes: 4096,
            blocks: 1 << 40,
            blocks_free: 3,
            files: 0,
            files_free: 0,
            name_max: 255,
            compresses: false,
        };
        assert_eq!(room_of(&room), [1 << 42, 12]);
        assert_eq!(room_of(&room).map(clipped), [i32::MAX, 12]);
    }
}
