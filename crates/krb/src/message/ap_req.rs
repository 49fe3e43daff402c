//! AP-REQ (RFC 4120 5.5.1): a ticket and an authenticator.

use super::{EncryptedData, Ticket, expect_header};
use crate::der::{BIT_STRING, Malformed, Reader, application, element, field, integer};

/// Request of a client to a service: a ticket and an authenticator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApReq<'a> {
    /// Set if the ticket is under the session key of a ticket of the service (user to user).
    pub use_session_key: bool,
    /// The client wants an AP-REP.
    pub mutual_required: bool,
    /// The ticket.
    pub ticket: Ticket<'a>,
    /// The authenticator, under the ticket's session key.
    pub authenticator: EncryptedData<'a>,
}

impl<'a> ApReq<'a> {
    /// The first byte of an AP-REQ that stands alone.
    pub const TAG: u8 = 0x6e;

    /// Reads it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new("AP-REQ", bytes).only(Self::TAG)?.sequence()?;
        expect_header(&mut fields, 0, 14)?;
        let options = fields.field(2)?.flags()?;
        let ticket = Ticket::read(fields.field(3)?)?;
        let authenticator = EncryptedData::read(fields.field(4)?)?;
        Ok(Self {
            use_session_key: options & USE_SESSION_KEY != 0,
            mutual_required: options & MUTUAL_REQUIRED != 0,
            ticket,
            authenticator,
        })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut options = 0;
        if self.use_session_key {
            options |= USE_SESSION_KEY;
        }
        if self.mutual_required {
            options |= MUTUAL_REQUIRED;
        }
        let options = [&[0][..], &options.to_be_bytes()].concat();
        application(
            14,
            &[
                field(0, integer(super::PVNO)),
                field(1, integer(14)),
                field(2, element(BIT_STRING, &[options])),
                field(3, self.ticket.encode()),
                field(4, self.authenticator.encode()),
            ],
        )
    }
}

const USE_SESSION_KEY: u32 = 1 << 30;
const MUTUAL_REQUIRED: u32 = 1 << 29;
