//! Interface of a mechanism for the negotiation around it (RFC 2743): to add one, Kerberos for instance,
//! implement this and name it where [`Acceptor`](crate::Acceptor) makes them.

use std::fmt::Debug;

use smb_wire::Role;

use crate::{Accounts, Refused, SignedIn, Target};

/// The server's side of one sign-in by one mechanism.
pub(crate) trait Mechanism: Debug + Send {
    /// Returns the mechanism's object identifier in DER.
    fn oid(&self) -> &'static [u8];

    /// Takes the client's next token (`GSS_Accept_sec_context`).
    ///
    /// # Errors
    /// Why the sign-in has failed; no other token is given to it then.
    fn step(&mut self, token: &[u8], host: &Host<'_>) -> Result<Step, Refused>;

    /// Returns the user's name as the client gave it, once it has, be that true or not.
    fn claimed(&self) -> Option<&str>;

    /// Returns the integrity code of `text` by that side, once the sign-in is done (`GSS_GetMIC`); `None` where there
    /// is no key, or one that proves nothing.
    fn mic(&self, sender: Role, text: &[u8]) -> Option<Vec<u8>>;
}

/// The server that the client signs in to.
#[derive(Clone, Copy)]
pub(crate) struct Host<'a> {
    pub(crate) target: &'a Target,
    /// 100 ns since 1601.
    pub(crate) now: u64,
    pub(crate) accounts: &'a dyn Accounts,
}

/// Step that a token led to.
pub(crate) enum Step {
    /// The client has to answer this.
    More(Vec<u8>),
    /// The sign-in has succeeded; `token` is for the client, if it needs a last one.
    Done { token: Option<Vec<u8>>, signed_in: SignedIn },
}
