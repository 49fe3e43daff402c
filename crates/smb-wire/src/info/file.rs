//! Information of a file (MS-FSCC 2.4).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::{Plain, part, prefix, wire};
use crate::malformed::Malformed;
use crate::text::{Text, encode};

/// `FileInfoClass`.
pub mod class {
    /// FileDirectoryInformation: names with times and sizes.
    pub const DIRECTORY: u8 = 1;
    /// FileFullDirectoryInformation: names with times, sizes and the size of extended attributes.
    pub const FULL_DIRECTORY: u8 = 2;
    /// FileBothDirectoryInformation: as full directory information, with short names.
    pub const BOTH_DIRECTORY: u8 = 3;
    /// FileBasicInformation: times and attributes.
    pub const BASIC: u8 = 4;
    /// FileStandardInformation: sizes, number of links, whether deletion is pending.
    pub const STANDARD: u8 = 5;
    /// FileInternalInformation: the file's number.
    pub const INTERNAL: u8 = 6;
    /// FileEaInformation: the size of the extended attributes.
    pub const EA: u8 = 7;
    /// FileAccessInformation: rights of the open.
    pub const ACCESS: u8 = 8;
    /// FileNameInformation: the path.
    pub const NAME: u8 = 9;
    /// FileRenameInformation: renames the file.
    pub const RENAME: u8 = 10;
    /// FileLinkInformation: makes a hard link.
    pub const LINK: u8 = 11;
    /// FileNamesInformation: names alone.
    pub const NAMES: u8 = 12;
    /// FileDispositionInformation: marks the file to be deleted on close.
    pub const DISPOSITION: u8 = 13;
    /// FilePositionInformation: the byte offset of the open.
    pub const POSITION: u8 = 14;
    /// FileFullEaInformation: the extended attributes.
    pub const FULL_EA: u8 = 15;
    /// FileModeInformation: options of the open.
    pub const MODE: u8 = 16;
    /// FileAlignmentInformation: the alignment that buffers need.
    pub const ALIGNMENT: u8 = 17;
    /// FileAllInformation: nine classes in one.
    pub const ALL: u8 = 18;
    /// FileAllocationInformation: the bytes that are set aside.
    pub const ALLOCATION: u8 = 19;
    /// FileEndOfFileInformation: the length.
    pub const END_OF_FILE: u8 = 20;
    /// FileAlternateNameInformation: the short name.
    pub const ALTERNATE_NAME: u8 = 21;
    /// FileStreamInformation: the named streams.
    pub const STREAM: u8 = 22;
    /// FilePipeInformation: the mode in which a pipe is read.
    pub const PIPE: u8 = 23;
    /// FilePipeLocalInformation: the state of this end of a pipe.
    pub const PIPE_LOCAL: u8 = 24;
    /// FileCompressionInformation: the file's compression.
    pub const COMPRESSION: u8 = 28;
    /// FileNetworkOpenInformation: times, sizes and attributes.
    pub const NETWORK_OPEN: u8 = 34;
    /// FileAttributeTagInformation: attributes and the reparse tag.
    pub const ATTRIBUTE_TAG: u8 = 35;
    /// FileIdBothDirectoryInformation: [`BOTH_DIRECTORY`] with the file's number.
    pub const ID_BOTH_DIRECTORY: u8 = 37;
    /// FileIdFullDirectoryInformation: [`FULL_DIRECTORY`] with the file's number.
    pub const ID_FULL_DIRECTORY: u8 = 38;
    /// FileValidDataLengthInformation: the offset up to which data was written.
    pub const VALID_DATA_LENGTH: u8 = 39;
    /// FileShortNameInformation: sets a short name.
    pub const SHORT_NAME: u8 = 40;
    /// FileNormalizedNameInformation: the path in long names throughout.
    pub const NORMALIZED_NAME: u8 = 48;
    /// FileIdInformation: the volume's serial number and the file's number of 128 bits.
    pub const ID: u8 = 59;
    /// FileIdExtdDirectoryInformation: names with the number of 128 bits.
    pub const ID_EXTD_DIRECTORY: u8 = 60;
    /// FileIdExtdBothDirectoryInformation: [`ID_EXTD_DIRECTORY`] with short names.
    pub const ID_EXTD_BOTH_DIRECTORY: u8 = 63;
    /// FileDispositionInformationEx: marks the file to be deleted on close, or deletes its name at once.
    pub const DISPOSITION_EX: u8 = 64;
    /// FileRenameInformationEx: renames the file, with POSIX semantics if that is asked for.
    pub const RENAME_EX: u8 = 65;
    /// File information of POSIX (Samba's extension).
    pub const POSIX: u8 = 100;
}

