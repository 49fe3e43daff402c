//! A campaign of structured messages at simulated servers, for developers: what clients with valid sessions may send, and much that
//! they may not. No case may panic, hold a lane up, or leave anything behind. docs/benchmarks.md says for how long it has run.
//!
//! - [`decisions`]: the string of bytes that decides everything of a case;
//! - [`case`]: one case, and what must hold;
//! - [`smb`], [`afs`]: the servers and their clients;
//! - [`corpus`]: cases that each show what no other does;
//! - [`log`]: what servers say meanwhile;
//! - [`notes`]: what is seen of a case;
//! - `rest`: that a server is as it was when all have gone.

pub mod afs;
pub mod case;
pub mod corpus;
pub mod decisions;
pub mod log;
pub mod notes;
mod rest;
pub mod smb;
