//! Named pipes for SMB clients: DCE/RPC (C706, MS-RPCE) in messages, and the interfaces that browsing needs
//! (MS-SRVS, MS-WKST, MS-LSAD with MS-LSAT). Sans-IO: bytes in, bytes out; no clock, no lock, no table of its
//! own.
//!
//! A [`Pipe`] is one open of such a pipe on `IPC$`. What it answers comes of the [`Facts`] that the server hands in with
//! every call, so a reloaded configuration counts from the next call on. Nothing here changes anything: calls that would
//! are refused.
//!
//! Reading goes from [`pipe`] (messages, fragments) to `pdu` (what a fragment says), `association` (which interface
//! is meant), and one function for each call, read top to bottom, in `srvsvc`, `wkssvc` and `lsarpc`.

mod association;
mod enumeration;
mod facts;
mod interface;
mod lsarpc;
mod ndr;
mod pdu;
pub mod pipe;
mod srvsvc;
mod wkssvc;

pub use facts::{Facts, ShareFact, ShareKind};
pub use pipe::{Answer, Memory, Pipe, Tally};
