//! Keys and what they do: the encryption types 17 to 20 (RFC 3961, RFC 3962, RFC 8009), and names for those that are refused.

mod cts;
mod derive;
mod etype;
mod key;
mod string_to_key;

pub use etype::{Etype, EtypeRefused, etype_name};
pub use key::{Checksum, Integrity, Key, KeyLength, KeyRefused};

pub mod usage {
    //! Key usage numbers (RFC 4120 7.5.1, RFC 4121 2, MS-PAC 2.8).

    /// The encrypted part of a ticket.
    pub const TICKET: u32 = 2;
    /// The authenticator of an AP-REQ.
    pub const AP_REQ_AUTHENTICATOR: u32 = 11;
    /// The encrypted part of an AP-REP.
    pub const AP_REP: u32 = 12;
    /// Signatures in a privilege attribute certificate.
    pub const PAC_SIGNATURE: u32 = 17;
    /// A message integrity code of an acceptor of GSS-API.
    pub const ACCEPTOR_SIGN: u32 = 23;
    /// A message integrity code of an initiator.
    pub const INITIATOR_SIGN: u32 = 25;
}

#[cfg(test)]
mod tests;
