//! Rights, attributes and share modes as SMB names them (MS-SMB2 2.2.13, 2.2.13.1, MS-FSCC 2.6).

/// Bits of an access mask.
pub mod rights {
    /// Read data; list names.
    pub const READ_DATA: u32 = 0x0000_0001;
    /// Write data; make files.
    pub const WRITE_DATA: u32 = 0x0000_0002;
    /// Append; make directories.
    pub const APPEND_DATA: u32 = 0x0000_0004;
    /// Read extended attributes.
    pub const READ_EA: u32 = 0x0000_0008;
    /// Write extended attributes.
    pub const WRITE_EA: u32 = 0x0000_0010;
    /// Execute; pass through.
    pub const EXECUTE: u32 = 0x0000_0020;
    /// Remove what is in a directory.
    pub const DELETE_CHILD: u32 = 0x0000_0040;
    /// Read attributes.
    pub const READ_ATTRIBUTES: u32 = 0x0000_0080;
    /// Write attributes.
    pub const WRITE_ATTRIBUTES: u32 = 0x0000_0100;
    /// Remove.
    pub const DELETE: u32 = 0x0001_0000;
    /// Read owner, group and list.
    pub const READ_CONTROL: u32 = 0x0002_0000;
    /// Write the list.
    pub const WRITE_DAC: u32 = 0x0004_0000;
    /// Write the owner.
    pub const WRITE_OWNER: u32 = 0x0008_0000;
    /// Wait for the file.
    pub const SYNCHRONIZE: u32 = 0x0010_0000;
    /// Read and write the audit list.
    pub const ACCESS_SYSTEM_SECURITY: u32 = 0x0100_0000;
    /// Whatever the asker may.
    pub const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
    /// All that there is.
    pub const GENERIC_ALL: u32 = 0x1000_0000;
    /// What executing takes.
    pub const GENERIC_EXECUTE: u32 = 0x2000_0000;
    /// What writing takes.
    pub const GENERIC_WRITE: u32 = 0x4000_0000;
    /// What reading takes.
    pub const GENERIC_READ: u32 = 0x8000_0000;
    /// Every right of a file.
    pub const FILE_ALL: u32 = 0x001f_01ff;
    /// What [`GENERIC_READ`] is of a file.
    pub const FILE_READ: u32 = READ_DATA | READ_EA | READ_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE;
    /// What [`GENERIC_WRITE`] is of a file.
    pub const FILE_WRITE: u32 =
        WRITE_DATA | APPEND_DATA | WRITE_EA | WRITE_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE;
    /// What [`GENERIC_EXECUTE`] is of a file.
    pub const FILE_EXECUTE: u32 = EXECUTE | READ_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE;
    /// Bits that no mask may have.
    pub const RESERVED: u32 = 0x0ce0_fe00;
}

/// Bits of `ShareAccess`: what others may do meanwhile.
pub mod share {
    /// Read.
    pub const READ: u32 = 1;
    /// Write.
    pub const WRITE: u32 = 2;
    /// Remove and rename.
    pub const DELETE: u32 = 4;
    /// All three; other bits are not allowed.
    pub const ALL: u32 = READ | WRITE | DELETE;
}

/// Bits of `FileAttributes` (MS-FSCC 2.6).
pub mod attributes {
    /// Not to be written.
    pub const READONLY: u32 = 0x0000_0001;
    /// Not shown.
    pub const HIDDEN: u32 = 0x0000_0002;
    /// The system's.
    pub const SYSTEM: u32 = 0x0000_0004;
    /// A directory.
    pub const DIRECTORY: u32 = 0x0000_0010;
    /// Changed since the last backup.
    pub const ARCHIVE: u32 = 0x0000_0020;
    /// None of the others.
    pub const NORMAL: u32 = 0x0000_0080;
    /// Not kept long.
    pub const TEMPORARY: u32 = 0x0000_0100;
    /// With holes.
    pub const SPARSE_FILE: u32 = 0x0000_0200;
    /// A link, or something else of that kind.
    pub const REPARSE_POINT: u32 = 0x0000_0400;
    /// Compressed.
    pub const COMPRESSED: u32 = 0x0000_0800;
    /// Its data is far away.
    pub const OFFLINE: u32 = 0x0000_1000;
    /// Not for the index of contents.
    pub const NOT_CONTENT_INDEXED: u32 = 0x0000_2000;
    /// Encrypted.
    pub const ENCRYPTED: u32 = 0x0000_4000;
}

/// A mask with its generic rights spelled out for files and directories (MS-SMB2 2.2.13.1).
pub fn expand_generic(mask: u32) -> u32 {
    let mut expanded = mask
        & !(rights::GENERIC_ALL | rights::GENERIC_EXECUTE | rights::GENERIC_WRITE | rights::GENERIC_READ);
    for (generic, specific) in [
        (rights::GENERIC_ALL, rights::FILE_ALL),
        (rights::GENERIC_EXECUTE, rights::FILE_EXECUTE),
        (rights::GENERIC_WRITE, rights::FILE_WRITE),
        (rights::GENERIC_READ, rights::FILE_READ),
    ] {
        if mask & generic != 0 {
            expanded |= specific;
        }
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_rights_are_those_of_windows() {
        assert_eq!(expand_generic(rights::GENERIC_READ), 0x0012_0089);
        assert_eq!(expand_generic(rights::GENERIC_WRITE), 0x0012_0116);
        assert_eq!(expand_generic(rights::GENERIC_EXECUTE), 0x0012_00a0);
        assert_eq!(expand_generic(rights::GENERIC_ALL | rights::MAXIMUM_ALLOWED), 0x021f_01ff);
        assert_eq!(expand_generic(rights::DELETE), rights::DELETE);
    }
}
