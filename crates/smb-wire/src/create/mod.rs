//! CREATE (MS-SMB2 2.2.13, 2.2.14).

use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::body;
use crate::guid::FileId;
use crate::header::HEADER_LEN;
use crate::malformed::Malformed;
use crate::message::{Body, Message, apart};
use crate::text::{Text, encoded};

pub mod access;
pub mod context;
pub mod lease;

use context::Contexts;

body! {
    /// Fixed part of the request, MS-SMB2 2.2.13.
    pub struct CreateRequestFixed = 57 {
        security_flags: u8,
        requested_oplock_level: u8,
        impersonation_level: U32,
        smb_create_flags: U64,
        reserved: U64,
        desired_access: U32,
        file_attributes: U32,
        share_access: U32,
        create_disposition: U32,
        create_options: U32,
        name_offset: U16,
        name_length: U16,
        contexts_offset: U32,
        contexts_length: U32,
    }
}

body! {
    /// Fixed part of the response, MS-SMB2 2.2.14.
    pub struct CreateResponseFixed = 89 {
        oplock_level: u8,
        flags: u8,
        create_action: U32,
        creation_time: U64,
        last_access_time: U64,
        last_write_time: U64,
        change_time: U64,
        allocation_size: U64,
        end_of_file: U64,
        file_attributes: U32,
        reserved2: U32,
        file_id: FileId,
        contexts_offset: U32,
        contexts_length: U32,
    }
}

/// `RequestedOplockLevel` and `OplockLevel`.
pub mod oplock_level {
    /// SMB2_OPLOCK_LEVEL_NONE: no oplock.
    pub const NONE: u8 = 0x00;
    /// SMB2_OPLOCK_LEVEL_II: reads are cached.
    pub const II: u8 = 0x01;
    /// SMB2_OPLOCK_LEVEL_EXCLUSIVE: reads and writes are cached.
    pub const EXCLUSIVE: u8 = 0x08;
    /// SMB2_OPLOCK_LEVEL_BATCH: reads, writes and the open are cached.
    pub const BATCH: u8 = 0x09;
    /// SMB2_OPLOCK_LEVEL_LEASE: a create context names the lease.
    pub const LEASE: u8 = 0xff;
}

/// `CreateDisposition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Disposition {
    /// FILE_SUPERSEDE: replaces an existing file.
    Supersede = 0,
    /// FILE_OPEN: opens a file that must exist.
    Open = 1,
    /// FILE_CREATE: creates a file that must not exist.
    Create = 2,
    /// Opened, or made.
    OpenIf = 3,
    /// FILE_OVERWRITE: truncates a file that must exist.
    Overwrite = 4,
    /// Emptied, or made.
    OverwriteIf = 5,
}

impl Disposition {
    /// Returns the disposition of a wire value; `None` where there is none.
    pub fn from_wire(value: u32) -> Option<Self> {
        Some(match value {
            0 => Self::Supersede,
            1 => Self::Open,
            2 => Self::Create,
            3 => Self::OpenIf,
            4 => Self::Overwrite,
            5 => Self::OverwriteIf,
            _ => return None,
        })
    }
}

/// `CreateAction`.
pub mod create_action {
    /// FILE_SUPERSEDED: an existing file was replaced.
    pub const SUPERSEDED: u32 = 0;
    /// FILE_OPENED: an existing file was opened as it was.
    pub const OPENED: u32 = 1;
    /// FILE_CREATED: a file was created.
    pub const CREATED: u32 = 2;
    /// FILE_OVERWRITTEN: an existing file was truncated.
    pub const OVERWRITTEN: u32 = 3;
}

/// Bits of `CreateOptions`.
pub mod options {
    /// FILE_DIRECTORY_FILE: opens a directory, else fails.
    pub const DIRECTORY_FILE: u32 = 0x0000_0001;
    /// FILE_WRITE_THROUGH: data is on disk before a write is answered.
    pub const WRITE_THROUGH: u32 = 0x0000_0002;
    /// FILE_SEQUENTIAL_ONLY: the file is read from the beginning to the end.
    pub const SEQUENTIAL_ONLY: u32 = 0x0000_0004;
    /// FILE_NO_INTERMEDIATE_BUFFERING: whole sectors are read and written.
    pub const NO_INTERMEDIATE_BUFFERING: u32 = 0x0000_0008;
    /// FILE_SYNCHRONOUS_IO_ALERT: operations are synchronous and can be interrupted.
    pub const SYNCHRONOUS_IO_ALERT: u32 = 0x0000_0010;
    /// FILE_SYNCHRONOUS_IO_NONALERT: operations are synchronous and cannot be interrupted.
    pub const SYNCHRONOUS_IO_NONALERT: u32 = 0x0000_0020;
    /// FILE_NON_DIRECTORY_FILE: opens anything but a directory.
    pub const NON_DIRECTORY_FILE: u32 = 0x0000_0040;
    /// FILE_NO_EA_KNOWLEDGE: the client understands no extended attributes.
    pub const NO_EA_KNOWLEDGE: u32 = 0x0000_0200;
    /// FILE_DELETE_ON_CLOSE: the file is deleted when its last open is closed.
    pub const DELETE_ON_CLOSE: u32 = 0x0000_1000;
    /// FILE_OPEN_BY_FILE_ID: the name is a number of a file.
    pub const OPEN_BY_FILE_ID: u32 = 0x0000_2000;
    /// FILE_OPEN_FOR_BACKUP_INTENT: opens with the rights of backup operators.
    pub const OPEN_FOR_BACKUP_INTENT: u32 = 0x0000_4000;
    /// FILE_NO_COMPRESSION: a new file is not compressed.
    pub const NO_COMPRESSION: u32 = 0x0000_8000;
    /// FILE_OPEN_REPARSE_POINT: opens the link itself, not its target.
    pub const OPEN_REPARSE_POINT: u32 = 0x0020_0000;
}

