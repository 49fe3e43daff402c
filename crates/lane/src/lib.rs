//! A *lane* is one pinned thread that owns one io_uring, its sockets, timers and memory.
//! A *silo* is the lanes of one NUMA node. See ARCHITECTURE.md for the rules.
#![allow(unsafe_code)] // The one crate whose business is the kernel boundary; every block says why.

pub mod layout;
pub mod probe;
pub mod socket;
pub mod topology;
