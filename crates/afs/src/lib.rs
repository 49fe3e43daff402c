//! AFS for stock clients: the file server (RXAFS) over the trees that `vfs` serves.
//!
//! - `wire`: types and stubs made of the interface files;
//! - [`code`]: what a call is aborted with, also for each error of `vfs`;
//! - `fid`: files as AFS names them.

pub mod code;
mod fid;
pub mod wire;
