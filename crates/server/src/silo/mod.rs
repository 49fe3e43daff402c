//! Silos at work: which take connections, where each connection belongs, and handover to the right lane.

mod accept_router;
mod counters;
mod handoff;
mod load;
mod memory;
mod placement;
mod serves;

pub(crate) use accept_router::AcceptRouter;
pub(crate) use counters::SiloCounters;
pub(crate) use handoff::links_to_silos;
pub(crate) use load::Loads;
pub(crate) use memory::{Look, MemoryWatch};
pub(crate) use placement::{Placement, Taking};
pub use serves::who_serves_what;
