//! AP-REP (RFC 4120 5.5.2): the proof that a service could read the ticket.

use super::{EncryptedData, SessionKey, expect_header};
use crate::Time;
use crate::der::{Malformed, Reader, application, field, integer, time, uint};

/// Answer of a service to an AP-REQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApRep<'a> {
    /// The [`EncApRepPart`], under the ticket's session key.
    pub encrypted: EncryptedData<'a>,
}

impl<'a> ApRep<'a> {
    /// Reads it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new("AP-REP", bytes).only(0x6f)?.sequence()?;
        expect_header(&mut fields, 0, 15)?;
        Ok(Self { encrypted: EncryptedData::read(fields.field(2)?)? })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let encrypted = field(2, self.encrypted.encode());
        application(15, &[field(0, integer(super::PVNO)), field(1, integer(15)), encrypted])
    }
}

/// Decrypted part of an AP-REP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncApRepPart {
    /// The time of the authenticator.
    pub time: Time,
    /// The acceptor's key for this context alone.
    pub subkey: Option<SessionKey>,
    /// The first sequence number of the acceptor's messages.
    pub seq_number: Option<u32>,
}

impl EncApRepPart {
    /// Reads a decrypted one.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new("EncAPRepPart", bytes).only(0x7b)?.sequence()?;
        let time = fields.field(0)?.time()?;
        let time = Time { microseconds: fields.field(1)?.microseconds()?, ..time };
        let subkey = fields.optional(2)?.map(SessionKey::read).transpose()?;
        let seq_number = fields.optional(3)?.map(Reader::uint32).transpose()?;
        Ok(Self { time, subkey, seq_number })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = vec![field(0, time(self.time)), field(1, uint(self.time.microseconds))];
        fields.extend(self.subkey.as_ref().map(|key| field(2, key.write())));
        fields.extend(self.seq_number.map(|number| field(3, uint(number))));
        application(27, &fields)
    }
}
