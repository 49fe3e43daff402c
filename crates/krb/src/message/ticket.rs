//! Ticket and EncTicketPart (RFC 4120 5.3).

use zeroize::Zeroizing;

use super::{AuthorizationData, EncryptedData, Principal, SessionKey};
use crate::Time;
use crate::der::{
    BIT_STRING, Malformed, Reader, application, element, field, integer, octets, sequence, string, time,
};

/// A ticket as it goes over the wire. Only [`encrypted`](Self::encrypted) is protected: any sender can write another
/// service on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket<'a> {
    /// The service and its realm, not protected.
    pub service: Principal,
    /// The [`EncTicketPart`], under a key of the service.
    pub encrypted: EncryptedData<'a>,
}

impl<'a> Ticket<'a> {
    /// Reads one that stands alone, as rxkad's tickets of version 256 do.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(Reader::new("Ticket", bytes))
    }

    pub(crate) fn read(ticket: Reader<'a>) -> Result<Self, Malformed> {
        let mut fields = ticket.only(0x61)?.sequence()?;
        if fields.field(0)?.integer()? != super::PVNO {
            return Err(fields.malformed());
        }
        let realm = fields.field(1)?.string()?;
        let service = Principal::read(fields.field(2)?, realm)?;
        Ok(Self { service, encrypted: EncryptedData::read(fields.field(3)?)? })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        application(
            1,
            &[
                field(0, integer(super::PVNO)),
                field(1, string(&self.service.realm)),
                field(2, self.service.write_name()),
                field(3, self.encrypted.encode()),
            ],
        )
    }
}

/// TicketFlags; bit 0 is the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TicketFlags(
    /// The 32 bits.
    pub u32,
);

impl TicketFlags {
    /// The ticket is not valid yet, until the KDC says that it is.
    pub const INVALID: Self = Self::bit(7);
    /// The KDC checked the realms that the ticket passed.
    pub const TRANSITED_POLICY_CHECKED: Self = Self::bit(12);
    /// The client was authenticated by more than a password.
    pub const HW_AUTHENT: Self = Self::bit(11);

    const fn bit(number: u32) -> Self {
        Self(1 << (31 - number))
    }

    /// Returns true if all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Decrypted part of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncTicketPart<'a> {
    /// Flags of the ticket.
    pub flags: TicketFlags,
    /// The session key.
    pub key: SessionKey,
    /// The client and its realm.
    pub client: Principal,
    /// Encoding of the realms that the ticket passed; 1 is DOMAIN-X500-COMPRESS.
    pub transited_type: i32,
    /// The realms that the ticket passed; empty within a realm.
    pub transited: &'a [u8],
    /// Time at which the client was first authenticated.
    pub auth_time: Time,
    /// Start of the ticket's validity, if it is not `auth_time`.
    pub start_time: Option<Time>,
    /// End of the ticket's validity.
    pub end_time: Time,
    /// Time until which it can be renewed.
    pub renew_till: Option<Time>,
    /// Authorization data.
    pub authorization_data: AuthorizationData<'a>,
}

impl<'a> EncTicketPart<'a> {
    /// Reads a decrypted one. Addresses are not looked at, as clients have others behind translators.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new("EncTicketPart", bytes).only(0x63)?.sequence()?;
        let flags = TicketFlags(fields.field(0)?.flags()?);
        let key = SessionKey::read(fields.field(1)?)?;
        let realm = fields.field(2)?.string()?;
        let client = Principal::read(fields.field(3)?, realm)?;
        let mut encoding = fields.field(4)?.sequence()?;
        let transited_type = encoding.field(0)?.int32()?;
        let transited = encoding.field(1)?.octets()?;
        let auth_time = fields.field(5)?.time()?;
        let start_time = fields.optional(6)?.map(Reader::time).transpose()?;
        let end_time = fields.field(7)?.time()?;
        let renew_till = fields.optional(8)?.map(Reader::time).transpose()?;
        fields.optional(9)?;
        let authorization_data =
            fields.optional(10)?.map(AuthorizationData::read).transpose()?.unwrap_or_default();
        Ok(Self {
            flags,
            key,
            client,
            transited_type,
            transited,
            auth_time,
            start_time,
            end_time,
            renew_till,
            authorization_data,
        })
    }

    /// Writes it, without addresses.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let flags = [&[0][..], &self.flags.0.to_be_bytes()].concat();
        let transited = [field(0, integer(self.transited_type.into())), field(1, octets(self.transited))];
        let mut fields = vec![
            field(0, element(BIT_STRING, &[flags])),
            field(1, self.key.write()),
            field(2, string(&self.client.realm)),
            field(3, self.client.write_name()),
            field(4, sequence(&transited)),
            field(5, time(self.auth_time)),
        ];
        fields.extend(self.start_time.map(|start| field(6, time(start))));
        fields.push(field(7, time(self.end_time)));
        fields.extend(self.renew_till.map(|till| field(8, time(till))));
        if !self.authorization_data.elements().is_empty() {
            fields.push(field(10, self.authorization_data.encode()));
        }
        let fields = Zeroizing::new(fields);
        let inner = Zeroizing::new(sequence(&fields));
        Zeroizing::new(element(0x63, &[&*inner]))
    }
}
