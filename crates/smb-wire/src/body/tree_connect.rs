//! TREE_CONNECT (MS-SMB2 2.2.9, 2.2.10).

use zerocopy::little_endian::{U16, U32};

use crate::fixed::body;
use crate::malformed::Malformed;
use crate::message::{Body, Message};
use crate::text::{Text, encoded};

/// `Flags` of the request.
pub mod flags {
    /// A reconnect to a cluster's node.
    pub const CLUSTER_RECONNECT: u16 = 1;
    /// The client can be sent to another server.
    pub const REDIRECT_TO_OWNER: u16 = 2;
    /// Contexts come before the path (3.1.1).
    pub const EXTENSION_PRESENT: u16 = 4;
}

/// `ShareType`.
pub mod share_type {
    /// Files.
    pub const DISK: u8 = 1;
    /// Named pipes.
    pub const PIPE: u8 = 2;
    /// Printers.
    pub const PRINT: u8 = 3;
}

/// Bits of `ShareFlags`.
pub mod share_flags {
    /// Clients decide by themselves what they keep offline.
    pub const MANUAL_CACHING: u32 = 0x00;
    /// Nothing is kept offline.
    pub const NO_CACHING: u32 = 0x30;
    /// Names that the caller may not read are left out of listings.
    pub const ACCESS_BASED_DIRECTORY_ENUM: u32 = 0x0800;
    /// Everything within the tree is encrypted.
    pub const ENCRYPT_DATA: u32 = 0x8000;
}

body! {
    /// Fixed part of the request, MS-SMB2 2.2.9.
    pub struct TreeConnectRequestFixed = 9 {
        flags: U16,
        path_offset: U16,
        path_length: U16,
    }
}

body! {
    /// The response, MS-SMB2 2.2.10.
    pub struct TreeConnectResponse = 16 {
        share_type: u8,
        reserved: u8,
        share_flags: U32,
        capabilities: U32,
        maximal_access: U32,
    }
}

/// A TREE_CONNECT request: the share that a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct TreeConnectRequest<'a> {
    /// The fixed part.
    pub fixed: &'a TreeConnectRequestFixed,
    /// `\\server\share`; [`crate::name::parse_share`] takes it apart.
    pub path: Text<'a>,
}

impl<'a> TreeConnectRequest<'a> {
    /// Reads the request. Contexts of the extension carry identities that only a cluster's nodes may claim: they are
    /// not read.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<TreeConnectRequestFixed>()?;
        let (offset, len) = (fixed.path_offset.get(), fixed.path_length.get());
        let path = message.part::<TreeConnectRequestFixed>(offset.into(), len.into())?;
        Ok(Self { fixed, path: Text::new(path)? })
    }

    /// Appends a request for a path of less than 32 Ki code units.
    pub fn write(body: &mut Body<'_>, mut fixed: TreeConnectRequestFixed, path: &str) {
        body.push(&fixed);
        let path = body.bytes(&encoded(path));
        fixed.path_offset = path.offset16();
        fixed.path_length = path.len16();
        body.set_fixed(&fixed);
    }
}
