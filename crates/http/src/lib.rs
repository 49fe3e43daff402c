//! HTTP file service: HTTP/1.1 and HTTP/2 over lanes, TLS records, zero-copy bodies.

pub mod tls;
