//! Information of the file system (MS-FSCC 2.5).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use crate::fixed::wire;
use crate::text::encode;

/// `FileInfoClass` where the file system is asked about.
pub mod class {
    /// FileFsVolumeInformation: label and time of creation.
    pub const VOLUME: u8 = 1;
    /// FileFsSizeInformation: total and free size.
    pub const SIZE: u8 = 3;
    /// FileFsDeviceInformation: the kind of device.
    pub const DEVICE: u8 = 4;
    /// FileFsAttributeInformation: the file system's features.
    pub const ATTRIBUTE: u8 = 5;
    /// FileFsControlInformation: quotas.
    pub const CONTROL: u8 = 6;
    /// FileFsFullSizeInformation: total and free size, for the caller and in all.
    pub const FULL_SIZE: u8 = 7;
    /// FileFsObjectIdInformation: the volume's id.
    pub const OBJECT_ID: u8 = 8;
    /// FileFsSectorSizeInformation: sector sizes.
    pub const SECTOR_SIZE: u8 = 11;
    /// File system information of POSIX (Samba's extension).
    pub const POSIX: u8 = 100;
}

/// Bits of FileFsAttributeInformation.
pub mod attribute {
    /// FILE_CASE_SENSITIVE_SEARCH: names are distinguished by case.
    pub const CASE_SENSITIVE_SEARCH: u32 = 0x0000_0001;
    /// FILE_CASE_PRESERVED_NAMES: names keep their case.
    pub const CASE_PRESERVED_NAMES: u32 = 0x0000_0002;
    /// FILE_UNICODE_ON_DISK: names are Unicode.
    pub const UNICODE_ON_DISK: u32 = 0x0000_0004;
    /// FILE_PERSISTENT_ACLS: access lists are kept.
    pub const PERSISTENT_ACLS: u32 = 0x0000_0008;
    /// FILE_FILE_COMPRESSION: single files can be compressed.
    pub const FILE_COMPRESSION: u32 = 0x0000_0010;
    /// FILE_SUPPORTS_SPARSE_FILES: files can have holes.
    pub const SUPPORTS_SPARSE_FILES: u32 = 0x0000_0040;
    /// FILE_SUPPORTS_REPARSE_POINTS: reparse points such as symbolic links exist.
    pub const SUPPORTS_REPARSE_POINTS: u32 = 0x0000_0080;
    /// FILE_SUPPORTS_OBJECT_IDS: files have object ids.
    pub const SUPPORTS_OBJECT_IDS: u32 = 0x0001_0000;
    /// FILE_NAMED_STREAMS: files have named streams.
    pub const NAMED_STREAMS: u32 = 0x0004_0000;
    /// FILE_READ_ONLY_VOLUME: nothing can be changed.
    pub const READ_ONLY_VOLUME: u32 = 0x0008_0000;
    /// FILE_SUPPORTS_HARD_LINKS: files can have several names.
    pub const SUPPORTS_HARD_LINKS: u32 = 0x0040_0000;
    /// FILE_SUPPORTS_EXTENDED_ATTRIBUTES: files have extended attributes.
    pub const SUPPORTS_EXTENDED_ATTRIBUTES: u32 = 0x0080_0000;
    /// FILE_SUPPORTS_OPEN_BY_FILE_ID: files can be opened by number.
    pub const SUPPORTS_OPEN_BY_FILE_ID: u32 = 0x0100_0000;
    /// FILE_SUPPORTS_BLOCK_REFCOUNTING: files can share extents.
    pub const SUPPORTS_BLOCK_REFCOUNTING: u32 = 0x0800_0000;
}

wire! {
    /// FileFsSizeInformation, MS-FSCC 2.5.8.
    pub struct SizeInformation {
        total_allocation_units: U64,
        available_allocation_units: U64,
        sectors_per_allocation_unit: U32,
        bytes_per_sector: U32,
    }
}

wire! {
    /// FileFsFullSizeInformation, MS-FSCC 2.5.4.
    pub struct FullSizeInformation {
        total_allocation_units: U64,
        caller_available_allocation_units: U64,
        actual_available_allocation_units: U64,
        sectors_per_allocation_unit: U32,
        bytes_per_sector: U32,
    }
}

wire! {
    /// FileFsDeviceInformation, MS-FSCC 2.5.10: a disk is device 7, a pipe 0x11.
    pub struct DeviceInformation {
        device_type: U32,
        /// 0x20: mounted.
        characteristics: U32,
    }
}

wire! {
    /// FileFsControlInformation, MS-FSCC 2.5.2.
    pub struct ControlInformation {
        free_space_start_filtering: U64,
        free_space_threshold: U64,
        free_space_stop_filtering: U64,
        default_quota_threshold: U64,
        default_quota_limit: U64,
        flags: U32,
        padding: U32,
    }
}

wire! {
    /// FileFsObjectIdInformation, MS-FSCC 2.5.6.
    pub struct ObjectIdInformation {
        object_id: [u8; 16],
        extended_info: [[u8; 16]; 3],
    }
}

