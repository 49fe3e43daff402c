//! The Kerberos mechanism of GSS-API (RFC 4121): framing, what an authenticator's checksum says, integrity codes of messages.

mod bindings;
mod checksum;
mod mic;
mod token;

pub use bindings::ChannelBindings;
pub use checksum::{GssChecksum, GssFlags};
pub use mic::{MessageIntegrity, MicRefused, Role};
pub use token::{Framed, MS_KRB5_OID, Mechanism, TokenKind};
