//! Options that a client offers, and insists on.

use smb_proto::sealing::Cipher;
use smb_proto::signing::SigningAlgorithm;
use smb_wire::{Dialect, Guid};

/// Rule for signing messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signing {
    /// Messages are signed where the server insists.
    IfRequired,
    /// Messages are always signed.
    Required,
}

/// Rule for encrypting messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// The feature is not offered.
    Never,
    /// Messages are encrypted where the session or the share wants it.
    IfRequired,
    /// Messages are encrypted from the end of the sign-in on.
    Required,
}

/// Fills a slice with random bytes: a client has no source of its own, so that a simulated one can be repeated.
pub type Random = std::rc::Rc<dyn Fn(&mut [u8])>;

/// Options of negotiating a connection.
#[derive(Clone)]
pub struct Options {
    /// The client's GUID on all of its connections.
    pub client_guid: Guid,
    /// Dialects that are offered, oldest first; at least one.
    pub dialects: Vec<Dialect>,
    /// Rule for signing messages.
    pub signing: Signing,
    /// Signing algorithms in the order of preference (3.1.1).
    pub signing_algorithms: Vec<SigningAlgorithm>,
    /// Rule for encrypting messages.
    pub sealing: Sealing,
    /// Ciphers in the order of preference (3.1.1).
    pub ciphers: Vec<Cipher>,
    /// Credits that the client asks for in all.
    pub credits: u16,
    /// Set if the client says that it understands several connections of one session.
    pub multichannel: bool,
    /// Set if the server may say that it has ended a session (3.1.1):
    /// [`BreakNotification::SessionClosed`](crate::BreakNotification::SessionClosed).
    pub notifications: bool,
    /// Randomness: salts and challenges.
    pub random: Random,
}

impl Options {
    /// Offers everything that this client speaks; signed where the server insists, encrypted where session or share
    /// do.
    pub fn new(client_guid: Guid, random: Random) -> Self {
        Self {
            client_guid,
            dialects: Dialect::ALL.to_vec(),
            signing: Signing::IfRequired,
            signing_algorithms: SigningAlgorithm::PREFERRED.to_vec(),
            sealing: Sealing::IfRequired,
            ciphers: Cipher::PREFERRED.to_vec(),
            credits: 512,
            multichannel: true,
            notifications: true,
            random,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("client_guid", &self.client_guid)
            .field("dialects", &self.dialects)
            .field("signing", &self.signing)
            .field("sealing", &self.sealing)
            .field("credits", &self.credits)
            .finish_non_exhaustive()
    }
}