/// A CREATE request: what to open or make, and how.
#[derive(Clone, Copy, Debug)]
pub struct CreateRequest<'a> {
    /// The fixed part.
    pub fixed: &'a CreateRequestFixed,
    /// The name, from the share's root; [`crate::name::Name`] takes it apart.
    pub name: Text<'a>,
    /// Create contexts of the request.
    pub contexts: Contexts<'a>,
}

impl<'a> CreateRequest<'a> {
    /// Reads the request. Contexts are walked, so that all of them are known to be whole; what is in them is read when
    /// it is asked for.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<CreateRequestFixed>()?;
        let name = (u32::from(fixed.name_offset.get()), u32::from(fixed.name_length.get()));
        let contexts = (fixed.contexts_offset.get(), fixed.contexts_length.get());
        apart(name, contexts)?;
        if contexts.1 > 0 && !contexts.0.is_multiple_of(8) {
            return Err(Malformed::Alignment);
        }
        Ok(Self {
            fixed,
            name: Text::new(message.part::<CreateRequestFixed>(name.0, name.1)?)?,
            contexts: Contexts::parse(message.part::<CreateRequestFixed>(contexts.0, contexts.1)?)?,
        })
    }

    /// Returns the length of the message up to the end of what the request holds: what follows means nothing.
    pub fn end(&self) -> usize {
        let end = |offset: u32, len: u32| offset as usize + len as usize;
        let fixed = self.fixed;
        let name = end(fixed.name_offset.get().into(), fixed.name_length.get().into());
        let contexts = end(fixed.contexts_offset.get(), fixed.contexts_length.get());
        // The structure counts one byte of the name, also where there is none.
        name.max(contexts).max(HEADER_LEN + size_of::<CreateRequestFixed>() + 1)
    }

    /// Appends a request for a name of less than 32 Ki code units. `contexts` is what
    /// [`ContextWriter`](context::ContextWriter) made.
    pub fn write(body: &mut Body<'_>, mut fixed: CreateRequestFixed, name: &str, contexts: &[u8]) {
        body.push(&fixed);
        let name = body.bytes(&encoded(name));
        fixed.name_offset = name.offset16();
        fixed.name_length = name.len16();
        if !contexts.is_empty() {
            body.align(8);
            let contexts = body.bytes(contexts);
            fixed.contexts_offset.set(contexts.offset);
            fixed.contexts_length.set(contexts.len);
        } else if name.len == 0 {
            // The structure's size counts one byte of name, and there are servers that look for it.
            body.bytes(&[0]);
        }
        body.set_fixed(&fixed);
    }
}

/// A CREATE response: what was opened.
#[derive(Clone, Copy, Debug)]
pub struct CreateResponse<'a> {
    /// The fixed part.
    pub fixed: &'a CreateResponseFixed,
    /// Create contexts of the response.
    pub contexts: Contexts<'a>,
}

impl<'a> CreateResponse<'a> {
    /// Reads the response.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<CreateResponseFixed>()?;
        let (offset, len) = (fixed.contexts_offset.get(), fixed.contexts_length.get());
        let contexts = Contexts::parse(message.part::<CreateResponseFixed>(offset, len)?)?;
        Ok(Self { fixed, contexts })
    }

    /// Appends a response. `contexts` is what [`ContextWriter`](context::ContextWriter) made.
    pub fn write(body: &mut Body<'_>, mut fixed: CreateResponseFixed, contexts: &[u8]) {
        body.push(&fixed);
        if !contexts.is_empty() {
            body.align(8);
            let contexts = body.bytes(contexts);
            fixed.contexts_offset.set(contexts.offset);
            fixed.contexts_length.set(contexts.len);
            body.set_fixed(&fixed);
        }
    }
}
