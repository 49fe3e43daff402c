//! rxkad, security index 2 of Rx: AFS clients prove by a Kerberos ticket who they are. Both ends, sans-IO.
//!
//! | end | entry |
//! |---|---|
//! | server | [`RxkadServer`], given to `rx::Endpoint::add_security` |
//! | client | [`RxkadClient`] of a [`Token`], given to `rx::Endpoint::connect` |
//!
//! Tickets are opened by crate `krb`, under its keys and its rules. Time, random numbers and packets come from `rx` by
//! [`rx::security::Security`]; nothing here reads a clock, a file or a network.
//!
//! # What it protects
//!
//! A ticket is as strong as its encryption type. The connection is not: its key has 56 bits ([`fcrypt`]), at level crypt there
//! is no integrity code, and at level clear none over the data. Take it for a proof of who the client is on a network that is
//! trusted, and for compatibility with stock clients; it is no secrecy.
//!
//! # The first packets
//!
//! A client seals its first DATA before it has seen a challenge. `rx` keeps such packets unopened until
//! [`check_response`](rx::security::Security::check_response) has accepted, and opens them then, header checksum first.
//!
//! # A cell's file server
//!
//! ```
//! use rxkad::{Level, Policy, RxkadServer, ServiceKeys};
//!
//! # fn example(key_file_ext: &[u8], newer: krb::Keys) -> Result<(), krb::keytab::KeyFileError> {
//! let keys = krb::keytab::parse_key_file_ext("/etc/openafs/server/KeyFileExt", key_file_ext)?;
//! let keys = ServiceKeys::new(krb::Keys::new(keys));
//! let policy = Policy { min_level: Level::Crypt, ..Policy::default() };
//! let _security = Box::new(RxkadServer::new(keys.clone(), policy));
//! // The file has changed: connections to come use the new keys.
//! keys.replace(newer);
//! # Ok(())
//! # }
//! ```
//!
//! Decisions and invariants: `docs/design/realms.md`.

mod client;
mod code;
pub mod fcrypt;
mod key;
mod level;
mod names;
mod packet;
mod policy;
mod refused;
mod server;
mod service_keys;
mod stats;
mod token;
pub mod wire;

pub use client::RxkadClient;
pub use code::Code;
pub use key::DesKey;
pub use level::Level;
pub use names::{LOCAL_AUTH, afs_name, client_of, name_of};
pub use packet::PacketKey;
pub use policy::{Observer, Policy};
pub use refused::Refused;
pub use server::{RxkadServer, ServerConnection};
pub use service_keys::ServiceKeys;
pub use token::{Token, TokenRefused};

/// The security index.
pub const INDEX: u8 = rx::security::SECURITY_RXKAD;
