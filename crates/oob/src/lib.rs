//! Out-of-band TCP without sockets, clock or threads: bytes in, bytes out (docs/design/oob.md).
//!
//! - [`Claim`]: the first bytes of a connection, with the [`Token`] of a call;
//! - [`Claims`]: tokens that were given out and not claimed yet;
//! - [`Header`]: what stands in front of each frame;
//! - [`Part`]: what one connection moves of a transfer, and how a range is split into parts;
//! - [`Sending`], [`Receiving`]: both ends of a part.

mod claim;
mod claims;
mod frame;
mod part;
mod receiving;
mod sending;

pub use claim::{CLAIM_BYTES, Claim, ClaimError, RANDOM_BYTES, TOKEN_BYTES, Token};
pub use claims::{Claims, Issued, Refusal};
pub use frame::{FRAME_MAX, Frame, FrameError, HEADER_BYTES, Header};
pub use part::{Part, split};
pub use receiving::{Expected, Receiving};
pub use sending::{Sending, Step};

/// Version of the protocol.
pub const VERSION: u16 = 1;
/// Largest number of connections for one transfer.
pub const STREAMS_MAX: usize = 8;
