//! Rx.

pub mod congestion;
pub mod perf;
pub mod pmtud;
pub mod rtt;
