//! Rights, attributes and share modes as SMB names them (MS-SMB2 2.2.13, 2.2.13.1, MS-FSCC 2.6).

/// Bits of an access mask.
pub mod rights {
    /// FILE_READ_DATA, FILE_LIST_DIRECTORY: read data, list names.
    pub const READ_DATA: u32 = 0x0000_0001;
    /// FILE_WRITE_DATA, FILE_ADD_FILE: write data, make files.
    pub const WRITE_DATA: u32 = 0x0000_0002;
    /// FILE_APPEND_DATA, FILE_ADD_SUBDIRECTORY: append data, make directories.
    pub const APPEND_DATA: u32 = 0x0000_0004;
    /// FILE_READ_EA: read extended attributes.
    pub const READ_EA: u32 = 0x0000_0008;
    /// FILE_WRITE_EA: write extended attributes.
    pub const WRITE_EA: u32 = 0x0000_0010;
    /// FILE_EXECUTE, FILE_TRAVERSE: execute a file, pass through a directory.
    pub const EXECUTE: u32 = 0x0000_0020;
    /// FILE_DELETE_CHILD: delete what is in a directory.
    pub const DELETE_CHILD: u32 = 0x0000_0040;
    /// FILE_READ_ATTRIBUTES: read attributes.
    pub const READ_ATTRIBUTES: u32 = 0x0000_0080;
    /// FILE_WRITE_ATTRIBUTES: write attributes.
    pub const WRITE_ATTRIBUTES: u32 = 0x0000_0100;
    /// Remove.
    pub const DELETE: u32 = 0x0001_0000;
    /// READ_CONTROL: read owner, group and access list.
    pub const READ_CONTROL: u32 = 0x0002_0000;
    /// WRITE_DAC: write the access list.
    pub const WRITE_DAC: u32 = 0x0004_0000;
    /// WRITE_OWNER: write the owner.
    pub const WRITE_OWNER: u32 = 0x0008_0000;
    /// SYNCHRONIZE: wait for the file.
    pub const SYNCHRONIZE: u32 = 0x0010_0000;
    /// ACCESS_SYSTEM_SECURITY: read and write the audit list.
    pub const ACCESS_SYSTEM_SECURITY: u32 = 0x0100_0000;
    /// MAXIMUM_ALLOWED: all rights that the caller has.
    pub const MAXIMUM_ALLOWED: u32 = 0x0200_0000;
    /// GENERIC_ALL: all rights.
    pub const GENERIC_ALL: u32 = 0x1000_0000;
    /// GENERIC_EXECUTE: the rights that executing takes.
    pub const GENERIC_EXECUTE: u32 = 0x2000_0000;
    /// GENERIC_WRITE: the rights that writing takes.
    pub const GENERIC_WRITE: u32 = 0x4000_0000;
    /// GENERIC_READ: the rights that reading takes.
    pub const GENERIC_READ: u32 = 0x8000_0000;
    /// Every right of a file.
    pub const FILE_ALL: u32 = 0x001f_01ff;
    /// The rights that [`GENERIC_READ`] means for a file.
    pub const FILE_READ: u32 = READ_DATA | READ_EA | READ_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE;
    /// The rights that [`GENERIC_WRITE`] means for a file.
    pub const FILE_WRITE: u32 =
        WRITE_DATA | APPEND_DATA | WRITE_EA | WRITE_ATTRIBUTES | READ_CONTROL | SYNCHRONIZE;
    /// The rights that [`GENERIC_EXECUTE`] means for a file.
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
    /// FILE_ATTRIBUTE_READONLY: the file must not be written.
    pub const READONLY: u32 = 0x0000_0001;
    /// FILE_ATTRIBUTE_HIDDEN: the file is not shown.
    pub const HIDDEN: u32 = 0x0000_0002;
    /// FILE_ATTRIBUTE_SYSTEM: the file belongs to the operating system.
    pub const SYSTEM: u32 = 0x0000_0004;
    /// FILE_ATTRIBUTE_DIRECTORY: a directory.
    pub const DIRECTORY: u32 = 0x0000_0010;
    /// FILE_ATTRIBUTE_ARCHIVE: the file was changed since the last backup.
    pub const ARCHIVE: u32 = 0x0000_0020;
    /// FILE_ATTRIBUTE_NORMAL: no other attribute is set.
    pub const NORMAL: u32 = 0x0000_0080;
    /// FILE_ATTRIBUTE_TEMPORARY: the file is not kept long.
    pub const TEMPORARY: u32 = 0x0000_0100;
    /// FILE_ATTRIBUTE_SPARSE_FILE: the file has holes.
    pub const SPARSE_FILE: u32 = 0x0000_0200;
    /// FILE_ATTRIBUTE_REPARSE_POINT: a symbolic link or another reparse point.
    pub const REPARSE_POINT: u32 = 0x0000_0400;
    /// FILE_ATTRIBUTE_COMPRESSED: the file is compressed.
    pub const COMPRESSED: u32 = 0x0000_0800;
    /// FILE_ATTRIBUTE_OFFLINE: the data is not at hand.
    pub const OFFLINE: u32 = 0x0000_1000;
    /// FILE_ATTRIBUTE_NOT_CONTENT_INDEXED: the content is not to be indexed.
    pub const NOT_CONTENT_INDEXED: u32 = 0x0000_2000;
    /// FILE_ATTRIBUTE_ENCRYPTED: the file is encrypted.
    pub const ENCRYPTED: u32 = 0x0000_4000;
}

/// Returns a mask with its generic rights spelled out for files and directories (MS-SMB2 2.2.13.1).
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
