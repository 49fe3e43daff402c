//! Error responses, which take the place of a body when a request fails (MS-SMB2 2.2.2).

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32};

use crate::dialect::Dialect;
use crate::fixed::{Fixed, body, part, prefix, wire};
use crate::fsctl::reparse::SYMLINK as REPARSE_TAG_SYMLINK;
use crate::malformed::Malformed;
use crate::message::{Body, Message};
use crate::text::{Text, encoded};

/// `ErrorId` of everything but redirects to another share.
pub const ERROR_ID_DEFAULT: u32 = 0;

/// `SymLinkErrorTag`.
const SYMLINK_ERROR_TAG: u32 = 0x4c4d_5953;
/// `Flags`: the target is relative to the link's directory.
const SYMLINK_RELATIVE: u32 = 1;

body! {
    /// Fixed part, MS-SMB2 2.2.2.
    pub struct ErrorFixed = 9 {
        error_context_count: u8,
        reserved: u8,
        byte_count: U32,
    }
}

wire! {
    /// MS-SMB2 2.2.2.1
    pub struct ErrorContextHead {
        error_data_length: U32,
        error_id: U32,
    }
}

wire! {
    /// Fixed part of MS-SMB2 2.2.2.2.1.
    pub struct SymlinkErrorFixed {
        symlink_length: U32,
        symlink_error_tag: U32,
        reparse_tag: U32,
        reparse_data_length: U16,
        unparsed_path_length: U16,
        substitute_name_offset: U16,
        substitute_name_length: U16,
        print_name_offset: U16,
        print_name_length: U16,
        flags: U32,
    }
}

/// An ERROR response: the data that goes with a status.
#[derive(Clone, Copy, Debug)]
pub struct ErrorResponse<'a> {
    /// The fixed part.
    pub fixed: &'a ErrorFixed,
    /// The data: of the first context where there are contexts.
    pub data: &'a [u8],
}

impl<'a> ErrorResponse<'a> {
    /// Reads the response.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<ErrorFixed>()?;
        let len = fixed.byte_count.get() as usize;
        let data = message.after::<ErrorFixed>().get(..len).ok_or(Malformed::Offset)?;
        if fixed.error_context_count == 0 {
            return Ok(Self { fixed, data });
        }
        let (head, rest) = prefix::<ErrorContextHead>(data)?;
        let data = rest.get(..head.error_data_length.get() as usize).ok_or(Malformed::Offset)?;
        Ok(Self { fixed, data })
    }

    /// Appends a response; from 3.1.1 on `data` goes in a context. Without any there is one byte of it all the same,
    /// which old clients count on.
    pub fn write(body: &mut Body<'_>, dialect: Dialect, data: &[u8]) {
        let mut fixed = ErrorFixed::blank();
        if data.is_empty() {
            body.push(&fixed);
            body.bytes(&[0]);
            return;
        }
        let head = ErrorContextHead {
            error_data_length: (data.len() as u32).into(),
            error_id: ERROR_ID_DEFAULT.into(),
        };
        let in_context = dialect >= Dialect::Smb311;
        let len = data.len() + if in_context { size_of_val(&head) } else { 0 };
        fixed.byte_count.set(u32::try_from(len).expect("short data"));
        fixed.error_context_count = in_context.into();
        body.push(&fixed);
        if in_context {
            body.push(&head);
        }
        body.bytes(data);
    }
}

/// Error data of a symbolic link in the path: with `STATUS_STOPPED_ON_SYMLINK`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymlinkError {
    /// Target of the link: relative to its directory, or `\??\UNC\server\share\…`.
    pub target: String,
    /// Set if the target is relative.
    pub relative: bool,
    /// Bytes of the asked-for path, in UTF-16, that lie behind the link.
    pub unparsed_len: u16,
}

impl SymlinkError {
    /// Reads an error's data.
    pub fn parse(data: &[u8]) -> Result<Self, Malformed> {
        let (fixed, path) = prefix::<SymlinkErrorFixed>(data)?;
        if fixed.symlink_error_tag.get() != SYMLINK_ERROR_TAG
            || fixed.reparse_tag.get() != REPARSE_TAG_SYMLINK
        {
            return Err(Malformed::Value);
        }
        let (offset, len) = (fixed.substitute_name_offset.get(), fixed.substitute_name_length.get());
        let target = Text::new(part(path, offset.into(), len.into())?)?;
        Ok(Self {
            target: target.decode().ok_or(Malformed::Value)?,
            relative: fixed.flags.get() & SYMLINK_RELATIVE != 0,
            unparsed_len: fixed.unparsed_path_length.get(),
        })
    }

    /// Returns the bytes of an error's data; `None` if the target is too long for it.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let name = encoded(&self.target);
        let len = U16::new(u16::try_from(name.len()).ok()?);
        let path_len = u16::try_from(2 * name.len()).ok()?;
        let variable = size_of::<SymlinkErrorFixed>() - size_of::<U32>() + usize::from(path_len);
        let fixed = SymlinkErrorFixed {
            symlink_length: U32::new(u32::try_from(variable).ok()?),
            symlink_error_tag: SYMLINK_ERROR_TAG.into(),
            reparse_tag: REPARSE_TAG_SYMLINK.into(),
            reparse_data_length: path_len.checked_add(12)?.into(),
            unparsed_path_length: self.unparsed_len.into(),
            substitute_name_offset: U16::ZERO,
            substitute_name_length: len,
            print_name_offset: len,
            print_name_length: len,
            flags: (if self.relative { SYMLINK_RELATIVE } else { 0 }).into(),
        };
        Some([fixed.as_bytes(), &name, &name].concat())
    }
}
