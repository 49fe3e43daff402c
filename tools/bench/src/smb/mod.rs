//! SMB load: many sessions, each with requests under way at once, over one connection or several.

mod actor;
mod kills;
mod lane_load;
mod load;
mod options;
mod report;
mod session;

pub use load::{LoadError, Options, Report, Work, run};
