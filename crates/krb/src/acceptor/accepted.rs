//! What an acceptor knows when it has accepted.

use crate::Time;
use crate::gss::{GssFlags, MessageIntegrity};
use crate::message::{Principal, SessionKey, TicketFlags};
use crate::pac::Pac;

/// Client that a ticket names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// A principal of a realm, with a name that reads as no other.
    Principal(Principal),
    /// A client that has the AFS cell's key (`-localauth`): a superuser, and no user of any realm.
    LocalAuth,
}

/// Key of a service that opened a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketKey {
    /// Version of the key.
    pub kvno: u32,
    /// Number of the key's type.
    pub etype: i32,
    /// File that the key is from.
    pub file: std::sync::Arc<str>,
}

/// A ticket that is valid. Alone it proves nothing: its holder must still show that it has the session key.
#[derive(Clone, Debug)]
pub struct OpenTicket {
    /// Client that the ticket was issued to.
    pub client: Client,
    /// The session key.
    pub session_key: SessionKey,
    /// Flags of the ticket.
    pub flags: TicketFlags,
    /// Time at which the client signed in to its realm.
    pub auth_time: Time,
    /// Start of the ticket's validity.
    pub start_time: Time,
    /// End of the ticket's validity: a session ends then.
    pub end_time: Time,
    /// Certificate with the user's account and groups, its signature verified.
    pub pac: Option<Pac>,
    /// The key that opened it.
    pub opened_by: TicketKey,
}

/// A client that has signed in.
#[derive(Clone, Debug)]
pub struct Accepted {
    /// The ticket: who the client is, until when, and what its domain says.
    pub ticket: OpenTicket,
    /// The service on the ticket, which is not protected.
    pub service: Principal,
    /// The key of the context.
    pub session_key: SessionKey,
    /// Origin of the key.
    pub key_source: KeySource,
    /// The flags of GSS-API that the client asked for.
    pub flags: GssFlags,
    /// The client gave channel bindings.
    pub has_bindings: bool,
    /// Makes and checks integrity codes, such as mechListMIC.
    pub messages: MessageIntegrity,
    /// The AP-REP, in a frame if the AP-REQ was in one; `None` where the client wants none.
    pub reply: Option<Vec<u8>>,
}

/// Origin of a context's key. The acceptor makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The client made it for this context.
    InitiatorSubkey,
    /// The ticket's session key is used.
    Ticket,
}
