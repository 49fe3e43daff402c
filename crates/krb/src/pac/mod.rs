//! The privilege attribute certificate: what a domain says about a user (MS-PAC).
//!
//! The server signature, made with the service's own key, tells that it is the KDC's word: a client may have put one into the
//! ticket that it asked for. Signatures with the KDC's key are not looked at: a sender that can forge the server's has the key that
//! opens tickets.

mod buffers;
mod delegation;
mod logon_info;
mod ndr;
mod sid;
mod upn;

pub use delegation::Delegation;
pub use logon_info::{Group, LogonInfo};
pub use sid::Sid;
pub use upn::UpnDnsInfo;

use buffers::{Buffers, kind};

use crate::Time;
use crate::crypto::{Key, usage};
use crate::message::Principal;

/// A certificate whose server signature is right and which belongs to its ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pac {
    /// The user's account, identifier and groups in its domain. MIT's KDC makes certificates without this part.
    pub logon: Option<LogonInfo>,
    /// The user's principal name and the domain's DNS name.
    pub upn: Option<UpnDnsInfo>,
    /// The services through which the user was delegated: an audit names them.
    pub delegation: Option<Delegation>,
    /// The whole certificate.
    pub bytes: Vec<u8>,
}

impl Pac {
    /// Longest certificate, bytes.
    pub const BYTES_MAX: usize = 64 << 10;

    /// Verifies and reads the certificate of a ticket, by the key that opened it.
    pub fn verify(bytes: &[u8], key: &Key, client: &Principal, auth_time: Time) -> Result<Self, PacRefused> {
        let buffers = Buffers::parse(bytes)?;
        verify_server_signature(bytes, &buffers, key)?;
        let client_info = buffers.find(kind::CLIENT_INFO)?.ok_or(PacRefused::Missing("PAC_CLIENT_INFO"))?;
        check_client(client_info, client, auth_time)?;
        let logon = buffers.find(kind::LOGON_INFO)?.map(LogonInfo::parse).transpose()?;
        let upn = buffers.find(kind::UPN_DNS_INFO)?.map(UpnDnsInfo::parse).transpose()?;
        let delegation = buffers.find(kind::DELEGATION_INFO)?.map(Delegation::parse).transpose()?;
        let requestor = buffers.find(kind::REQUESTOR)?.map(Sid::parse_whole).transpose()?;
        if let Some(logon) = &logon {
            let others = [requestor.as_ref(), upn.as_ref().and_then(|upn| upn.sid.as_ref())];
            if others.into_iter().flatten().any(|sid| *sid != logon.user_sid) {
                return Err(PacRefused::OtherUser);
            }
        }
        Ok(Self { logon, upn, delegation, bytes: bytes.to_vec() })
    }
}

/// Reason why a certificate is refused, and with it the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacRefused {
    /// A structure is not what it should be.
    #[error("malformed {0}")]
    Malformed(
        /// The structure's name in MS-PAC.
        &'static str,
    ),
    /// A part that must be there is not.
    #[error("a privilege attribute certificate without {0}")]
    Missing(
        /// The part's name in MS-PAC.
        &'static str,
    ),
    /// A part is there twice.
    #[error("a privilege attribute certificate with two parts of type {0}")]
    Duplicate(
        /// The type.
        u32,
    ),
    /// Signed by another algorithm than that of the service's key.
    #[error("a server signature of type {0}, which is not that of the service's key")]
    SignatureType(
        /// The checksum type.
        i32,
    ),
    /// The server signature is wrong.
    #[error("a wrong server signature")]
    Signature,
    /// The certificate is another ticket's.
    #[error("a privilege attribute certificate of another ticket")]
    OtherTicket,
    /// The certificate's parts name different users.
    #[error("a privilege attribute certificate whose parts name different users")]
    OtherUser,
    /// The user has more groups than [`LogonInfo::GROUPS_MAX`].
    #[error("more than {max} groups", max = LogonInfo::GROUPS_MAX)]
    TooManyGroups,
}

/// Verifies the server signature, which covers the whole certificate with both signatures as zeros (MS-PAC 2.8).
fn verify_server_signature(bytes: &[u8], buffers: &Buffers<'_>, key: &Key) -> Result<(), PacRefused> {
    let server = signature(buffers.find(kind::SERVER_CHECKSUM)?, "the server's signature")?;
    let kdc = signature(buffers.find(kind::KDC_CHECKSUM)?, "the KDC's signature")?;
    if server.checksum_type != key.etype().checksum_type() {
        return Err(PacRefused::SignatureType(server.checksum_type));
    }
    // A read-only domain controller's number may follow the signature.
    let (sum, _) = server.rest.split_at_checked(key.etype().checksum_len()).ok_or(PacRefused::Signature)?;
    let kdc_sum =
        &kdc.rest[..kdc_signature_len(kdc.checksum_type).unwrap_or(kdc.rest.len()).min(kdc.rest.len())];
    let mut zeroed = bytes.to_vec();
    for part in [sum, kdc_sum] {
        let at = part.as_ptr().addr() - bytes.as_ptr().addr();
        zeroed[at..at + part.len()].fill(0);
    }
    key.verify(usage::PAC_SIGNATURE, &[&zeroed], sum).map_err(|_| PacRefused::Signature)
}

struct Signature<'a> {
    checksum_type: i32,
    rest: &'a [u8],
}

fn signature<'a>(buffer: Option<&'a [u8]>, name: &'static str) -> Result<Signature<'a>, PacRefused> {
    let (checksum_type, rest) = buffer
        .ok_or(PacRefused::Missing(name))?
        .split_first_chunk::<4>()
        .ok_or(PacRefused::Malformed(name))?;
    Ok(Signature { checksum_type: i32::from_le_bytes(*checksum_type), rest })
}

/// Returns the length of the KDC's signature: its key may be of another type than the service's.
fn kdc_signature_len(checksum_type: i32) -> Option<usize> {
    match checksum_type {
        -138 => Some(16),
        other => crate::Etype::ALL
            .into_iter()
            .find(|etype| etype.checksum_type() == other)
            .map(crate::Etype::checksum_len),
    }
}

/// Checks PAC_CLIENT_INFO (MS-PAC 2.7): the time of the first sign-in and the client's name, with or without its realm.
fn check_client(info: &[u8], client: &Principal, auth_time: Time) -> Result<(), PacRefused> {
    let malformed = PacRefused::Malformed("PAC_CLIENT_INFO");
    let (client_id, rest) = info.split_first_chunk::<8>().ok_or(malformed)?;
    let (len, rest) = rest.split_first_chunk::<2>().ok_or(malformed)?;
    let name = rest.get(..usize::from(u16::from_le_bytes(*len))).ok_or(malformed)?;
    let name = utf16(name).ok_or(malformed)?;
    let is_named = name == client.name() || name == client.to_string();
    if u64::from_le_bytes(*client_id) != auth_time.to_filetime() || !is_named {
        return Err(PacRefused::OtherTicket);
    }
    Ok(())
}

/// Decodes text of 16-bit units, little-endian.
fn utf16(bytes: &[u8]) -> Option<String> {
    let (units, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
    if rest.is_empty() { String::from_utf16(&units).ok() } else { None }
}
