//! What an acceptor knows when it has accepted.

use crate::Time;
use crate::gss::{GssFlags, MessageIntegrity};
use crate::message::{Principal, SessionKey, TicketFlags};
use crate::pac::Pac;

/// Who a ticket is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// A principal of a realm, with a name that reads as no other.
    Principal(Principal),
    /// A client that has the AFS cell's key (`-localauth`): a superuser, and no user of any realm.
    LocalAuth,
}

/// Which key of a service opened a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TicketKey {
    /// Its version.
    pub kvno: u32,
    /// Its type's number.
    pub etype: i32,
    /// The file that it is from.
    pub file: std::sync::Arc<str>,
}

/// A ticket that is valid. Alone it proves nothing: its holder must still show that it has the session key.
#[derive(Clone, Debug)]
pub struct OpenTicket {
    /// Who it is for.
    pub client: Client,
    /// The session key.
    pub session_key: SessionKey,
    /// Its flags.
    pub flags: TicketFlags,
    /// When the client signed in to its realm.
    pub auth_time: Time,
    /// From when on it is valid.
    pub start_time: Time,
    /// Until when it is valid: a session ends then.
    pub end_time: Time,
    /// What the client's domain says about it, with a verified signature.
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
    /// Where it is from.
    pub key_source: KeySource,
    /// The flags of GSS-API that the client asked for.
    pub flags: GssFlags,
    /// Whether the client gave channel bindings.
    pub has_bindings: bool,
    /// Makes and checks integrity codes, such as mechListMIC.
    pub messages: MessageIntegrity,
    /// The AP-REP, in a frame if the AP-REQ was in one; `None` where the client wants none.
    pub reply: Option<Vec<u8>>,
}

/// Where the key of a context is from. The acceptor makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The client made it for this context.
    InitiatorSubkey,
    /// It is the ticket's.
    Ticket,
}
