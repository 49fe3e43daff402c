//! The messages of RFC 4120 that a service sees, read and written.

mod ap_rep;
mod ap_req;
mod authenticator;
mod authorization_data;
mod encrypted_data;
mod krb_error;
mod principal;
mod ticket;

pub use ap_rep::{ApRep, EncApRepPart};
pub use ap_req::ApReq;
pub use authenticator::{Authenticator, AuthenticatorChecksum};
pub use authorization_data::{AuthorizationData, Element, ad_type};
pub use encrypted_data::{EncryptedData, SessionKey};
pub use krb_error::{ErrorCode, KrbError, SKEW_RECOVERY};
pub use principal::{Principal, PrincipalSyntax};
pub use ticket::{EncTicketPart, Ticket, TicketFlags};

use crate::der::{Malformed, Reader};

/// The protocol version number of Kerberos V5.
const PVNO: i64 = 5;

/// Checks `pvno` and `msg-type`, the first two fields, numbered from `first` on.
fn expect_header(fields: &mut Reader<'_>, first: u8, msg_type: i64) -> Result<(), Malformed> {
    if fields.field(first)?.integer()? != PVNO || fields.field(first + 1)?.integer()? != msg_type {
        return Err(fields.malformed());
    }
    Ok(())
}
