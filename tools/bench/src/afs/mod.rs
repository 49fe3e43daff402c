//! AFS load: many clients of one file server, each a host of its own with a socket, an identity and a callback service,
//! that fetch, store, ask for status, make and remove names, or rely on files that change.

mod actor;
mod callbacks;
mod clients;
mod load;
mod options;
mod pattern;

pub use callbacks::{CallbacksReport, callbacks};
pub use clients::Clients;
pub use load::{Load, LoadError, Options, Report, Work, run};
