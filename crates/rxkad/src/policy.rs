//! What a server takes, and who is told.

use krb::OpenTicket;
use rx::security::ConnectionContext;

use crate::{Level, Refused};

/// What a server takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which tickets. `has_local_auth` says whether whoever has the cell's key is a superuser (`-localauth`).
    pub tickets: krb::Policy,
    /// The least level, of the whole cell. A service may want more for what it keeps, by the principal's level.
    pub min_level: Level,
    /// Whether a name's first part may have a dot: then `a.b` and `a/b` are one to AFS.
    pub has_dotted_principals: bool,
}

impl Default for Policy {
    /// Tickets by [`krb::Policy::rxkad`], any level, no dots.
    fn default() -> Self {
        Self { tickets: krb::Policy::rxkad(), min_level: Level::Clear, has_dotted_principals: false }
    }
}

/// Is told of proofs, for the audit and the log. It is called on the lane and must not wait.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// A client has proved who it is. The ticket has what the connection's principal has not: its realm's word on groups.
    fn accepted(&self, connection: &ConnectionContext, ticket: &OpenTicket, level: Level) {
        let _ = (connection, ticket, level);
    }

    /// A client's proof is refused.
    fn refused(&self, connection: &ConnectionContext, refused: &Refused) {
        let _ = (connection, refused);
    }
}
