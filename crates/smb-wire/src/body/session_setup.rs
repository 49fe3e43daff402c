//! SESSION_SETUP (MS-SMB2 2.2.5, 2.2.6).

use zerocopy::little_endian::{U16, U32, U64};

use crate::fixed::body;
use crate::malformed::Malformed;
use crate::message::{Body, Message};

/// `Flags`: the request binds this connection to a session that has others.
pub const FLAG_BINDING: u8 = 1;

/// Bits of `SessionFlags`.
pub mod session_flags {
    /// SMB2_SESSION_FLAG_IS_GUEST: a session of the guest account.
    pub const IS_GUEST: u16 = 1;
    /// SMB2_SESSION_FLAG_IS_NULL: an anonymous session.
    pub const IS_NULL: u16 = 2;
    /// SMB2_SESSION_FLAG_ENCRYPT_DATA: all messages of the session are encrypted.
    pub const ENCRYPT_DATA: u16 = 4;
}

body! {
    /// Fixed part of the request, MS-SMB2 2.2.5.
    pub struct SessionSetupRequestFixed = 25 {
        flags: u8,
        security_mode: u8,
        capabilities: U32,
        channel: U32,
        security_buffer_offset: U16,
        security_buffer_length: U16,
        previous_session_id: U64,
    }
}

body! {
    /// Fixed part of the response, MS-SMB2 2.2.6.
    pub struct SessionSetupResponseFixed = 9 {
        session_flags: U16,
        security_buffer_offset: U16,
        security_buffer_length: U16,
    }
}

/// A token of sign-in, from the client.
#[derive(Clone, Copy, Debug)]
pub struct SessionSetupRequest<'a> {
    /// The fixed part.
    pub fixed: &'a SessionSetupRequestFixed,
    /// The token.
    pub security: &'a [u8],
}

impl<'a> SessionSetupRequest<'a> {
    /// Reads the request.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<SessionSetupRequestFixed>()?;
        let (offset, len) = (fixed.security_buffer_offset.get(), fixed.security_buffer_length.get());
        Ok(Self { fixed, security: message.part::<SessionSetupRequestFixed>(offset.into(), len.into())? })
    }

    /// Appends a request with a token shorter than 64 KiB.
    pub fn write(body: &mut Body<'_>, mut fixed: SessionSetupRequestFixed, security: &[u8]) {
        body.push(&fixed);
        let security = body.bytes(security);
        fixed.security_buffer_offset = security.offset16();
        fixed.security_buffer_length = security.len16();
        body.set_fixed(&fixed);
    }
}

/// A token of sign-in, from the server.
#[derive(Clone, Copy, Debug)]
pub struct SessionSetupResponse<'a> {
    /// The fixed part.
    pub fixed: &'a SessionSetupResponseFixed,
    /// The token.
    pub security: &'a [u8],
}

impl<'a> SessionSetupResponse<'a> {
    /// Reads the response.
    pub fn parse(message: &Message<'a>) -> Result<Self, Malformed> {
        let fixed = message.fixed::<SessionSetupResponseFixed>()?;
        let (offset, len) = (fixed.security_buffer_offset.get(), fixed.security_buffer_length.get());
        Ok(Self { fixed, security: message.part::<SessionSetupResponseFixed>(offset.into(), len.into())? })
    }

    /// Appends a response with a token shorter than 64 KiB.
    pub fn write(body: &mut Body<'_>, mut fixed: SessionSetupResponseFixed, security: &[u8]) {
        body.push(&fixed);
        let security = body.bytes(security);
        fixed.security_buffer_offset = security.offset16();
        fixed.security_buffer_length = security.len16();
        body.set_fixed(&fixed);
    }
}
