//! Server around the protocols: configuration becomes silos and lanes, lanes become services, and all
//! counters are shown at the admin address. Nothing here is on a data path.

pub mod config;
pub mod console;
pub mod lists;
pub mod logs;
pub mod metrics;
pub mod process;
pub mod state_dir;
pub mod stats;
pub mod volumes;

mod admin;
mod control;
mod descriptors;
mod egress;
mod handover;
mod health;
mod index_file;
mod kept_files;
mod lacks;
mod lane_main;
mod lane_messages;
mod lane_services;
mod listeners;
mod listening;
mod loaded_sites;
mod objects;
mod overlap;
mod own_files;
mod pacing;
mod reload_transaction;
mod roots;
mod serve;
mod server_error;
mod shares;
mod signals;
mod silo;
mod startup_barrier;
mod tree_use;
mod trial;
mod usage;
mod volume_shown;
mod writers;

pub use admin::tell_of;
pub use listeners::ListenError;
pub use serve::{Addresses, CheckFor, Server, check};
pub use server_error::ServerError;
pub use silo::who_serves_what;
