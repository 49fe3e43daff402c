//! Keys of one channel: what signs and seals its messages.

use std::cell::RefCell;

use smb_proto::sealing::{Nonces, SealingKey};
use smb_proto::signing::SigningKey;
use smb_wire::Malformed;

use crate::error::Error;

/// Keys of one channel.
pub(crate) struct Keys {
    pub(crate) session_id: u64,
    pub(crate) signing: Option<SigningKey>,
    /// Answers must be signed.
    pub(crate) must_sign: bool,
    /// The server encrypts all that is of the session.
    pub(crate) must_seal: bool,
    pub(crate) sealing: Option<(SealingKey, SealingKey)>,
    pub(crate) nonces: RefCell<Nonces>,
}

impl Keys {
    pub(crate) fn seal(&self, frame: &mut [u8]) -> Result<(), Error> {
        let (to_server, _) = self.sealing.as_ref().ok_or(Error::NoEncryption)?;
        Ok(to_server.seal(self.session_id, &mut self.nonces.borrow_mut(), frame)?)
    }

    pub(crate) fn open<'f>(&self, frame: &'f mut [u8]) -> Result<&'f mut [u8], Malformed> {
        let (_, from_server) = self.sealing.as_ref().ok_or(Malformed::Protocol)?;
        from_server.open(frame)
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({:#x}, {:?})", self.session_id, self.signing)
    }
}
