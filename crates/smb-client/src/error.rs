//! Why a request, a sign-in or a connection failed.

use std::io;
use std::sync::Arc;

use smb_auth::Refused;
use smb_proto::sealing::NoNonce;
use smb_wire::{Command, Malformed, Status};

/// What went wrong. That of a connection is told to every request on it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be made, or broke.
    #[error("the connection failed: {0}")]
    Io(Arc<io::Error>),
    /// The server ended it.
    #[error("the server closed the connection")]
    Closed,
    /// The server sent what is no SMB.
    #[error("the server sent {0}")]
    Malformed(#[from] Malformed),
    /// The server answered with something else than was asked for.
    #[error("the server answered with {0}")]
    Unexpected(&'static str),
    /// The request failed.
    #[error("{command:?} failed: {status}")]
    Status {
        /// What was asked for.
        command: Command,
        /// What it was answered with.
        status: Status,
    },
    /// A token of the server's is not what it should be, or none that this client answers.
    #[error("sign-in: {0}")]
    SignIn(#[from] Refused),
    /// Somebody changed the answer, or the server has another key.
    #[error("an answer has a wrong signature")]
    WrongSignature,
    /// Signatures are required.
    #[error("an answer is not signed")]
    Unsigned,
    /// The request was encrypted.
    #[error("an answer is not encrypted")]
    Unsealed,
    /// Encryption is wanted, and the server has none.
    #[error("the server does not encrypt")]
    NoEncryption,
    /// Signatures are wanted, and who signed in has no key: a guest, or nobody.
    #[error("the server let us in as a guest, who has no key to sign with")]
    NoKey,
    /// What was negotiated is not what the server says it was: somebody stood in between.
    #[error("the negotiation was changed on its way")]
    Downgraded,
    /// The connection has sealed as many messages as it may.
    #[error(transparent)]
    NoNonce(#[from] NoNonce),
    /// A request longer than the credits of a connection can ever pay for.
    #[error("the request needs more credits than the server gives")]
    TooLarge,
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl Error {
    /// The status that the server answered with, if it did.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}
