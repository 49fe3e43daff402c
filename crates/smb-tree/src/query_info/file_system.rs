//! Information about a share's file system (MS-FSCC 2.5).

use std::sync::Arc;

use lane::fs::SystemStat;
use smb_wire::Status;
use smb_wire::info::file_system::{
    AttributeFixed, ControlInformation, DeviceInformation, FullSizeInformation, ObjectIdInformation,
    PosixInformation, SectorSizeInformation, SizeInformation, VolumeFixed, attribute, class, sectors,
    write_attribute, write_volume,
};
use zerocopy::{FromZeros, IntoBytes};

use super::cut;
use crate::Answer;
use crate::attributes::{Info, UNIT_BYTES};
use crate::open::Open;
use crate::request_context::RequestContext;
use crate::share::Share;
use crate::status;

impl Share {
    pub(super) async fn query_file_system(
        &self,
        ctx: &RequestContext,
        open: &Arc<Open>,
        class: u8,
        len_max: usize,
    ) -> Result<Answer, Status> {
        let handle = self.handle(ctx, open).await?;
        let info = self.info(&handle, None).await?;
        let mut output = Vec::new();
        match class {
            class::VOLUME => {
                write_volume(info.created, serial(&info), self.name(), &mut output);
                return cut(output, size_of::<VolumeFixed>().next_multiple_of(8), len_max);
            }
            class::ATTRIBUTE => {
                write_attribute(self.abilities().await, COMPONENT_MAX, FILE_SYSTEM, &mut output);
                return cut(output, size_of::<AttributeFixed>().next_multiple_of(8), len_max);
            }
            class::SIZE => output.extend(self.size().await?.as_bytes()),
            class::FULL_SIZE => output.extend(self.full_size().await?.as_bytes()),
            class::DEVICE => {
                let read_only = if self.is_read_only() { DEVICE_READ_ONLY } else { 0 };
                let device = DeviceInformation {
                    device_type: DEVICE_DISK.into(),
                    characteristics: (DEVICE_MOUNTED | read_only).into(),
                };
                output.extend(device.as_bytes());
            }
            // There is no quota of Windows' kind: nothing is filtered, and nothing limited.
            class::CONTROL => {
                let unlimited = ControlInformation {
                    default_quota_threshold: u64::MAX.into(),
                    default_quota_limit: u64::MAX.into(),
                    ..ControlInformation::new_zeroed()
                };
                output.extend(unlimited.as_bytes());
            }
            class::OBJECT_ID => {
                let mut id = ObjectIdInformation::new_zeroed();
                id.object_id[..8].copy_from_slice(&info.device.to_le_bytes());
                id.object_id[8..12].copy_from_slice(&serial(&info).to_le_bytes());
                output.extend(id.as_bytes());
            }
            class::SECTOR_SIZE => output.extend(sector_size().as_bytes()),
            class::POSIX if ctx.posix => output.extend(self.posix(&info).await?.as_bytes()),
            _ => return Err(Status::INVALID_INFO_CLASS),
        }
        let len = output.len();
        cut(output, len, len_max)
    }

    /// Returns what clients may count on.
    async fn abilities(&self) -> u32 {
        let read_only = if self.is_read_only() { attribute::READ_ONLY_VOLUME } else { 0 };
        //= MS-FSCC 2.5.1
        //# FILE_SUPPORTS_BLOCK_REFCOUNTING: extents may be shared between files.
        let shared = if self.shares_room().await { attribute::SUPPORTS_BLOCK_REFCOUNTING } else { 0 };
        //= MS-FSCC 2.5.1
        //# FILE_FILE_COMPRESSION: files can be compressed one by one.
        let compressed = if self.compresses().await { attribute::FILE_COMPRESSION } else { 0 };
        read_only
            | shared
            | compressed
            | attribute::CASE_SENSITIVE_SEARCH
            | attribute::CASE_PRESERVED_NAMES
            | attribute::UNICODE_ON_DISK
            | attribute::PERSISTENT_ACLS
            | attribute::SUPPORTS_SPARSE_FILES
            | attribute::SUPPORTS_REPARSE_POINTS
            | attribute::SUPPORTS_OBJECT_IDS
            | attribute::NAMED_STREAMS
            | attribute::SUPPORTS_HARD_LINKS
            | attribute::SUPPORTS_EXTENDED_ATTRIBUTES
    }

