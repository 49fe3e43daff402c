//! Why a proof is refused, and the code that the client gets.

use krb::Reason;
use krb::crypto::KeyRefused;
use krb::keytab::UnopenedTicket;
use krb::message::Principal;

use crate::Code;

/// Reason why a proof is refused. The text is for the server's log; the client gets the code alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The response itself is wrong.
    #[error("{0}")]
    Response(#[from] Code),
    /// The ticket is of Kerberos 4, or of a kind that is not known.
    #[error("a ticket of kvno {0}: Kerberos 4 is not used; get a new token with aklog")]
    Kvno(
        /// The kvno field.
        u32,
    ),
    /// The ticket is refused.
    #[error("{0}")]
    Ticket(#[from] Reason),
    /// The session key is of a type that is not used.
    #[error("the session key: {0}")]
    SessionKey(#[from] KeyRefused),
    /// AFS has no name for the client: three parts, or a dot in the first one.
    #[error("{0} has no name in AFS")]
    Name(
        /// The client.
        Principal,
    ),
    /// The server does not know the time, so that no ticket can be judged.
    #[error("the server does not know the time of day")]
    NoTimeOfDay,
}

impl Refused {
    /// Returns the abort code. It is one of rxkad only where the client's token is at fault: for it clients give the
    /// token up.
    pub fn code(&self) -> i32 {
        let code = match self {
            Self::Response(code) => *code,
            Self::Kvno(_) => Code::UnknownKey,
            Self::Ticket(reason) => code_of(reason),
            Self::SessionKey(_) => Code::BadKey,
            Self::Name(_) => Code::BadTicket,
            Self::NoTimeOfDay => return rx::abort::RESTARTING,
        };
        code.number()
    }
}

fn code_of(reason: &Reason) -> Code {
    match reason {
        Reason::Ticket(UnopenedTicket::Integrity) => Code::BadTicket,
        Reason::Ticket(_) => Code::UnknownKey,
        Reason::Expired => Code::Expired,
        Reason::NotYetValid => Code::NoAuth,
        _ => Code::BadTicket,
    }
}

#[cfg(test)]
mod tests {
    use krb::Etype;

    use super::*;

    #[test]
    fn codes_are_those_of_stock_servers() {
        for (reason, code) in [
            (Reason::Expired, Code::Expired),
            (Reason::NotYetValid, Code::NoAuth),
            (Reason::Lifetime, Code::BadTicket),
            (Reason::Client, Code::BadTicket),
            (Reason::Malformed(krb::Malformed("Ticket")), Code::BadTicket),
            (Reason::Ticket(UnopenedTicket::Integrity), Code::BadTicket),
            (Reason::Ticket(UnopenedTicket::NoKey(Etype::Aes256Sha1)), Code::UnknownKey),
            (
                Reason::Ticket(UnopenedTicket::NoVersion { etype: Etype::Aes256Sha1, kvno: 4 }),
                Code::UnknownKey,
            ),
            (Reason::Ticket(UnopenedTicket::Etype(krb::EtypeRefused { number: 23 })), Code::UnknownKey),
        ] {
            assert_eq!(Refused::Ticket(reason.clone()).code(), code.number(), "{reason}");
        }
        assert_eq!(Refused::Kvno(3).code(), Code::UnknownKey.number());
        assert_eq!(Code::from_number(Refused::NoTimeOfDay.code()), None, "a fault of ours costs no token");
    }
}
