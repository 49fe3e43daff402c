//! TLS: handshake by rustls, records by our own layer, kernel TLS where there is one.
//!
//! Everything here is bytes in, bytes out; sockets and clocks are the caller's. Design and figures are in
//! the crate's `README.md`.

mod certificate_files;
mod client;
mod config;
mod config_error;
mod control;
mod error;
mod established;
mod handshake;
mod keys;
mod ktls;
mod layout;
mod open;
mod pem;
mod seal;
mod self_signed;
mod session;
mod sni;
#[cfg(test)]
mod tests;
mod tickets;
mod validity;

pub use certificate_files::{CertificateFiles, is_server_name};
pub use client::{ClientTrust, client_config, client_config_with};
pub use config::{CipherOrder, ServerTls, TlsConfig, Versions};
pub use config_error::{ConfigError, Warning};
pub use error::TlsError;
pub use established::KernelControl;
pub use handshake::{Alpn, SessionInfo};
pub use keys::{TlsVersion, TrafficKeys};
pub use ktls::{CryptoInfo, KtlsPolicy, KtlsSupport, UserSpaceReason};
pub use layout::{HEADER_LEN, PLAINTEXT_MAX, RecordLayout, Slots};
pub use open::RecordOpener;
pub use seal::RecordSealer;
pub use session::{CLIENT_HELLO_LEN_MAX, HANDSHAKE_LEN_MAX, Receive, TlsEvent, TlsSession};
pub use sni::SniResolver;
pub use tickets::{ROTATION_PERIOD, TicketKeys};
