//! The service kit: what every service on a lane needs, whatever it speaks.
//!
//! Connections have [places](connections), which are shared out by address and given up when they are short; what
//! they send is [paced](pacer) and what their replies hold is on [books](memory); long work goes by [turns]; each
//! request may leave a line in the access [log].

pub mod address;
pub mod alarm;
pub mod connections;
pub mod counters;
pub mod log;
pub mod memory;
pub mod pacer;
pub mod places;
pub mod turns;

mod bucket;
