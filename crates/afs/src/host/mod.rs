//! Hosts: clients that cache, each one record for all lanes, and the calls to them.
//!
//! [`Hosts`] is the table of the process, [`LaneHosts`] what one lane does with it. It finds the [`Host`] behind a
//! connection ([`Contact`]), and breaks the callbacks of those whose home it is. `vfs` knows which clients rely on what
//! (`vfs::Client`); this knows which client that is and where it is called. docs/design/afs.md draws the life of a
//! callback.

pub use contact::Contact;
pub use counters::HostCounters;
pub use hosts::Hosts;
pub use lane_hosts::LaneHosts;
pub use options::HostOptions;
pub use record::{CallbackPromise, Host};
pub use restart::Resets;

mod break_callbacks;
mod calling;
mod contact;
mod counters;
mod host_identity;
mod hosts;
mod identification;
mod lane_hosts;
#[cfg(test)]
mod memory;
mod options;
mod record;
mod refusals;
mod restart;
mod table;
mod upkeep;
mod whoareyou;
