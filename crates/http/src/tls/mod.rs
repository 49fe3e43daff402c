//! TLS: handshake by rustls, records by our own layer, kernel TLS where there is one.