    /// Returns the room of the file system, in units of [`UNIT_BYTES`].
    async fn units(&self) -> Result<(u64, u64), Status> {
        let room = self.room().await?;
        let of = |blocks: u64| blocks.saturating_mul(room.block_bytes) / UNIT_BYTES;
        Ok((of(room.blocks), of(room.blocks_free)))
    }

    async fn room(&self) -> Result<SystemStat, Status> {
        self.volume().room().await.map_err(status::of)
    }

    /// Checks whether so much more may be set aside, before that is tried: a file system with too little of
    /// it keeps what it had for the file (ext4), and others have nothing left.
    ///
    /// # Errors
    /// `STATUS_DISK_FULL`.
    pub(crate) async fn has_room_for(&self, bytes: u64) -> Result<(), Status> {
        let room = self.room().await?;
        let free = room.blocks_free.saturating_mul(room.block_bytes);
        // One without blocks says nothing of its room.
        if room.blocks > 0 && bytes > free { Err(Status::DISK_FULL) } else { Ok(()) }
    }

    async fn size(&self) -> Result<SizeInformation, Status> {
        let (total, free) = self.units().await?;
        let (sectors_per_allocation_unit, bytes_per_sector) = sectors(UNIT_BYTES as u32);
        Ok(SizeInformation {
            total_allocation_units: total.into(),
            available_allocation_units: free.into(),
            sectors_per_allocation_unit,
            bytes_per_sector,
        })
    }

    async fn full_size(&self) -> Result<FullSizeInformation, Status> {
        let (total, free) = self.units().await?;
        let (sectors_per_allocation_unit, bytes_per_sector) = sectors(UNIT_BYTES as u32);
        Ok(FullSizeInformation {
            total_allocation_units: total.into(),
            caller_available_allocation_units: free.into(),
            actual_available_allocation_units: free.into(),
            sectors_per_allocation_unit,
            bytes_per_sector,
        })
    }

    async fn posix(&self, info: &Info) -> Result<PosixInformation, Status> {
        let room = self.room().await?;
        Ok(PosixInformation {
            optimal_transfer_size: (room.block_bytes as u32).into(),
            block_size: (room.block_bytes as u32).into(),
            total_blocks: room.blocks.into(),
            blocks_available: room.blocks_free.into(),
            user_blocks_available: room.blocks_free.into(),
            total_file_nodes: room.files.into(),
            free_file_nodes: room.files_free.into(),
            file_system_identifier: info.device.into(),
        })
    }
}

fn serial(info: &Info) -> u32 {
    (info.device ^ info.device >> 32) as u32
}

fn sector_size() -> SectorSizeInformation {
    SectorSizeInformation {
        logical_bytes_per_sector: 512.into(),
        physical_bytes_per_sector_for_atomicity: 4096.into(),
        physical_bytes_per_sector_for_performance: 4096.into(),
        effective_physical_bytes_per_sector_for_atomicity: 4096.into(),
        flags: SECTORS_ALIGNED.into(),
        byte_offset_for_sector_alignment: 0.into(),
        byte_offset_for_partition_alignment: 0.into(),
    }
}

const COMPONENT_MAX: u32 = 255;
/// Name of the file system by which clients expect streams and access lists.
const FILE_SYSTEM: &str = "NTFS";
const DEVICE_DISK: u32 = 7;
const DEVICE_MOUNTED: u32 = 0x20;
const DEVICE_READ_ONLY: u32 = 2;
/// Partitions and sectors.
const SECTORS_ALIGNED: u32 = 3;
