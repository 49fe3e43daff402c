//! A channel: a session on one connection (MS-SMB2 3.2.4.2.3). The first one signs in; others are bound to the session
//! with its [`SessionTicket`], which any lane may have.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use smb_auth::{Credentials, Initiator};
use smb_proto::keys::{Agreed, SessionKey, sealing_keys, signing_key};
use smb_proto::preauth::PreauthHash;
use smb_proto::sealing::{NoNonce, Nonces};
use smb_wire::body::plain::Empty;
use smb_wire::body::session_setup::{
    FLAG_BINDING, SessionSetupRequest, SessionSetupRequestFixed, session_flags,
};
use smb_wire::fixed::Fixed;
use smb_wire::header::flags;
use smb_wire::negotiate::security_mode;
use smb_wire::{Command, Response, Role, Status};
use zeroize::Zeroizing;

use crate::connection::{Connection, SendContext};
use crate::error::Error;
use crate::exchange::{OutgoingRequest, Reply};
use crate::keys::Keys;
use crate::options::{Sealing, Signing};

/// The credentials and keys of a session, with which one more connection is bound to it.
#[derive(Clone)]
pub struct SessionTicket(Arc<SharedSession>);

struct SharedSession {
    session_id: u64,
    flags: u16,
    key: Option<SessionKey>,
    agreed: Agreed,
    /// Hash of the first sign-in: the session's own keys are made with it.
    preauth: PreauthHash,
    credentials: Credentials,
    channels: AtomicU32,
    sequence: AtomicU16,
}

impl SessionTicket {
    /// Returns the session's number.
    pub fn session_id(&self) -> u64 {
        self.0.session_id
    }

    /// Channels that were made so far.
    pub fn channels(&self) -> u32 {
        self.0.channels.load(Ordering::Relaxed)
    }

    /// Advances the channel sequence, as a channel was lost: it sets the requests that follow apart from earlier ones
    /// that come late (MS-SMB2 3.2.4.1.1 `ChannelSequence`).
    pub fn advance_sequence(&self) -> u16 {
        self.0.sequence.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Returns how often a channel was lost.
    pub(crate) fn sequence(&self) -> u16 {
        self.0.sequence.load(Ordering::Relaxed)
    }

    /// Makes a handle to the same session that binds as another user: which servers refuse.
    pub fn of(&self, credentials: Credentials) -> Self {
        let SharedSession { session_id, flags, ref key, agreed, preauth, .. } = *self.0;
        let channels = AtomicU32::new(self.channels());
        let sequence = AtomicU16::new(self.sequence());
        let key = key.clone();
        Self(Arc::new(SharedSession {
            session_id,
            flags,
            key,
            agreed,
            preauth,
            credentials,
            channels,
            sequence,
        }))
    }

    fn next_channel(&self) -> u32 {
        self.0.channels.fetch_add(1, Ordering::Relaxed)
    }
}

impl std::fmt::Debug for SessionTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket({:#x})", self.0.session_id)
    }
}

/// A session on one connection.
#[derive(Clone)]
pub struct Channel(Rc<ChannelInner>);

struct ChannelInner {
    connection: Connection,
    keys: Rc<Keys>,
    ticket: SessionTicket,
    sign: bool,
    seal: bool,
}

/// Result of an exchange of SESSION_SETUP.
struct SignedIn {
    session_id: u64,
    flags: u16,
    key: Option<Zeroizing<[u8; 16]>>,
    preauth: PreauthHash,
    last: Reply,
}

impl Channel {
    /// Signs in: a new session, of which this is the first channel.
    ///
    /// # Errors
    /// The server's refusal; an answer that was changed on its way; signatures or encryption are wanted and
    /// cannot be had.
    pub async fn sign_in(connection: &Connection, credentials: Credentials) -> Result<Self, Error> {
        Self::sign_in_after(connection, credentials, 0).await
    }

    /// Signs in ([`Channel::sign_in`]), and the session of that number, which its client has lost, is ended
    /// (MS-SMB2 3.3.5.5.3).
    ///
    /// # Errors
    /// As there.
    pub async fn sign_in_after(
        connection: &Connection,
        credentials: Credentials,
        previous: u64,
    ) -> Result<Self, Error> {
        let fixed = SessionSetupRequestFixed {
            previous_session_id: previous.into(),
            ..SessionSetupRequestFixed::blank()
        };
        let done = exchange(connection, &credentials, fixed, SendContext::default()).await?;
        let negotiated = connection.negotiated();
        let agreed =
            Agreed { dialect: negotiated.dialect, signing: negotiated.signing, cipher: negotiated.cipher };
        let is_nobody = done.flags & (session_flags::IS_GUEST | session_flags::IS_NULL) != 0;
        let key = done.key.as_ref().filter(|_| !is_nobody).map(|key| SessionKey::new(&**key));
        let ticket = SessionTicket(Arc::new(SharedSession {
            session_id: done.session_id,
            flags: done.flags,
            key,
            agreed,
            preauth: done.preauth,
            credentials,
            channels: AtomicU32::new(0),
            sequence: AtomicU16::new(0),
        }));
        Self::begin(connection, ticket, &done)
    }

