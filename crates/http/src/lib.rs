//! HTTP file service: HTTP/1.1 and HTTP/2 over lanes, zero-copy bodies.
//!
//! The parts without sockets (`request`, `range`, `conditional`, `response`, …) are pure functions and
//! small state machines; what a request means is an `async fn` that uses them from top to bottom.

pub mod basic;
pub mod body;
pub mod conditional;
pub mod date;
pub mod encoding;
pub mod etag;
mod host;
mod http2;
pub mod limits;
pub mod listing;
pub mod log;
pub mod mime;
pub mod multipart;
pub mod page;
pub mod path;
pub mod range;
pub mod redirect;
pub mod request;
pub mod request_error;
pub mod response;
pub mod service;
pub mod settings;
mod site_loader;

pub use settings::Http;