wire! {
    /// FileFsSectorSizeInformation, MS-FSCC 2.5.7. Linux's client asks for it at mount.
    pub struct SectorSizeInformation {
        logical_bytes_per_sector: U32,
        physical_bytes_per_sector_for_atomicity: U32,
        physical_bytes_per_sector_for_performance: U32,
        effective_physical_bytes_per_sector_for_atomicity: U32,
        /// 1: partitions are aligned; 2: sectors are; 4: no seek penalty; 8: trimmed.
        flags: U32,
        byte_offset_for_sector_alignment: U32,
        byte_offset_for_partition_alignment: U32,
    }
}

wire! {
    /// Fixed part of FileFsVolumeInformation, MS-FSCC 2.5.9.
    pub struct VolumeFixed {
        volume_creation_time: U64,
        volume_serial_number: U32,
        volume_label_length: U32,
        supports_objects: u8,
        reserved: u8,
    }
}

wire! {
    /// Fixed part of FileFsAttributeInformation, MS-FSCC 2.5.1.
    pub struct AttributeFixed {
        attributes: U32,
        maximum_component_name_length: U32,
        file_system_name_length: U32,
    }
}

wire! {
    /// File system information of POSIX: Samba's class 100.
    pub struct PosixInformation {
        optimal_transfer_size: U32,
        block_size: U32,
        total_blocks: U64,
        blocks_available: U64,
        user_blocks_available: U64,
        total_file_nodes: U64,
        free_file_nodes: U64,
        file_system_identifier: U64,
    }
}

/// Appends FileFsVolumeInformation.
pub fn write_volume(created: u64, serial: u32, label: &str, out: &mut Vec<u8>) {
    let fixed = VolumeFixed {
        volume_creation_time: created.into(),
        volume_serial_number: serial.into(),
        volume_label_length: U32::new(2 * label.encode_utf16().count() as u32),
        supports_objects: 0,
        reserved: 0,
    };
    out.extend(fixed.as_bytes());
    encode(label, out);
}

/// Appends FileFsAttributeInformation: bits of [`attribute`], longest component, and a name that clients decide by
/// ("NTFS" is what they know streams and access lists by).
pub fn write_attribute(attributes: u32, component_max: u32, name: &str, out: &mut Vec<u8>) {
    let fixed = AttributeFixed {
        attributes: attributes.into(),
        maximum_component_name_length: component_max.into(),
        file_system_name_length: U32::new(2 * name.encode_utf16().count() as u32),
    };
    out.extend(fixed.as_bytes());
    encode(name, out);
}

/// Returns what an answer longer than its buffer is cut to, and what that is called (MS-SMB2 3.3.5.20.2): a
/// fixed part that does not fit is an error, a name that does not fit is cut.
pub fn cut(out: &mut Vec<u8>, begin: usize, fixed_len: usize, len_max: usize) -> crate::Status {
    let len = out.len() - begin;
    if len_max < fixed_len {
        out.truncate(begin);
        return crate::Status::INFO_LENGTH_MISMATCH;
    }
    out.truncate(begin + len.min(len_max));
    if len > len_max { crate::Status::BUFFER_OVERFLOW } else { crate::Status::SUCCESS }
}

/// Returns the bytes of a sector and sectors of a unit that say `block_len`, which is a power of two from 512 up.
pub fn sectors(block_len: u32) -> (U32, U32) {
    (U32::new((block_len / 512).max(1)), U32::new(512))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    #[test]
    fn classes_have_the_sizes_of_the_specification() {
        assert_eq!(size_of::<SizeInformation>(), 24);
        assert_eq!(size_of::<FullSizeInformation>(), 32);
        assert_eq!(size_of::<ControlInformation>(), 48);
        assert_eq!(size_of::<ObjectIdInformation>(), 64);
        assert_eq!(size_of::<SectorSizeInformation>(), 28);
        assert_eq!(size_of::<VolumeFixed>(), 18);
        assert_eq!(size_of::<PosixInformation>(), 56);
    }

    #[test]
    fn a_long_label_is_cut_and_a_short_buffer_refused() {
        let mut out = vec![9];
        write_volume(1, 2, "label", &mut out);
        assert_eq!(out.len(), 1 + 18 + 10);
        assert_eq!(cut(&mut out, 1, 18, 28), Status::SUCCESS);
        assert_eq!(cut(&mut out, 1, 18, 20), Status::BUFFER_OVERFLOW);
        assert_eq!(out.len(), 21);
        assert_eq!(cut(&mut out, 1, 18, 17), Status::INFO_LENGTH_MISMATCH);
        assert_eq!(out, [9]);
        write_attribute(attribute::NAMED_STREAMS, 255, "NTFS", &mut out);
        assert_eq!(out.len(), 1 + 12 + 8);
        assert_eq!(sectors(4096), (U32::new(8), U32::new(512)));
    }
}
