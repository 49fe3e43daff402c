//! A *lane* is one pinned thread that owns one io_uring, its sockets, timers and memory.
//! A *silo* is the lanes of one NUMA node. See ARCHITECTURE.md for the rules.
//!
//! Code on a lane is straight-line `async`: [`spawn`] starts a task, [`net`] and [`fs`] talk to the world,
//! [`time`] waits, [`mesh`] talks to other lanes. None of these types leaves its lane.
// Some of what both backends rest on is used by the simulated one alone.
#![cfg_attr(not(feature = "sim"), allow(dead_code, unused_imports))]
#![allow(unsafe_code)] // The one crate whose business is the kernel boundary; every block says why.

pub mod backend;
pub mod budget;
pub mod buffer;
pub mod counters;
pub mod descriptors;
pub mod fs;
pub mod helper;
pub mod layout;
pub mod memory;
pub mod mesh;
pub mod mountinfo;
pub mod net;
pub mod offload;
pub mod privileges;
pub mod probe;
pub mod random;
pub mod resident;
pub mod runtime;
pub mod socket;
pub mod time;
pub mod topology;

mod affinity;
mod context;
mod detach_on_drop;
mod executor;
mod netlink;
mod on_thread;
mod supervise;
mod timers;

pub use backend::with_keepalive;
pub use context::{Lane, LaneId, SiloId, current, on_lane};
pub use detach_on_drop::{DetachOnDrop, run_to_completion};
pub use executor::{Task, spawn, spawn_for, yield_if_due, yield_now};
pub use supervise::{Ended, spawn_critical, spawn_restarting};
