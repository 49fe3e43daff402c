//! Authenticator (RFC 4120 5.5.1): the proof that a client has the session key, now.

use zeroize::Zeroizing;

use super::{AuthorizationData, Principal, SessionKey};
use crate::Time;
use crate::der::{Malformed, Reader, application, field, integer, octets, sequence, string, time, uint};

/// The checksum of an authenticator. That of GSS-API is no checksum but flags and channel bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthenticatorChecksum<'a> {
    /// Type of the checksum; 0x8003 for GSS-API.
    pub checksum_type: i32,
    /// Bytes of the checksum.
    pub bytes: &'a [u8],
}

/// A decrypted authenticator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authenticator<'a> {
    /// The client, which must be the ticket's.
    pub client: Principal,
    /// The checksum.
    pub checksum: Option<AuthenticatorChecksum<'a>>,
    /// Time at which the client made it, by the client's clock.
    pub time: Time,
    /// The client's key for this context alone.
    pub subkey: Option<SessionKey>,
    /// The first sequence number of the client's messages.
    pub seq_number: Option<u32>,
    /// Authorization data.
    pub authorization_data: AuthorizationData<'a>,
}

impl<'a> Authenticator<'a> {
    /// Reads a decrypted one.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new("Authenticator", bytes).only(0x62)?.sequence()?;
        if fields.field(0)?.integer()? != super::PVNO {
            return Err(fields.malformed());
        }
        let realm = fields.field(1)?.string()?;
        let client = Principal::read(fields.field(2)?, realm)?;
        let checksum = match fields.optional(3)? {
            None => None,
            Some(checksum) => {
                let mut fields = checksum.sequence()?;
                let checksum_type = fields.field(0)?.int32()?;
                Some(AuthenticatorChecksum { checksum_type, bytes: fields.field(1)?.octets()? })
            }
        };
        let microseconds = fields.field(4)?.microseconds()?;
        let time = Time { microseconds, ..fields.field(5)?.time()? };
        let subkey = fields.optional(6)?.map(SessionKey::read).transpose()?;
        let seq_number = fields.optional(7)?.map(Reader::uint32).transpose()?;
        let authorization_data =
            fields.optional(8)?.map(AuthorizationData::read).transpose()?.unwrap_or_default();
        Ok(Self { client, checksum, time, subkey, seq_number, authorization_data })
    }

    /// Writes it.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut fields = vec![
            field(0, integer(super::PVNO)),
            field(1, string(&self.client.realm)),
            field(2, self.client.write_name()),
        ];
        fields.extend(self.checksum.map(|checksum| {
            let of = [field(0, integer(checksum.checksum_type.into())), field(1, octets(checksum.bytes))];
            field(3, sequence(&of))
        }));
        fields.push(field(4, uint(self.time.microseconds)));
        fields.push(field(5, time(self.time)));
        fields.extend(self.subkey.as_ref().map(|key| field(6, key.write())));
        fields.extend(self.seq_number.map(|number| field(7, uint(number))));
        if !self.authorization_data.elements().is_empty() {
            fields.push(field(8, self.authorization_data.encode()));
        }
        let fields = Zeroizing::new(fields);
        Zeroizing::new(application(2, &fields))
    }
}
