//! Rx.

pub mod congestion;
pub mod pmtud;
pub mod rtt;