wire! {
    /// FileBasicInformation, MS-FSCC 2.4.7. Times that are set: [`crate::time::SetTime`].
    pub struct BasicInformation {
        creation_time: U64,
        last_access_time: U64,
        last_write_time: U64,
        change_time: U64,
        /// 0 where it is set: leave them.
        file_attributes: U32,
        reserved: U32,
    }
}

wire! {
    /// FileStandardInformation, MS-FSCC 2.4.47.
    pub struct StandardInformation {
        allocation_size: U64,
        end_of_file: U64,
        number_of_links: U32,
        delete_pending: u8,
        directory: u8,
        reserved: U16,
    }
}

wire! {
    /// FileAllInformation without the name behind it, MS-FSCC 2.4.2.
    pub struct AllInformationFixed {
        basic: BasicInformation,
        standard: StandardInformation,
        index_number: U64,
        ea_size: U32,
        access_flags: U32,
        current_byte_offset: U64,
        mode: U32,
        alignment_requirement: U32,
        file_name_length: U32,
    }
}

wire! {
    /// FileNetworkOpenInformation, MS-FSCC 2.4.34.
    pub struct NetworkOpenInformation {
        creation_time: U64,
        last_access_time: U64,
        last_write_time: U64,
        change_time: U64,
        allocation_size: U64,
        end_of_file: U64,
        file_attributes: U32,
        reserved: U32,
    }
}

wire! {
    /// FileAttributeTagInformation, MS-FSCC 2.4.6.
    pub struct AttributeTagInformation {
        file_attributes: U32,
        reparse_tag: U32,
    }
}

wire! {
    /// FileCompressionInformation, MS-FSCC 2.4.9.
    pub struct CompressionInformation {
        compressed_file_size: U64,
        compression_format: U16,
        compression_unit_shift: u8,
        chunk_shift: u8,
        cluster_shift: u8,
        reserved: [u8; 3],
    }
}

wire! {
    /// FileIdInformation, MS-FSCC 2.4.26.
    pub struct IdInformation {
        volume_serial_number: U64,
        file_id: [u8; 16],
    }
}

wire! {
    /// FilePipeLocalInformation, MS-FSCC 2.4.38.
    pub struct PipeLocalInformation {
        named_pipe_type: U32,
        named_pipe_configuration: U32,
        maximum_instances: U32,
        current_instances: U32,
        inbound_quota: U32,
        read_data_available: U32,
        outbound_quota: U32,
        write_quota_available: U32,
        named_pipe_state: U32,
        named_pipe_end: U32,
    }
}

/// Bits of FileDispositionInformationEx (MS-FSCC 2.4.12).
pub mod disposition {
    /// The file is removed.
    pub const DELETE: u32 = 0x01;
    /// The name goes when the open that says so is closed, though others have the file open.
    pub const POSIX_SEMANTICS: u32 = 0x02;
    /// The file is not removed while it is mapped as a program.
    pub const FORCE_IMAGE_SECTION_CHECK: u32 = 0x04;
    /// FILE_DISPOSITION_ON_CLOSE: sets or clears deletion when the open is closed.
    pub const ON_CLOSE: u32 = 0x08;
    /// Though it is not to be written.
    pub const IGNORE_READONLY: u32 = 0x10;
    /// All flags of the class.
    pub const ALL: u32 = DELETE | POSIX_SEMANTICS | FORCE_IMAGE_SECTION_CHECK | ON_CLOSE | IGNORE_READONLY;
}

wire! {
    /// Fixed part of FileRenameInformation and FileLinkInformation as they travel in SMB2, MS-FSCC 2.4.42.2, 2.4.28.2.
    pub struct RenameFixed {
        /// 0 or 1; bits in FileRenameInformationEx (1: replace; 2: as POSIX does).
        flags: U32,
        reserved: U32,
        root_directory: U64,
        file_name_length: U32,
    }
}

