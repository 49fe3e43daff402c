//! Messages of SMB 2 and 3 (MS-SMB2, MS-FSCC), sans-IO.
//!
//! Structures of fixed layout are read where they lie (`zerocopy`), and every offset, length and count of the
//! wire is checked before it is used: a parser gives a view into the message, or says why there is none
//! ([`Malformed`]). What a field may hold for one request is the business of the one that obeys it; names and
//! lists that are read later check themselves then.
//!
//! Reading goes from [`framing`] to [`FrameKind`], [`compound::Messages`], [`Header`] and [`Request`] or [`Response`].
//! Writing goes through [`compound::Compound`], which gives a [`message::Body`] to the command's `write`. Keys, signing
//! and sealing are not here.

pub mod body;
pub mod chain;
pub mod command;
pub mod compound;
pub mod create;
pub mod dialect;
pub mod dos;
pub mod fixed;
pub mod framing;
pub mod fsctl;
pub mod guid;
pub mod header;
pub mod info;
pub mod malformed;
pub mod message;
pub mod name;
pub mod negotiate;
pub mod request;
pub mod role;
pub mod spelling;
pub mod status;
pub mod text;
pub mod time;
pub mod transform;

pub use command::Command;
pub use dialect::Dialect;
pub use guid::{FileId, Guid};
pub use header::Header;
pub use malformed::Malformed;
pub use message::Message;
pub use request::{Request, Response};
pub use role::Role;
pub use status::Status;
pub use transform::FrameKind;
