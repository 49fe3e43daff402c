//! Binding a connection to a session that has others (MS-SMB2 3.3.5.5): refusals in their order, and what
//! makes the channel.

use std::rc::Rc;
use std::sync::Arc;

use identity::Principal;
use smb_auth::SignedIn as Proved;
use smb_proto::keys::{self, Agreed, SessionKey};
use smb_proto::sealing::Nonces;
use smb_proto::signing::SigningAlgorithm;
use smb_wire::header::flags;
use smb_wire::{Message, Role, Status};

use crate::connection::{Call, Connection, Negotiated, SigningIn};
use crate::options::Options;
use crate::session::{Channel, Session, SessionState};

/// Finds the session that a connection may be bound to, so far as can be said before its user has signed in.
///
/// # Errors
/// Why not: the first of many reasons.
pub(super) fn session(call: &Call<'_>, options: &Options) -> Result<Arc<Session>, Status> {
    let (connection, id, here) = (call.connection, call.context.get().session_id, call.negotiated()?);
    if id == 0 {
        return Err(Status::INVALID_PARAMETER);
    }
    //= MS-SMB2 3.3.5.5
    //# A session that is not in GlobalSessionTable fails with STATUS_USER_SESSION_DELETED.
    let session = connection.lane.server_state.sessions.get(id).ok_or(Status::USER_SESSION_DELETED)?;
    // As Windows has it, before dialects are looked at: AES-GMAC goes with itself alone.
    if signing_differs(&session.agreed, here) {
        return Err(match session.agreed.signing {
            SigningAlgorithm::AesGmac => Status::REQUEST_OUT_OF_SEQUENCE,
            _ => Status::NOT_SUPPORTED,
        });
    }
    //= MS-SMB2 3.3.5.5
    //# Before 3.0, or where the server does not offer multichannel, it is STATUS_REQUEST_NOT_ACCEPTED.
    if !here.dialect.is_smb3() || !options.multichannel {
        return Err(Status::REQUEST_NOT_ACCEPTED);
    }
    //= MS-SMB2 3.3.5.5
    //# A request that is not signed, and one of another dialect than the session's, fails with STATUS_INVALID_PARAMETER.
    if !call.header().has(flags::SIGNED) || here.dialect != session.agreed.dialect {
        return Err(Status::INVALID_PARAMETER);
    }
    // Its keys are made for one cipher.
    if here.cipher != session.agreed.cipher {
        return Err(Status::INVALID_PARAMETER);
    }
    //= MS-SMB2 3.3.5.5
    //# A connection of another ClientGuid than the session's may be refused with STATUS_USER_SESSION_DELETED. Here, as with Windows, it
    //# may not: whatever client signs with the session's key is its client, and what is a client's by its ClientGuid is by that of the session.
    //= MS-SMB2 3.3.5.5
    //# Session.State of InProgress fails with STATUS_REQUEST_NOT_ACCEPTED.
    match session.state() {
        SessionState::InProgress => return Err(Status::REQUEST_NOT_ACCEPTED),
        SessionState::Closed => return Err(Status::USER_SESSION_DELETED),
        SessionState::Valid => {}
    }
    //= MS-SMB2 3.3.5.5
    //# A session of a guest, or an anonymous one, fails with STATUS_NOT_SUPPORTED.
    if session.signed_in().is_none_or(|signed_in| !signed_in.is_proved) {
        return Err(Status::NOT_SUPPORTED);
    }
    //= MS-SMB2 3.3.5.5
    //# A connection that is a channel of the session already fails with STATUS_REQUEST_NOT_ACCEPTED.
    if connection.channels.borrow().contains_key(&id) {
        return Err(Status::REQUEST_NOT_ACCEPTED);
    }
    //= MS-SMB2 3.3.5.5
    //# The signature is that of Session.SigningKey; STATUS_ACCESS_DENIED.
    if call.channel.is_none() {
        connection.lane.counters.signatures_wrong.increment();
        return Err(Status::ACCESS_DENIED);
    }
    //= MS-SMB2 3.3.5.5
    //# In 3.1.1 Session.SupportsNotifications is that of each of its connections; STATUS_INVALID_PARAMETER.
    if session.notifies != here.notifies() {
        return Err(Status::INVALID_PARAMETER);
    }
    //= MS-SMB2 3.3.5.5
    //# A 33rd channel fails with STATUS_INSUFFICIENT_RESOURCES.
    if session.is_full() {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    Ok(session)
}

/// Returns true for AES-GMAC with anything else: where a connection has said nothing of it, it signs as its dialect
/// does.
fn signing_differs(session: &Agreed, here: &Negotiated) -> bool {
    let is_gmac = |signing| signing == SigningAlgorithm::AesGmac;
    is_gmac(session.signing) != is_gmac(here.signing)
}

/// Makes the connection a channel of the session, as its user has signed in here too. Returns the flags of the
/// response.
///
/// # Errors
/// `STATUS_ACCESS_DENIED`: another user. `STATUS_INSUFFICIENT_RESOURCES`: by now there are too many channels.
pub(super) fn bind(
    call: &Call<'_>,
    signing_in: &SigningIn,
    who: &Principal,
    proved: &Proved,
) -> Result<u16, Status> {
    let (connection, session) = (call.connection, &signing_in.session);
    let signed_in = session.signed_in().ok_or(Status::USER_SESSION_DELETED)?;
    let is_same = super::session_setup::is_users_own(session, who, proved);
    let key = proved.session_key.as_ref().filter(|_| is_same).ok_or(Status::ACCESS_DENIED)?;
    //= MS-SMB2 3.3.5.5.3
    //# Channel.SigningKey is made of the key of this sign-in, and in 3.1.1 of this connection's integrity hash.
    let Negotiated { dialect, signing, cipher, .. } = *call.negotiated()?;
    let agreed = Agreed { dialect, signing, cipher };
    let signing = keys::signing_key(&SessionKey::new(&key[..]), &agreed, &signing_in.preauth);
    let number = session.add_channel(connection.number, connection.lane.lane_mailbox.here())?;
    let nonces = match (&signed_in.sealing, Nonces::new(number)) {
        (None, _) => None,
        (Some(_), Ok(nonces)) => Some(nonces),
        (Some(_), Err(_)) => {
            session.remove_channel(connection.number);
            return Err(Status::INSUFFICIENT_RESOURCES);
        }
    };
    let channel = Channel::new(Arc::clone(session), Some(Arc::new(signing)), nonces);
    connection.add_channel(channel);
    connection.lane.counters.channels_bound.increment();
    Ok(signed_in.flags)
}

/// Verifies a SESSION_SETUP by a connection that has no channel of the session: it is signed with the session's own
/// key. Returns the channel that answers it. The channel has no key where the answer may not be signed, for its nonce
/// is taken.
pub(crate) fn signer(connection: &Connection, message: &Message<'_>) -> Option<Rc<Channel>> {
    //= MS-SMB2 3.3.5.2.4
    //# A request to bind is looked up in GlobalSessionTable and verified by Session.SigningKey, any other by that of its channel.
    let header = message.header();
    if !header.has(flags::SIGNED) {
        return None;
    }
    let session = connection.lane.server_state.sessions.get(header.session_id.get())?;
    let signed_in = session.signed_in()?;
    let signing = signed_in.signing.clone()?;
    if !signing.verify(Role::Client, &[message.bytes()]) {
        return None;
    }
    let is_gmac = session.agreed.signing == SigningAlgorithm::AesGmac;
    let is_free = !is_gmac
        || connection.lane.options().gmac_over_channels
        || signed_in.free_nonces.take(header.message_id.get());
    Some(Channel::new(session, is_free.then_some(signing), None))
}
