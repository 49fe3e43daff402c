//! Which proofs a server takes, and its observer.

use krb::OpenTicket;
use rx::security::ConnectionContext;

use crate::{Level, Refused};

/// Rules by which a server takes a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The rules for tickets. `has_local_auth` says whether a client that has the cell's key is a superuser (`-localauth`).
    pub tickets: krb::Policy,
    /// The least level, of the whole cell. A service may want more for a volume, by the principal's level.
    pub min_level: Level,
    /// Set if a name's first part may have a dot: then `a.b` and `a/b` are one to AFS.
    pub has_dotted_principals: bool,
}

impl Default for Policy {
    /// Tickets by [`krb::Policy::rxkad`], any level, no dots.
    fn default() -> Self {
        Self { tickets: krb::Policy::rxkad(), min_level: Level::Clear, has_dotted_principals: false }
    }
}

/// Hears of proofs, for the audit and the log. The calls come on the lane and must not wait.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// Notes that a client has proved who it is. The ticket also has what its realm says of its groups, which the
    /// principal has not.
    fn accepted(&self, connection: &ConnectionContext, ticket: &OpenTicket, level: Level) {
        let _ = (connection, ticket, level);
    }

    /// Notes that a client's proof is refused.
    fn refused(&self, connection: &ConnectionContext, refused: &Refused) {
        let _ = (connection, refused);
    }
}
