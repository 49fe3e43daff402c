//! Kerberos V5 for services, sans-IO: bytes, a time and random bytes go in, and a principal comes out.
//!
//! | what a service gets | entry |
//! |---|---|
//! | an AP-REQ: SPNEGO's mechToken in SMB and HTTP, a bare one | [`Acceptor::accept`] |
//! | a ticket alone: rxkad, `kvno` 256 | [`Acceptor::open_ticket`] |
//! | the encrypted part of one alone: rxkad, `kvno` 213 | [`Acceptor::open_encrypted_part`] |
//!
//! All three pass the same checks by one [`Policy`] and end with an [`OpenTicket`]: who it is, the session key, until when, and what the
//! client's domain says about it ([`pac`], verified). [`Keys`] are those of key tables and of OpenAFS's KeyFileExt; any of them
//! may open a ticket. One [`ReplayCache`] serves a process.
//!
//! Encryption types 17 to 20 alone. DES and RC4 are known by name and refused, with a text that says what to do.
//! Nothing here reads a file, a clock or an environment. Keys and what tickets say are wiped when dropped, checksums are
//! compared in constant time, and every parser is bounded by the bytes that it is given.
//!
//! # A sign-in
//!
//! ```
//! use krb::{Acceptor, BindingCheck, Keys, Policy, ReplayCache, Request, ServiceName, Time};
//!
//! # fn example(keytab: &[u8], mech_token: &[u8], random: [u8; 20], unix_seconds: i64) -> Result<(), Box<dyn std::error::Error>> {
//! // Once, and again when a file of keys has changed:
//! let keys = Keys::new(krb::keytab::parse_keytab("/etc/linerate/cifs.keytab", keytab)?);
//! keys.entries().iter().for_each(|entry| println!("{entry}"));
//! let services = ["cifs", "host"].map(|class| ServiceName::Class(class.to_owned())).to_vec();
//! let acceptor = Acceptor::new(Policy { services, ..Policy::default() });
//! let replays = ReplayCache::new(1 << 18);
//!
//! // For each token:
//! let request = Request {
//!     token: mech_token,
//!     now: Time::from_seconds(unix_seconds),
//!     random: &random,
//!     bindings: BindingCheck::Ignored,
//! };
//! match acceptor.accept(&request, &keys, &replays) {
//!     Ok(mut accepted) => {
//!         println!("{:?} until {}", accepted.ticket.client, accepted.ticket.end_time);
//!         let _answer = accepted.reply.take();
//!         let _session_key = &accepted.session_key.bytes()[..16];
//!         // SPNEGO: `accepted.messages.verify(mech_types, mech_list_mic)`, `accepted.messages.sign(mech_types)`.
//!     }
//!     // The client's clock is wrong: it gets the reply and comes again.
//!     Err(refusal) if refusal.is_recoverable() => drop(refusal.reply),
//!     Err(refusal) => println!("refused: {refusal} ({})", refusal.reason.code()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Decisions and invariants: `docs/design/realms.md`.

mod acceptor;
pub mod crypto;
mod der;
pub mod gss;
pub mod keytab;
pub mod message;
pub mod pac;
mod replay;
mod time;

pub use acceptor::{
    Accepted, Acceptor, BindingCheck, Client, KeySource, OpenTicket, Policy, Reason, Refusal, Request,
    ServiceName, TicketKey,
};
pub use crypto::{Etype, EtypeRefused, Key};
pub use der::Malformed;
pub use gss::{ChannelBindings, GssFlags};
pub use keytab::Keys;
pub use message::{Principal, SessionKey};
pub use pac::{Pac, Sid};
pub use replay::ReplayCache;
pub use time::Time;
