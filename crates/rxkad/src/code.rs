//! Abort codes of rxkad (OpenAFS `rxkad_errs.et`).

use rx::security::SecurityError;

/// An abort code of rxkad. Stock clients take any of them for a bad token, so none is sent for load or a fault of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(i32)]
pub enum Code {
    /// RXKADINCONSISTENCY: another version, or numbers that cannot be.
    #[error("a message of rxkad that cannot be (RXKADINCONSISTENCY)")]
    Inconsistency = 19_270_400,
    /// RXKADPACKETSHORT: a message ends too early.
    #[error("a message of rxkad ends too early (RXKADPACKETSHORT)")]
    PacketShort = 19_270_401,
    /// RXKADLEVELFAIL: the level is below the least that is allowed, or there is none such.
    #[error("the protection level is too low, or unknown (RXKADLEVELFAIL)")]
    LevelFail = 19_270_402,
    /// RXKADTICKETLEN: a ticket of fewer bytes than tickets have, or of more.
    #[error("the ticket is too short or too long (RXKADTICKETLEN)")]
    TicketLength = 19_270_403,
    /// RXKADOUTOFSEQUENCE: the answer is to another question.
    #[error("an answer to another challenge (RXKADOUTOFSEQUENCE)")]
    OutOfSequence = 19_270_404,
    /// RXKADNOAUTH: there is no proof, or the ticket is not valid yet.
    #[error("no proof, or a ticket that is not valid yet (RXKADNOAUTH)")]
    NoAuth = 19_270_405,
    /// RXKADBADKEY: the session key is of a type that is not used.
    #[error("the session key is of a type that is not used (RXKADBADKEY)")]
    BadKey = 19_270_406,
    /// RXKADBADTICKET: the ticket does not decrypt, or says what tickets must not.
    #[error("the ticket is not to be believed (RXKADBADTICKET)")]
    BadTicket = 19_270_407,
    /// RXKADUNKNOWNKEY: there is no such key; mostly the KDC has a newer one.
    #[error("no key of the ticket's version and type (RXKADUNKNOWNKEY)")]
    UnknownKey = 19_270_408,
    /// RXKADEXPIRED: the ticket has ended.
    #[error("the ticket has expired (RXKADEXPIRED)")]
    Expired = 19_270_409,
    /// RXKADSEALEDINCON: a checksum is wrong, or what is sealed belongs elsewhere.
    #[error("a checksum is wrong, or a message belongs elsewhere (RXKADSEALEDINCON)")]
    SealedInconsistency = 19_270_410,
    /// RXKADDATALEN: the data is not as long as it must be.
    #[error("the data has another length than it says (RXKADDATALEN)")]
    DataLength = 19_270_411,
    /// RXKADILLEGALLEVEL: there is no such level.
    #[error("no such protection level (RXKADILLEGALLEVEL)")]
    IllegalLevel = 19_270_412,
}

impl Code {
    /// Every code, in the order of the numbers.
    pub const ALL: [Self; 13] = [
        Self::Inconsistency,
        Self::PacketShort,
        Self::LevelFail,
        Self::TicketLength,
        Self::OutOfSequence,
        Self::NoAuth,
        Self::BadKey,
        Self::BadTicket,
        Self::UnknownKey,
        Self::Expired,
        Self::SealedInconsistency,
        Self::DataLength,
        Self::IllegalLevel,
    ];

    /// Returns the number on the wire.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// Returns the code of a number on the wire.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }
}

impl From<Code> for SecurityError {
    fn from(code: Code) -> Self {
        Self { code: code.number() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_thirteen_in_a_row() {
        for (at, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code.number(), 19_270_400 + at as i32);
            assert_eq!(Code::from_number(code.number()), Some(code));
        }
        assert_eq!((Code::from_number(19_270_399), Code::from_number(19_270_413)), (None, None));
        assert_eq!(rx::security::not_authenticated(crate::INDEX), Some(Code::NoAuth.number()));
    }
}
