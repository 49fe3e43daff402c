//! HTTP/2 on the server's side without sockets (RFC 9113): frames, header compression, and the rules of a connection.
//!
//! [`connection::Connection`] takes what the client sent and says what it asks for and what must be answered;
//! bodies are the caller's, which asks for the room that the client's windows leave before it reads them.

pub(crate) mod connection;
pub(crate) mod frame;
pub(crate) mod hpack;
mod patience;
pub(crate) mod request;
mod stream;
