//! Links: FSCTL_GET_REPARSE_POINT and FSCTL_SET_REPARSE_POINT (MS-FSCC 2.1.2).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::fixed::{part, prefix, wire};
use crate::malformed::Malformed;
use crate::text::{Text, encoded};

/// `ReparseTag` of symbolic links.
pub const SYMLINK: u32 = 0xa000_000c;
/// `ReparseTag` of what NFS servers keep: links, devices, sockets.
pub const NFS: u32 = 0x8000_0014;
/// Longest buffer, bytes.
pub const REPARSE_MAX: usize = 16 << 10;

const RELATIVE: u32 = 1;

wire! {
    /// Head of every buffer, MS-FSCC 2.1.2.2.
    pub struct ReparseHead {
        tag: U32,
        data_length: U16,
        reserved: U16,
    }
}

wire! {
    /// Fixed part of a symbolic link's, MS-FSCC 2.1.2.4.
    pub struct SymlinkFixed {
        substitute_name_offset: U16,
        substitute_name_length: U16,
        print_name_offset: U16,
        print_name_length: U16,
        flags: U32,
    }
}

/// A symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symlink {
    /// Target of the link, with backslashes.
    pub target: String,
    /// Set if the target is relative to the directory that the link is in.
    pub relative: bool,
}

/// Parses the tag of a buffer and its data, whose length must be what it says.
pub fn parse(buffer: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    if buffer.len() > REPARSE_MAX {
        return Err(Malformed::Count);
    }
    let (head, data) = prefix::<ReparseHead>(buffer)?;
    if usize::from(head.data_length.get()) != data.len() {
        return Err(Malformed::Offset);
    }
    Ok((head.tag.get(), data))
}

impl Symlink {
    /// Parses the data of a buffer tagged [`SYMLINK`].
    pub fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let (fixed, path) = prefix::<SymlinkFixed>(data)?;
        let (offset, len) = (fixed.substitute_name_offset.get(), fixed.substitute_name_length.get());
        let target = Text::new(part(path, offset.into(), len.into())?)?.decode().ok_or(Malformed::Value)?;
        if target.is_empty() {
            return Err(Malformed::Value);
        }
        Ok(Self { target, relative: fixed.flags.get() & RELATIVE != 0 })
    }

    /// Returns the whole buffer; `None` if the target is too long.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let name = encoded(&self.target);
        let len = U16::new(u16::try_from(name.len()).ok()?);
        let fixed = SymlinkFixed {
            substitute_name_offset: U16::ZERO,
            substitute_name_length: len,
            print_name_offset: len,
            print_name_length: len,
            flags: (if self.relative { RELATIVE } else { 0 }).into(),
        };
        let data_length = u16::try_from(size_of_val(&fixed) + 2 * name.len()).ok()?;
        let head = ReparseHead { tag: SYMLINK.into(), data_length: data_length.into(), reserved: U16::ZERO };
        let buffer = [head.as_bytes(), fixed.as_bytes(), &name, &name].concat();
        (buffer.len() <= REPARSE_MAX).then_some(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_comes_back_and_lies_are_refused() {
        let link = Symlink { target: r"..\a\b".to_owned(), relative: true };
        let bytes = link.to_bytes().unwrap();
        let (tag, data) = parse(&bytes).unwrap();
        assert_eq!((tag, Symlink::parse(data)), (SYMLINK, Ok(link)));
        assert_eq!(parse(&bytes[..bytes.len() - 1]), Err(Malformed::Offset));
        assert_eq!(parse(&vec![0; REPARSE_MAX + 1]), Err(Malformed::Count));
        let mut far = data.to_vec();
        far[1] = 1;
        assert_eq!(Symlink::parse(&far), Err(Malformed::Offset));
        assert_eq!(Symlink::parse(&[0; 12]), Err(Malformed::Value));
        let long = Symlink { target: "x".repeat(REPARSE_MAX / 4), relative: false };
        assert_eq!(long.to_bytes(), None);
    }
}
