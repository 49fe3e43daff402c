//! Errors of requests, sign-ins and connections.

use std::io;
use std::sync::Arc;

use smb_auth::Refused;
use smb_proto::sealing::NoNonce;
use smb_wire::{Command, Malformed, Status};

/// Error of a request, a sign-in or a connection. That of a connection ends every request on it.
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
    #[error("the server refused {}{status}", asked(*command, *status))]
    Status {
        /// Command of the request.
        command: Command,
        /// Status of the answer.
        status: Status,
    },
    /// A token of the server's is not what it should be, or none that this client answers.
    #[error("sign-in: {0}")]
    SignIn(#[from] Refused),
    /// The answer was changed on its way, or the server has another key.
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
    /// Signatures are wanted, and the session has no key, as of a guest or an anonymous client.
    #[error("the server let us in as a guest, who has no key to sign with")]
    NoKey,
    /// The negotiated parameters are not those that the server says: an attacker stood in between.
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
    /// Returns the status that the server answered with, if it did.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// Returns what the server refused, in a user's words where there are some; the status follows.
fn asked(command: Command, status: Status) -> String {
    let (what, why) = match (command, status) {
        (Command::SessionSetup, Status::LOGON_FAILURE) => {
            ("the sign-in", "the user or the password is wrong")
        }
        (Command::SessionSetup, Status::ACCOUNT_DISABLED) => ("the sign-in", "the account is disabled"),
        (Command::SessionSetup, Status::ACCOUNT_LOCKED_OUT) => {
            ("the sign-in", "the account is locked; try again later")
        }
        (Command::SessionSetup, Status::PASSWORD_EXPIRED) => ("the sign-in", "the password has expired"),
        (Command::SessionSetup, _) => return "the sign-in: ".to_owned(),
        (Command::TreeConnect, Status::BAD_NETWORK_NAME) => ("the share", "there is none of that name"),
        (Command::TreeConnect, Status::ACCESS_DENIED) => ("the share", "this user may not use it"),
        (Command::TreeConnect, _) => return "the share: ".to_owned(),
        _ => return format!("{command:?}: "),
    };
    format!("{what}: {why}: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_was_refused_why_and_by_which_status() {
        let told = |command, status| Error::Status { command, status }.to_string();
        for (command, status, expected) in [
            (
                Command::SessionSetup,
                Status::LOGON_FAILURE,
                "the server refused the sign-in: the user or the password is wrong: STATUS_LOGON_FAILURE",
            ),
            (
                Command::TreeConnect,
                Status::BAD_NETWORK_NAME,
                "the server refused the share: there is none of that name: STATUS_BAD_NETWORK_NAME",
            ),
            (Command::Read, Status::ACCESS_DENIED, "the server refused Read: STATUS_ACCESS_DENIED"),
        ] {
            assert_eq!(told(command, status), expected);
        }
    }
}
