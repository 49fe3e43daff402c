//! Rx load in the language of OpenAFS's rxperf: calls that send, receive or do both, on many connections; the
//! service that answers them; and what the machine's UDP moves without any protocol, as the limit of both.

mod blast;
mod load;
mod server;

pub use blast::{BlastReport, blast, serve_blast};
pub use load::{LoadError, Options, Report, run};
pub use server::{ServeError, ServerOptions, Serving, serve};
