//! AFS for stock clients: the file server (RXAFS) over the trees that `vfs` serves.
//!
//! - [`code`]: what a call is aborted with for each error of `vfs`;
//! - [`fid`]: files as AFS names them.

pub mod code;
pub mod fid;
