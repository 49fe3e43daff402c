//! AFS load: many clients of one file server, each a host of its own with a socket, an identity and a callback service,
//! that fetch, store, ask for status, or make and remove names.

mod actor;
mod load;
mod pattern;

pub use load::{Load, LoadError, Options, Report, Work, run};
