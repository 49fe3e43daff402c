//! SMB 2 and 3 for stock clients, on lanes (docs/design/smb.md).
//!
//! - [`Smb`]: what the server program knows of it; `[smb]` and the keys of `[[volume]]` are read in `settings`.
//! - `server`, `session`: what lanes share: sessions, whose channels may live on different lanes, and what they agreed on.
//! - `connection`: one TCP connection on its lane: frames in, requests at once, replies in any order by one writer.
//! - `command`: one file for each command, read from top to bottom.

pub mod admin;
mod audit;
mod command;
mod connection;
mod counters;
mod cpu_scheduler;
mod interfaces;
mod memory;
mod options;
mod persisted_state;
mod pipe;
mod pipe_memory;
mod server;
mod service;
mod session;
mod settings;
mod sign_in;

#[cfg(test)]
mod tests;

pub use counters::SmbCounters;
pub use settings::{Encryption, Signing, Smb, SmbSection};