    /// Binds one more connection to a session (MS-SMB2 3.2.4.2.3).
    ///
    /// # Errors
    /// As [`Channel::sign_in`].
    pub async fn bind(connection: &Connection, ticket: &SessionTicket) -> Result<Self, Error> {
        let shared = &ticket.0;
        let key = shared.key.as_ref().ok_or(Error::NoKey)?;
        let fixed = SessionSetupRequestFixed { flags: FLAG_BINDING, ..SessionSetupRequestFixed::blank() };
        // A binding is signed with the key of the session (MS-SMB2 3.2.4.2.3).
        let keys = Rc::new(Keys {
            session_id: shared.session_id,
            signing: Some(signing_key(key, &shared.agreed, &shared.preauth)),
            must_sign: true,
            must_seal: false,
            sealing: None,
            nonces: RefCell::new(Nonces::new(0)?),
        });
        let send_context = SendContext {
            session_id: shared.session_id,
            keys: Some(keys),
            sign: true,
            ..SendContext::default()
        };
        let done = exchange(connection, &shared.credentials, fixed, send_context).await?;
        if done.session_id != shared.session_id {
            return Err(Error::Unexpected("another session than was to be bound"));
        }
        Self::begin(connection, ticket.clone(), &done)
    }

    /// Makes the channel's keys, and checks the last answer with them.
    fn begin(connection: &Connection, ticket: SessionTicket, done: &SignedIn) -> Result<Self, Error> {
        let (shared, options) = (&ticket.0, &connection.shared().options);
        let server_insists = connection.negotiated().security_mode & security_mode::SIGNING_REQUIRED != 0;
        let wants_sealing = options.sealing == Sealing::Required;
        let sign = server_insists || options.signing == Signing::Required;
        let seal = wants_sealing || shared.flags & session_flags::ENCRYPT_DATA != 0;
        if shared.key.is_none() && (options.signing == Signing::Required || wants_sealing) {
            return Err(Error::NoKey);
        }
        // A channel signs with the key of its own sign-in; what is sealed is sealed with those of the session (MS-SMB2 3.2.5.3.3).
        let own = done.key.as_ref().filter(|_| shared.key.is_some()).map(|key| SessionKey::new(&**key));
        let signing = own.map(|key| signing_key(&key, &shared.agreed, &done.preauth));
        let sealing = shared
            .key
            .as_ref()
            .and_then(|key| sealing_keys(key, &shared.agreed, &shared.preauth, Role::Client));
        if seal && sealing.is_none() {
            return Err(Error::NoEncryption);
        }
        if let Some(signing) = &signing {
            // The last response of a sign-in is signed, and verified with the new key (MS-SMB2 3.2.5.3.1).
            let is_signed = done.last.header().has(flags::SIGNED);
            if is_signed && !signing.verify(Role::Server, &[done.last.bytes()]) {
                connection.counters().wrong_signatures.increment();
                return Err(Error::WrongSignature);
            }
            if !is_signed && (sign || shared.agreed.dialect.is_smb3()) {
                connection.counters().unsigned.increment();
                return Err(Error::Unsigned);
            }
        }
        let nonces = Nonces::new(ticket.next_channel()).map_err(|NoNonce| NoNonce)?;
        let sign = sign && signing.is_some();
        let keys = Rc::new(Keys {
            session_id: shared.session_id,
            signing,
            must_sign: sign,
            must_seal: shared.flags & session_flags::ENCRYPT_DATA != 0,
            sealing,
            nonces: RefCell::new(nonces),
        });
        connection.admit(&keys);
        let connection = connection.clone();
        Ok(Self(Rc::new(ChannelInner { connection, keys, ticket, sign, seal })))
    }

    /// Returns the channel's connection.
    pub fn connection(&self) -> &Connection {
        &self.0.connection
    }

    /// Returns what another connection is bound to the session with.
    pub fn ticket(&self) -> SessionTicket {
        self.0.ticket.clone()
    }

    /// Returns whether the server let the client in as a guest, or anonymously.
    pub fn is_guest(&self) -> bool {
        self.0.ticket.0.flags & (session_flags::IS_GUEST | session_flags::IS_NULL) != 0
    }

