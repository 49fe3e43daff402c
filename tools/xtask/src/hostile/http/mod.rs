//! Attacks by clients of HTTP.

pub(crate) mod chains;
pub(crate) mod drips;
pub(crate) mod edges;
pub(crate) mod growing;
mod http2;
pub(crate) mod log;
pub(crate) mod passwords;
pub(crate) mod pings;
pub(crate) mod places;
pub(crate) mod readers;
pub(crate) mod resets;
pub(crate) mod stalled;
pub(crate) mod uploads;
