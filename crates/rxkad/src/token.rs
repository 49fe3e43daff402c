//! A token: what a client needs to prove who it is.

use krb::crypto::{KeyRefused, usage};
use krb::keytab::KeyEntry;
use krb::message::{
    AuthorizationData, EncTicketPart, EncryptedData, Principal, SessionKey, Ticket, TicketFlags,
};
use krb::{Malformed, Time};
use zeroize::Zeroizing;

use crate::wire::{KVNO_ENCRYPTED_PART, KVNO_TICKET, TICKET_LEN_MAX, TICKET_LEN_MIN};
use crate::{Code, DesKey};

/// A ticket for the AFS service and the key that proves that it is ours. Wiped when dropped; `Debug` tells neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    kvno: u32,
    ticket: Zeroizing<Vec<u8>>,
    key: DesKey,
    end: Time,
}

/// Reason why something is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRefused {
    /// The ticket is not one that a server takes.
    #[error("{0}")]
    Code(#[from] Code),
    /// The ticket is none of Kerberos 5.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The session key is of a type that is not used.
    #[error("the session key: {0}")]
    SessionKey(#[from] KeyRefused),
    /// The cell's key is of a type that is not used.
    #[error("the cell's key: {0}")]
    CellKey(#[from] krb::EtypeRefused),
}

impl Token {
    /// Makes a token of its parts, as `aklog` stores them. The ids beside them (`viceid`) prove nothing and are left out.
    pub fn new(kvno: u32, ticket: &[u8], key: DesKey, end: Time) -> Result<Self, Code> {
        if !(TICKET_LEN_MIN..=TICKET_LEN_MAX).contains(&ticket.len()) {
            return Err(Code::TicketLength);
        }
        Ok(Self { kvno, ticket: Zeroizing::new(ticket.to_vec()), key, end })
    }

    /// Makes a token of a service ticket for `afs/CELL` and its session key, as a credentials cache has them.
    ///
    /// So `kinit` is enough for a client of ours: no `aklog` is needed.
    pub fn from_service_ticket(ticket: &[u8], session: &SessionKey, end: Time) -> Result<Self, TokenRefused> {
        Ticket::parse(ticket)?;
        Ok(Self::new(KVNO_TICKET, ticket, DesKey::derive(session)?, end)?)
    }

    /// Makes a superuser's token (`-localauth`) with the cell's own key: only its holder can make such a ticket.
    ///
    /// The session key is 8 random bytes, the confounder 16.
    pub fn local_auth(
        cell_key: &KeyEntry,
        session: [u8; 8],
        confounder: &[u8; 16],
    ) -> Result<Self, TokenRefused> {
        let cell = cell_key.key.as_ref().map_err(|refused| *refused)?;
        let key = DesKey::with_parity(session);
        let end = Time::from_seconds(LOCAL_AUTH_END);
        let part = EncTicketPart {
            flags: TicketFlags::default(),
            key: SessionKey::new(DES_CBC_CRC, key.bytes()),
            client: Principal::new(&["afs"], ""),
            transited_type: 0,
            transited: &[],
            auth_time: Time::from_seconds(0),
            start_time: None,
            end_time: end,
            renew_till: None,
            authorization_data: AuthorizationData::default(),
        };
        let cipher = cell.encrypt(usage::TICKET, &part.encode(), confounder);
        let (etype, kvno) = (cell.etype().number(), Some(cell_key.kvno));
        let ticket = EncryptedData { etype, kvno, cipher: &cipher }.encode();
        Ok(Self::new(KVNO_ENCRYPTED_PART, &ticket, key, end)?)
    }

    /// Returns the kvno field, which says what kind of ticket it is.
    pub fn kvno(&self) -> u32 {
        self.kvno
    }

    /// Returns the ticket.
    pub fn ticket(&self) -> &[u8] {
        &self.ticket
    }

    /// Returns the session key.
    pub fn key(&self) -> &DesKey {
        &self.key
    }

    /// Returns the time when the ticket ends.
    pub fn end(&self) -> Time {
        self.end
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kvno, ticket, key: _, end } = self;
        write!(f, "Token(kvno {kvno}, {} bytes, until {end})", ticket.len())
    }
}

/// des-cbc-crc, as stock servers name the session key of such tickets: 8 bytes that are used as they are.
pub(crate) const DES_CBC_CRC: i32 = 1;
/// End of the ticket of a local superuser: as late as stock servers say.
const LOCAL_AUTH_END: i64 = 0x7fff_ffff;