    /// Returns whether requests are signed, and whether all of them are encrypted.
    pub fn protection(&self) -> (bool, bool) {
        (self.0.sign, self.0.seal)
    }

    /// Ends the session, with all of its channels.
    ///
    /// # Errors
    /// The request's.
    pub async fn log_off(&self) -> Result<(), Error> {
        let request = OutgoingRequest::new(Command::Logoff, |body| body.push(&Empty::blank()));
        self.exchange(request).await?.body()?;
        self.0.connection.forget(self.0.keys.session_id);
        Ok(())
    }

    /// Asks whether the server is there.
    ///
    /// # Errors
    /// The request's.
    pub async fn echo(&self) -> Result<(), Error> {
        self.exchange(OutgoingRequest::echo()).await?.body().map(|_| ())
    }

    /// Sends a request of the session that belongs to no tree.
    ///
    /// # Errors
    /// The connection's; what is wrong with the answer. Its status is not looked at.
    pub async fn exchange(&self, request: OutgoingRequest<'_>) -> Result<Reply, Error> {
        let [pending] = self.0.connection.send(&self.send_context(0, false), [request], Vec::new()).await?;
        pending.await
    }

    /// Returns how requests of a tree go, encrypted if it wants that.
    pub(crate) fn send_context(&self, tree_id: u32, seal: bool) -> SendContext {
        let is_smb3 = self.0.ticket.0.agreed.dialect.is_smb3();
        SendContext {
            session_id: self.0.keys.session_id,
            tree_id,
            keys: Some(Rc::clone(&self.0.keys)),
            sign: self.0.sign,
            seal: self.0.seal || seal,
            check: true,
            sequence: if is_smb3 { self.0.ticket.sequence() } else { 0 },
            keep: false,
        }
    }

    /// Returns the context ([`Channel::send_context`]), signed whatever was agreed on: what has to be beyond
    /// doubt.
    pub(crate) fn signed_send_context(&self, tree_id: u32) -> SendContext {
        let send_context = self.send_context(tree_id, false);
        SendContext { sign: self.0.keys.signing.is_some() && !send_context.seal, ..send_context }
    }

    /// Returns whether encryption is to be had.
    pub(crate) fn can_seal(&self) -> bool {
        self.0.keys.sealing.is_some()
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").field("keys", &self.0.keys).finish_non_exhaustive()
    }
}

impl Drop for ChannelInner {
    fn drop(&mut self) {
        self.connection.forget(self.keys.session_id);
    }
}

/// Exchanges the tokens of a sign-in, to the last.
async fn exchange(
    connection: &Connection,
    credentials: &Credentials,
    mut fixed: SessionSetupRequestFixed,
    send_context: SendContext,
) -> Result<SignedIn, Error> {
    let options = &connection.shared().options;
    fixed.security_mode = connection.negotiated().offered.security_mode as u8;
    fixed.capabilities = 0.into();
    let (mut challenge, mut random_key) = ([0; 8], Zeroizing::new([0; 16]));
    (options.random)(&mut challenge);
    (options.random)(&mut *random_key);
    let mut initiator = Initiator::new(credentials.clone(), challenge, random_key);
    let mut send_context = SendContext { keep: true, ..send_context };
    let mut preauth = connection.preauth();
    let mut token = initiator.first();
    for _ in 0..TOKENS_MAX {
        let request = OutgoingRequest::new(Command::SessionSetup, |body| {
            SessionSetupRequest::write(body, fixed, &token)
        });
        let [mut pending] = connection.send(&send_context, [request], Vec::new()).await?;
        preauth.update(&pending.sent.take().unwrap_or_default());
        let reply = (&mut pending).await?;
        let Response::SessionSetup(response) = reply.body()? else {
            return Err(Error::Unexpected("something else than a sign-in"));
        };
        send_context.session_id = reply.header().session_id.get();
        if reply.status() == Status::MORE_PROCESSING_REQUIRED {
            preauth.update(reply.bytes());
            token = initiator.answer(response.security, now())?;
            continue;
        }
        let flags = response.fixed.session_flags.get();
        let key = initiator.finish(response.security)?;
        return Ok(SignedIn { session_id: send_context.session_id, flags, key, preauth, last: reply });
    }
    Err(Error::Unexpected("a sign-in without end"))
}

/// Returns the time in 100 ns since 1601.
fn now() -> u64 {
    let since = lane::time::wall_clock().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    smb_wire::time::from_unix(since.as_secs() as i64, since.subsec_nanos())
}

/// NTLM needs two.
const TOKENS_MAX: usize = 4;
