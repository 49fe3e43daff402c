//! NEGOTIATE (MS-SMB2 2.2.3, 2.2.4).

use zerocopy::little_endian::{U16, U32, U64};

use crate::dialect::Dialect;
use crate::fixed::{Fixed, body, prefix_of};
use crate::guid::Guid;
use crate::header::HEADER_LEN;
use crate::malformed::Malformed;
use crate::message::{Body, Message};

pub mod context;
pub mod smb1;

use context::{Contexts, NegotiateContext};

/// Bits of `SecurityMode`.
pub mod security_mode {
    /// The sender can sign.
    pub const SIGNING_ENABLED: u16 = 1;
    /// The sender insists on it.
    pub const SIGNING_REQUIRED: u16 = 2;
}

/// Bits of `Capabilities`.
pub mod capabilities {
    /// Distributed file system.
    pub const DFS: u32 = 0x01;
    /// Leases.
    pub const LEASING: u32 = 0x02;
    /// Requests of more than one credit.
    pub const LARGE_MTU: u32 = 0x04;
    /// Several connections of one session.
    pub const MULTI_CHANNEL: u32 = 0x08;
    /// Persistent handles.
    pub const PERSISTENT_HANDLES: u32 = 0x10;
    /// Leases of directories.
    pub const DIRECTORY_LEASING: u32 = 0x20;
    /// Encryption, by bit in 3.0 and 3.0.2 (3.1.1 has a context).
    pub const ENCRYPTION: u32 = 0x40;
    /// Notifications that the server sends.
    pub const NOTIFICATIONS: u32 = 0x80;
}

body! {
    /// Fixed part of the request, MS-SMB2 2.2.3.
    pub struct NegotiateRequestFixed = 36 {
        dialect_count: U16,
        security_mode: U16,
        reserved: U16,
        capabilities: U32,
        client_guid: Guid,
        /// Offset of the contexts. Where 3.1.1 is not offered it is `ClientStartTime`, with the two fields behind it.
        context_offset: U32,
        context_count: U16,
        reserved2: U16,
    }
}

/// A NEGOTIATE request: what a client offers.
#[derive(Clone, Copy, Debug)]
pub struct NegotiateRequest<'a> {
    /// The fixed part; its counts are checked.
    pub fixed: &'a NegotiateRequestFixed,
    /// The dialects, as numbers: the server passes over unknown ones.
    pub dialects: &'a [U16],
    /// The contexts; empty unless 3.1.1 is offered.
    pub contexts: Contexts<'a>,
}

impl<'a> NegotiateRequest<'a> {
    /// Reads the request.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<NegotiateRequestFixed>()?;
        let count = usize::from(fixed.dialect_count.get());
        //= MS-SMB2 3.3.5.4
        //# DialectCount of zero fails with STATUS_INVALID_PARAMETER.
        if count == 0 {
            return Err(Malformed::Count);
        }
        let dialects = prefix_of::<U16>(message.after::<NegotiateRequestFixed>(), count)?;
        let contexts = if dialects.iter().any(|dialect| dialect.get() == Dialect::Smb311 as u16) {
            let end = HEADER_LEN + size_of::<NegotiateRequestFixed>() + 2 * count;
            Contexts::parse(message.bytes(), fixed.context_offset.get(), fixed.context_count.get(), end)?
        } else {
            Contexts::default()
        };
        Ok(Self { fixed, dialects, contexts })
    }

    /// Returns whether `dialect` is offered.
    pub fn offers(&self, dialect: Dialect) -> bool {
        self.dialects.iter().any(|offered| offered.get() == dialect as u16)
    }

    /// Appends a request that offers `dialects`, and `contexts` if there are any.
    pub fn write(
        body: &mut Body<'_>,
        mut fixed: NegotiateRequestFixed,
        dialects: &[Dialect],
        contexts: &[NegotiateContext<'_>],
    ) {
        fixed.dialect_count.set(u16::try_from(dialects.len()).expect("there are five dialects"));
        body.push(&fixed);
        for dialect in dialects {
            body.push(&U16::new(*dialect as u16));
        }
        if !contexts.is_empty() {
            body.align(8);
            fixed.context_offset.set(body.offset());
            fixed.context_count.set(contexts.len() as u16);
            context::write(body, contexts);
        }
        body.set_fixed(&fixed);
    }
}

body! {
    /// Fixed part of the response, MS-SMB2 2.2.4.
    pub struct NegotiateResponseFixed = 65 {
        security_mode: U16,
        dialect: U16,
        context_count: U16,
        server_guid: Guid,
        capabilities: U32,
        max_transact_size: U32,
        max_read_size: U32,
        max_write_size: U32,
        system_time: U64,
        server_start_time: U64,
        security_buffer_offset: U16,
        security_buffer_length: U16,
        context_offset: U32,
    }
}

/// A NEGOTIATE response: what a server chose.
#[derive(Clone, Copy, Debug)]
pub struct NegotiateResponse<'a> {
    /// The fixed part; its offsets are checked.
    pub fixed: &'a NegotiateResponseFixed,
    /// The first token of sign-in.
    pub security: &'a [u8],
    /// The contexts; empty below 3.1.1.
    pub contexts: Contexts<'a>,
}

impl<'a> NegotiateResponse<'a> {
    /// Reads the response.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<NegotiateResponseFixed>()?;
        let (offset, len) = (fixed.security_buffer_offset.get(), fixed.security_buffer_length.get());
        let security = message.part::<NegotiateResponseFixed>(offset.into(), len.into())?;
        let contexts = if fixed.dialect.get() == Dialect::Smb311 as u16 {
            let end = if len == 0 {
                HEADER_LEN + size_of::<NegotiateResponseFixed>()
            } else {
                usize::from(offset) + usize::from(len)
            };
            Contexts::parse(message.bytes(), fixed.context_offset.get(), fixed.context_count.get(), end)?
        } else {
            Contexts::default()
        };
        Ok(Self { fixed, security, contexts })
    }

    /// Appends a response. `security` is shorter than 64 KiB.
    pub fn write(
        body: &mut Body<'_>,
        mut fixed: NegotiateResponseFixed,
        security: &[u8],
        contexts: &[NegotiateContext<'_>],
    ) {
        body.push(&fixed);
        let security = body.bytes(security);
        fixed.security_buffer_offset = security.offset16();
        fixed.security_buffer_length = security.len16();
        if !contexts.is_empty() {
            body.align(8);
            fixed.context_offset.set(body.offset());
            fixed.context_count.set(contexts.len() as u16);
            context::write(body, contexts);
        }
        body.set_fixed(&fixed);
    }
}

/// Creates a fixed part for a client that has this GUID.
pub fn request(client_guid: Guid, security_mode: u16, capabilities: u32) -> NegotiateRequestFixed {
    NegotiateRequestFixed {
        client_guid,
        security_mode: security_mode.into(),
        capabilities: capabilities.into(),
        ..NegotiateRequestFixed::blank()
    }
}
