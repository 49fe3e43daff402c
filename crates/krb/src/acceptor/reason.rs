//! Why an acceptor refuses, for the log, the audit and the client.

use crate::crypto::KeyRefused;
use crate::der::Malformed;
use crate::keytab::UnopenedTicket;
use crate::message::{ErrorCode, Principal};
use crate::pac::PacRefused;

/// A client that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Reason of the refusal.
    pub reason: Reason,
    /// Client that the ticket was issued to, if a key opened it. Nothing else is known of the sender.
    pub client: Option<Principal>,
    /// A KRB-ERROR for the client, in a frame if its token was in one.
    pub reply: Option<Vec<u8>>,
}

impl Refusal {
    pub(super) fn unanswered(reason: Reason) -> Box<Self> {
        Box::new(Self { reason, client: None, reply: None })
    }

    /// Returns true if the client corrects its clock by the reply and sends another token: SMB says "more processing
    /// required".
    pub fn is_recoverable(&self) -> bool {
        self.reply.is_some() && self.reason.is_recoverable()
    }
}

/// Reason why an acceptor refuses. The text is for the log of the server: a client gets the code alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// A message is not what it should be.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The token is longer than [`Acceptor::TOKEN_BYTES_MAX`](super::Acceptor::TOKEN_BYTES_MAX).
    #[error("the token is too long")]
    TooLong,
    /// The token is another mechanism's.
    #[error("a token of another mechanism than Kerberos")]
    Mechanism,
    /// The ticket is under a session key.
    #[error("user to user tickets are not accepted")]
    UserToUser,
    /// The ticket is for a service that is not this one.
    #[error("the ticket is for {0}, which is another service")]
    Service(
        /// The other service.
        Principal,
    ),
    /// No key opens the ticket.
    #[error("{0}")]
    Ticket(#[from] UnopenedTicket),
    /// The session key is not used; the client or its KDC must choose another type.
    #[error("the session key: {0}")]
    SessionKey(KeyRefused),
    /// The ticket is not valid yet, or marked as invalid.
    #[error("the ticket is not valid yet: are the clocks right?")]
    NotYetValid,
    /// The ticket has ended.
    #[error("the ticket has expired")]
    Expired,
    /// The ticket is valid for longer than tickets may be.
    #[error("the ticket is valid for too long")]
    Lifetime,
    /// The client's name or realm reads as another one's, or is empty.
    #[error("the client's name or realm is ambiguous")]
    Client,
    /// The ticket passed realms, and no KDC says that they are trusted.
    #[error("the ticket passed realms that its KDC did not check")]
    Transited,
    /// The ticket has authorization data that must be understood, and is not.
    #[error("authorization data of type {0} is not known")]
    AuthorizationData(
        /// The type.
        i32,
    ),
    /// The domain's certificate is malformed, or its signature or its owner is wrong.
    #[error("{0}")]
    Pac(#[from] PacRefused),
    /// The authenticator does not decrypt.
    #[error("the authenticator does not decrypt")]
    AuthenticatorIntegrity,
    /// Ticket and authenticator name different clients.
    #[error("ticket and authenticator name different clients")]
    ClientMismatch,
    /// The client's clock is too far off.
    #[error("the client's clock is {seconds} s ahead")]
    Skew {
        /// Seconds that the client's clock is ahead of ours; negative where it is behind.
        seconds: i64,
    },
    /// The authenticator was accepted before.
    #[error("the authenticator is a replay")]
    Replay,
    /// The replay cache has no room for the authenticator.
    #[error("too many sign-ins to tell replays")]
    ReplayCacheFull,
    /// The authenticator has no checksum of GSS-API.
    #[error("an authenticator without the checksum of GSS-API")]
    NoGssChecksum,
    /// Three messages, as DCE/RPC has it.
    #[error("DCE style is not accepted")]
    DceStyle,
    /// The client gives no channel bindings, where it must.
    #[error("no channel bindings")]
    NoBindings,
    /// The client is bound to another channel: a third party is between it and us, or has another certificate.
    #[error("channel bindings of another channel")]
    WrongBindings,
}

impl Reason {
    /// Returns the code in the KRB-ERROR.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Malformed(_) | Self::Mechanism | Self::UserToUser | Self::DceStyle => ErrorCode::MSG_TYPE,
            Self::Service(_) => ErrorCode::NOT_US,
            Self::Ticket(UnopenedTicket::Etype(_)) | Self::SessionKey(_) => ErrorCode::ETYPE_NOSUPP,
            Self::Ticket(UnopenedTicket::NoKey(_)) => ErrorCode::NOKEY,
            Self::Ticket(UnopenedTicket::NoVersion { .. }) => ErrorCode::BADKEYVER,
            Self::Ticket(UnopenedTicket::Integrity) | Self::AuthenticatorIntegrity => {
                ErrorCode::BAD_INTEGRITY
            }
            Self::NotYetValid => ErrorCode::TKT_NYV,
            Self::Expired => ErrorCode::TKT_EXPIRED,
            Self::Transited => ErrorCode::PATH_NOT_ACCEPTED,
            Self::Pac(_) | Self::NoBindings | Self::WrongBindings => ErrorCode::MODIFIED,
            Self::ClientMismatch => ErrorCode::BADMATCH,
            Self::Skew { .. } => ErrorCode::SKEW,
            Self::Replay => ErrorCode::REPEAT,
            Self::NoGssChecksum => ErrorCode::INAPP_CKSUM,
            Self::TooLong
            | Self::Lifetime
            | Self::Client
            | Self::AuthorizationData(_)
            | Self::ReplayCacheFull => ErrorCode::GENERIC,
        }
    }

    /// Returns true if the cause is the client's clock, so that the reply helps the client.
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::Skew { .. } | Self::NotYetValid)
    }
}
