//! NTLMv2 (MS-NLMP): its three messages, and what is computed of them.

pub mod crypto;
pub mod message;
mod server;

pub(crate) use server::Server;

/// Bits of `NegotiateFlags` (MS-NLMP 2.2.2.5) that mean something here.
pub mod flags {
    /// Text is UTF-16.
    pub const UNICODE: u32 = 0x0000_0001;
    /// Text is in the client's own code page, if it knows no UTF-16.
    pub const OEM: u32 = 0x0000_0002;
    /// The server tells its name.
    pub const REQUEST_TARGET: u32 = 0x0000_0004;
    /// Messages can be signed.
    pub const SIGN: u32 = 0x0000_0010;
    /// Messages can be sealed.
    pub const SEAL: u32 = 0x0000_0020;
    /// NTLM, of whichever version.
    pub const NTLM: u32 = 0x0000_0200;
    /// NTLMSSP_NEGOTIATE_ANONYMOUS: an anonymous client.
    pub const ANONYMOUS: u32 = 0x0000_0800;
    /// NTLMSSP_NEGOTIATE_ALWAYS_SIGN: there is a key in any case.
    pub const ALWAYS_SIGN: u32 = 0x0000_8000;
    /// The server's name is a server's, not a domain's.
    pub const TARGET_TYPE_SERVER: u32 = 0x0002_0000;
    /// Session security of NTLMv2.
    pub const EXTENDED_SESSION_SECURITY: u32 = 0x0008_0000;
    /// The challenge says more of the server.
    pub const TARGET_INFO: u32 = 0x0080_0000;
    /// The message has a version.
    pub const VERSION: u32 = 0x0200_0000;
    /// Keys of 128 bits. Linux's client refuses a challenge without it and [`KEY_56`].
    pub const KEY_128: u32 = 0x2000_0000;
    /// The client chooses the session's key.
    pub const KEY_EXCH: u32 = 0x4000_0000;
    /// Keys of 56 bits.
    pub const KEY_56: u32 = 0x8000_0000;
}
