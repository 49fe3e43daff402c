//! SMB load: many sessions, each with requests under way at once, over one connection or several.

mod actor;
mod load;
mod session;

pub use load::{LoadError, Options, Report, Work, run};
