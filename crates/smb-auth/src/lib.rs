//! Sign-in of SMB sessions, sans-IO: SPNEGO (RFC 4178, MS-SPNG) around a mechanism, which is NTLMv2 (MS-NLMP), both sides.
//!
//! [`Acceptor`] takes the tokens of one SESSION_SETUP exchange after the other and ends with the user and the
//! session's key; [`Initiator`] makes them. Neither has a clock or randomness: both are given. NTLMv1 and LM
//! are refused, a message integrity code is required of a client that says, under the proof, that there is
//! one, and a wrong proof takes as long as a right one.
//!
//! A client that knows the NT hash of an account can sign in as it: what hashes there are is behind
//! [`Accounts`].

mod acceptor;
mod der;
mod initiator;
mod mechanism;
pub mod ntlm;
mod sign_in;
pub mod spnego;

pub use acceptor::{Acceptor, Reply, hint};
pub use initiator::{Credentials, Initiator};
pub use sign_in::{Accounts, Policy, SignedIn, Target, Who};

use smb_wire::Status;
use zeroize::Zeroizing;

/// Longest token that is looked at, bytes: NTLM's longest fields are some hundred bytes each.
pub const TOKEN_MAX: usize = 16 << 10;

/// The key of a session, from which its others are made.
pub type SessionKey = Zeroizing<[u8; 16]>;

/// Reason why a sign-in is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A token is not what it should be, or none of those that are spoken.
    #[error("the token is malformed")]
    Malformed,
    /// Longer than [`TOKEN_MAX`].
    #[error("the token is too long")]
    TooLong,
    /// No mechanism in common.
    #[error("no mechanism in common")]
    NoMechanism,
    /// A message came where another has to.
    #[error("a message out of its order")]
    Order,
    /// Only NTLMv1 or LM, or without what NTLMv2 needs.
    #[error("nothing as strong as NTLMv2")]
    Weak,
    /// The password is wrong, or there is no such account: no client learns which.
    #[error("wrong name or password")]
    Wrong,
    /// The messages have no integrity code, though one is announced or needed.
    #[error("no message integrity code")]
    NoMic,
    /// The password of this name is not looked at for a while, as too many sign-ins with it have failed.
    #[error("too many failed sign-ins with this name")]
    HeldOff,
    /// The tokens were changed on their way.
    #[error("a message was changed on its way")]
    Changed,
    /// An anonymous sign-in, where that is not allowed.
    #[error("anonymous sign-in is not allowed")]
    Anonymous,
}

impl Refused {
    /// Returns what SESSION_SETUP fails with.
    pub fn status(self) -> Status {
        match self {
            Self::Malformed | Self::TooLong | Self::NoMechanism | Self::Order | Self::NoMic => {
                Status::INVALID_PARAMETER
            }
            Self::Weak | Self::Wrong => Status::LOGON_FAILURE,
            Self::HeldOff => Status::ACCOUNT_LOCKED_OUT,
            Self::Changed | Self::Anonymous => Status::ACCESS_DENIED,
        }
    }
}