/// Input of a rename, or of a new hard link, of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    /// Set if it replaces what has the name.
    pub replace: bool,
    /// Flags of the request, for the Ex class.
    pub flags: u32,
    /// Path from the share's root, or a stream's name behind a colon.
    pub name: Text<'a>,
}

impl<'a> Rename<'a> {
    /// Parses SET_INFO's data.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let (fixed, rest) = prefix::<RenameFixed>(data)?;
        //= MS-FSCC 2.4.42.2
        //# RootDirectory is zero in network operations.
        if fixed.root_directory != U64::ZERO {
            return Err(Malformed::Value);
        }
        let name = rest.get(..fixed.file_name_length.get() as usize).ok_or(Malformed::Offset)?;
        let flags = fixed.flags.get();
        // Only the first byte is the boolean; what follows it may be anything.
        Ok(Self { replace: flags & 0xff != 0, flags, name: Text::new(name)? })
    }
}

/// Returns `data` as the structure that a class of fixed length is; a longer one is cut (MS-FSA asks only for enough).
pub fn plain<T: Plain>(data: &[u8]) -> Result<&T, Malformed> {
    T::ref_from_prefix(data).map(|(value, _)| value).map_err(|_| Malformed::Short)
}

/// Appends a name with its length in front: FileNameInformation, FileNormalizedNameInformation and
/// FileAlternateNameInformation (MS-FSCC 2.1.7).
pub fn write_name(name: &str, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend([0; 4]);
    encode(name, out);
    let len = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

/// Parses a name with its length in front.
pub fn parse_name(data: &[u8]) -> Result<Text<'_>, Malformed> {
    let (len, _) = prefix::<U32>(data)?;
    Text::new(part(data, 4, len.get() as usize)?)
}

/// Appends FileAllInformation.
pub fn write_all(mut fixed: AllInformationFixed, name: &str, out: &mut Vec<u8>) {
    fixed.file_name_length.set(2 * name.encode_utf16().count() as u32);
    out.extend(fixed.as_bytes());
    encode(name, out);
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn classes_have_the_sizes_of_the_specification() {
        assert_eq!(size_of::<BasicInformation>(), 40);
        assert_eq!(size_of::<StandardInformation>(), 24);
        assert_eq!(size_of::<AllInformationFixed>(), 100);
        assert_eq!(size_of::<NetworkOpenInformation>(), 56);
        assert_eq!(size_of::<CompressionInformation>(), 16);
        assert_eq!(size_of::<IdInformation>(), 24);
        assert_eq!(size_of::<PipeLocalInformation>(), 40);
        assert_eq!(size_of::<RenameFixed>(), 20);
    }

    #[test]
    fn a_new_name_is_read_with_its_flags_and_lies_are_refused() {
        let name = crate::text::encoded("b");
        let fixed =
            RenameFixed { flags: 0xaa00.into(), file_name_length: 2.into(), ..RenameFixed::new_zeroed() };
        let rename = |fixed: RenameFixed| {
            Rename::parse(&[fixed.as_bytes(), &name].concat()).map(|rename| rename.replace)
        };
        assert_eq!(rename(fixed), Ok(false));
        assert_eq!(rename(RenameFixed { flags: 1.into(), ..fixed }), Ok(true));
        assert_eq!(rename(RenameFixed { root_directory: 1.into(), ..fixed }), Err(Malformed::Value));
        assert_eq!(rename(RenameFixed { file_name_length: 3.into(), ..fixed }), Err(Malformed::Offset));
        assert_eq!(rename(RenameFixed { file_name_length: 1.into(), ..fixed }), Err(Malformed::OddText));
        assert_eq!(Rename::parse(&[0; 19]), Err(Malformed::Short));
    }

    #[test]
    fn names_carry_their_length() {
        let mut out = Vec::new();
        write_name("ab", &mut out);
        assert_eq!(parse_name(&out).unwrap().lossy(), "ab");
        assert_eq!(parse_name(&out[..7]), Err(Malformed::Offset));
        out.clear();
        write_all(AllInformationFixed::new_zeroed(), "abc", &mut out);
        assert_eq!((out.len(), out[96]), (106, 6));
        assert_eq!(plain::<BasicInformation>(&out).unwrap().file_attributes.get(), 0);
        assert_eq!(plain::<U64>(&out[..7]), Err(Malformed::Short));
    }
}
