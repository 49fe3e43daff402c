//! KRB-ERROR (RFC 4120 5.9.1): why a service refuses.

use std::fmt;

use super::{Principal, expect_header};
use crate::Time;
use crate::der::{Malformed, Reader, application, field, integer, octets, string, time, uint};

/// An error code of RFC 4120 7.5.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(
    /// The number.
    pub i32,
);

impl ErrorCode {
    /// KDC_ERR_ETYPE_NOSUPP: the encryption type is not used.
    pub const ETYPE_NOSUPP: Self = Self(14);
    /// KRB_AP_ERR_BAD_INTEGRITY: something does not decrypt.
    pub const BAD_INTEGRITY: Self = Self(31);
    /// KRB_AP_ERR_TKT_EXPIRED: the ticket has expired.
    pub const TKT_EXPIRED: Self = Self(32);
    /// KRB_AP_ERR_TKT_NYV: the ticket is not valid yet.
    pub const TKT_NYV: Self = Self(33);
    /// KRB_AP_ERR_REPEAT: a replay.
    pub const REPEAT: Self = Self(34);
    /// KRB_AP_ERR_NOT_US: the ticket is for another service.
    pub const NOT_US: Self = Self(35);
    /// KRB_AP_ERR_BADMATCH: ticket and authenticator name different clients.
    pub const BADMATCH: Self = Self(36);
    /// KRB_AP_ERR_SKEW: the clocks differ too much.
    pub const SKEW: Self = Self(37);
    /// KRB_AP_ERR_BADVERSION: not version 5.
    pub const BADVERSION: Self = Self(39);
    /// KRB_AP_ERR_MSG_TYPE: a message of another type.
    pub const MSG_TYPE: Self = Self(40);
    /// KRB_AP_ERR_MODIFIED: something was changed, or belongs to another channel.
    pub const MODIFIED: Self = Self(41);
    /// KRB_AP_ERR_BADKEYVER: there is no key of this version.
    pub const BADKEYVER: Self = Self(44);
    /// KRB_AP_ERR_NOKEY: there is no key of the service.
    pub const NOKEY: Self = Self(45);
    /// KRB_AP_ERR_INAPP_CKSUM: not the checksum that belongs there.
    pub const INAPP_CKSUM: Self = Self(50);
    /// KRB_AP_PATH_NOT_ACCEPTED: the ticket passed realms that are not trusted.
    pub const PATH_NOT_ACCEPTED: Self = Self(51);
    /// KRB_ERR_GENERIC: anything else.
    pub const GENERIC: Self = Self(60);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kerberos error {}", self.0)
    }
}

/// KERB-ERROR-DATA of type KERB_AP_ERR_TYPE_SKEW_RECOVERY (MS-KILE 2.2.2): without it Windows does not try again by the server's clock.
pub const SKEW_RECOVERY: [u8; 7] = [0x30, 0x05, 0xa1, 0x03, 0x02, 0x01, 0x02];

/// Answer of a service to a client that it refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KrbError {
    /// The client's time, where it is known.
    pub client_time: Option<Time>,
    /// The service's time.
    pub server_time: Time,
    /// Error code.
    pub code: ErrorCode,
    /// The client, where it is known.
    pub client: Option<Principal>,
    /// The service that the client asked for.
    pub service: Principal,
    /// Text for people.
    pub text: Option<String>,
    /// Data for programs: [`SKEW_RECOVERY`].
    pub data: Option<Vec<u8>>,
}

impl KrbError {
    /// Reads it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Reader::new("KRB-ERROR", bytes).only(0x7e)?.sequence()?;
        expect_header(&mut fields, 0, 30)?;
        let client_time = fields.optional(2)?.map(Reader::time).transpose()?;
        let client_microseconds = fields.optional(3)?.map(Reader::microseconds).transpose()?;
        let server_time = fields.field(4)?.time()?;
        let server_time = Time { microseconds: fields.field(5)?.microseconds()?, ..server_time };
        let code = ErrorCode(fields.field(6)?.int32()?);
        let client_realm = fields.optional(7)?.map(Reader::string).transpose()?;
        let client_name = fields.optional(8)?;
        let client = client_name.map(|name| Principal::read(name, client_realm.unwrap_or(""))).transpose()?;
        let realm = fields.field(9)?.string()?;
        let service = Principal::read(fields.field(10)?, realm)?;
        let text = fields.optional(11)?.map(Reader::string).transpose()?.map(str::to_owned);
        let data = fields.optional(12)?.map(Reader::octets).transpose()?.map(<[u8]>::to_vec);
        let client_time =
            client_time.map(|time| Time { microseconds: client_microseconds.unwrap_or(0), ..time });
        Ok(Self { client_time, server_time, code, client, service, text, data })
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = vec![field(0, integer(super::PVNO)), field(1, integer(30))];
        if let Some(client_time) = self.client_time {
            fields.extend([field(2, time(client_time)), field(3, uint(client_time.microseconds))]);
        }
        fields.extend([
            field(4, time(self.server_time)),
            field(5, uint(self.server_time.microseconds)),
            field(6, integer(self.code.0.into())),
        ]);
        if let Some(client) = &self.client {
            fields.extend([field(7, string(&client.realm)), field(8, client.write_name())]);
        }
        fields.extend([field(9, string(&self.service.realm)), field(10, self.service.write_name())]);
        fields.extend(self.text.as_ref().map(|text| field(11, string(text))));
        fields.extend(self.data.as_ref().map(|data| field(12, octets(data))));
        application(30, &fields)
    }
}
