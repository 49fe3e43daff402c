//! A sign-in as its caller and its mechanism see it: accounts and names of the server go in, the identity comes out.

use zeroize::Zeroizing;

use crate::SessionKey;

/// Accounts, as far as a sign-in asks.
pub trait Accounts {
    /// Returns the NT hash of an account; of one that there is not, or that has none, a decoy that is not known
    /// outside, so that it takes as long.
    fn nt_hash(&self, domain: &str, user: &str) -> Zeroizing<[u8; 16]>;

    /// Returns whether there is such an account: where guests are let in, only others are.
    fn is_known(&self, domain: &str, user: &str) -> bool;

    /// Returns whether so many have failed with this name, be there such an account or not, that its password
    /// is not looked at now.
    fn is_held_off(&self, domain: &str, user: &str) -> bool {
        let _ = (domain, user);
        false
    }
}

/// Names of the server in a challenge.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server's NetBIOS name.
    pub netbios_name: String,
    /// The domain or workgroup.
    pub netbios_domain: String,
    /// The server's DNS name.
    pub dns_name: String,
    /// DNS name of its domain; may be empty.
    pub dns_domain: String,
}

/// Users that may sign in without proof. None, unless configured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// Names that there are not come in as a guest.
    pub guest: bool,
    /// Anonymous clients come in.
    pub anonymous: bool,
}

/// Identity of a client that signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// An account, by the names that were sent.
    User {
        /// The domain, as the client believes.
        domain: String,
        /// The user.
        user: String,
    },
    /// A name that there is not.
    Guest,
    /// An anonymous client.
    Anonymous,
}

/// Result of a sign-in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// The identity of the client.
    pub who: Who,
    /// The session's key. A guest has none, and nothing of its session is signed or sealed; that of an
    /// anonymous session is public, and proves nothing.
    pub session_key: Option<SessionKey>,
}
