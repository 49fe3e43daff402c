//! Information of the POSIX extensions about a file: in a CREATE's answer, in FilePosixInformation, and of
//! each name of a listing ([SMB3 POSIX extensions](https://codeberg.org/SMB3UNIX/smb3_posix_spec)).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::security::Sid;
use crate::fixed::{prefix, wire};
use crate::malformed::Malformed;

wire! {
    /// FilePosixInformation up to where a CREATE's answer begins too; in listings it has eight bytes in front.
    pub struct PosixHead {
        creation_time: U64,
        last_access_time: U64,
        last_write_time: U64,
        change_time: U64,
        end_of_file: U64,
        allocation_size: U64,
        file_attributes: U32,
        index_number: U64,
        device: U32,
        reserved: U32,
    }
}

wire! {
    /// Fixed part of the POSIX context in a CREATE response; owner and group follow.
    pub struct PosixFixed {
        links: U32,
        reparse_tag: U32,
        mode: U32,
    }
}

/// The POSIX context of a CREATE response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posix {
    /// Names that lead to it.
    pub links: u32,
    /// Reparse tag of a link; 0 for other files.
    pub reparse_tag: u32,
    /// Permissions, as `chmod` has them; what kind of file it is in the bits above, see [`kind`].
    pub mode: u32,
    /// Owner of the file.
    pub owner: Sid,
    /// Group of the file.
    pub group: Sid,
}

/// Kinds of files in a mode. Linux before 6.14 adds the bits of files and directories by itself and would take those of
/// a directory for another kind, so both are sent without.
pub mod kind {
    /// A file or directory: its attributes tell which.
    pub const PLAIN: u32 = 0;
    /// A symbolic link.
    pub const SYMLINK: u32 = 2 << 12;
}

impl Posix {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let fixed = PosixFixed {
            links: self.links.into(),
            reparse_tag: self.reparse_tag.into(),
            mode: self.mode.into(),
        };
        out.extend(fixed.as_bytes());
        self.owner.write(out);
        self.group.write(out);
    }

    /// Reads one and what follows it.
    pub fn parse(data: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (fixed, data) = prefix::<PosixFixed>(data)?;
        let (owner, data) = Sid::parse(data)?;
        let (group, data) = Sid::parse(data)?;
        let posix = Self {
            links: fixed.links.get(),
            reparse_tag: fixed.reparse_tag.get(),
            mode: fixed.mode.get(),
            owner,
            group,
        };
        Ok((posix, data))
    }
}

/// Shortest entry of a listing without its name: with owners of no part.
pub(super) const ENTRY_MIN: usize = 8 + size_of::<PosixHead>() + size_of::<PosixFixed>() + 2 * 8 + 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_file_comes_back() {
        let posix = Posix {
            links: 2,
            reparse_tag: 0,
            mode: 0o644,
            owner: Sid::new(22, &[1, 1000]).unwrap(),
            group: Sid::new(22, &[2, 100]).unwrap(),
        };
        let mut out = Vec::new();
        posix.write(&mut out);
        assert_eq!(out.len(), 12 + 2 * 16, "as Linux reads it");
        assert_eq!(size_of::<PosixHead>(), 68);
        out.push(7);
        assert_eq!(Posix::parse(&out), Ok((posix, &[7][..])));
        assert!((0..out.len() - 1).all(|len| Posix::parse(&out[..len]).is_err()));
    }
}
