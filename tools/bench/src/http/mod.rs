//! HTTP/1.1 load: many keep-alive connections, each asking for one URL again as soon as it is answered.

mod client;
mod error;
mod load;
mod response;
mod target;

pub use error::ClientError;
pub use load::{LoadError, Options, Report, run};
pub use target::{Target, TargetError};
