//! Common parts of AFS clients and servers: interfaces, abort codes, directory pages. It moves no bytes
//! itself.
//!
//! Types and stubs are made of the interface files, `xg/*.xg`, names of whose fields are ours; a package is a module
//! ([`rxafs`]), what its calls carry stands beside it. [`code`] says what calls are aborted with, [`directory`] what clients
//! find in a directory.

pub mod code;
pub mod directory;
mod fid;
mod generated;
mod status;

pub use generated::*;
