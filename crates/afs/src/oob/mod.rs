//! Out-of-band TCP: the bytes of large files beside the Rx call that is about them (docs/design/oob.md).
//!
//! - [`LaneOob`]: a lane's connections, from the first byte of each to its end;
//! - `transfer`: what a call is granted, and what it hears of it;
//! - `stream_task`: the bytes, in tasks that outlive a call by the end of a frame.

mod connection;
mod counters;
mod lane_oob;
mod options;
mod stream_task;
mod transfer;
mod transfer_slots;

pub use counters::OobCounters;
pub use lane_oob::LaneOob;
pub use options::OobOptions;
pub(crate) use transfer::{Direction, GrantedTransfer, Requester};
