//! SESSION_SETUP (MS-SMB2 3.3.5.5): a sign-in of two or three messages, of a new session or of one that there is.

use std::sync::Arc;
use std::time::Instant;

use identity::Principal;
use lane::time::{now, wall_clock};
use smb_auth::{Acceptor, Refused, SignedIn as Proved, Who};
use smb_proto::keys::{self, Agreed, SessionKey};
use smb_proto::sealing::Nonces;
use smb_tree::consumer_of;
use smb_wire::body::session_setup::{
    FLAG_BINDING, SessionSetupRequest, SessionSetupResponse, SessionSetupResponseFixed, session_flags,
};
use smb_wire::fixed::Fixed;
use smb_wire::negotiate::security_mode;
use smb_wire::{Role, Status};

use super::binding;
use crate::audit::SignIn;
use crate::connection::{Call, Connection, Negotiated, Reply, SigningIn};
use crate::options::Options;
use crate::server::file_time;
use crate::session::{Channel, FreeNonces, Sealing, Session, SignedIn};
use crate::settings::{Encryption, Signing};
use crate::sign_in::{SignInAccounts, Users};

/// Takes one token of a sign-in, and answers with the next.
pub(super) async fn session_setup(
    call: &Call<'_>,
    request: &SessionSetupRequest<'_>,
) -> Result<Reply, Status> {
    let (connection, negotiated, begun) = (call.connection, call.negotiated()?, now());
    let options = connection.lane.options();
    let binds = request.fixed.flags & FLAG_BINDING != 0;
    let mut signing_in = match call.context.get().session_id {
        _ if binds => bind(call, &options)?,
        0 => begin(connection, negotiated, &options)?,
        id => go_on(connection, id, &options)?,
    };
    let id = signing_in.session.id;
    call.update_context(|context| context.session_id = id);
    signing_in.preauth.update(call.message.bytes());
    let (asked, time) = (accounts(connection, &options, begun), file_time(wall_clock()));
    let answer = signing_in.acceptor.accept(request.security, &options.target, time, &asked);
    match answer {
        Ok(smb_auth::Reply::More(token)) => {
            let displaced = connection.lane.server_state.pending_sign_ins.put(
                connection.number,
                connection.peer,
                signing_in,
            );
            connection.lane.counters.sign_ins_displaced.add(displaced);
            let fixed = SessionSetupResponseFixed::blank();
            let status = Status::MORE_PROCESSING_REQUIRED;
            Ok(Reply::with(status, move |body| SessionSetupResponse::write(body, fixed, &token)))
        }
        Ok(smb_auth::Reply::Done(token, proved)) => {
            let who = principal(&options, &proved);
            let Some(who) = who else {
                return Err(refused(connection, &signing_in, Refused::Wrong, begun).await);
            };
            let how = how(&signing_in, &proved);
            let told = (id, who.id().0, signing_in.acceptor.claimed().unwrap_or_default());
            let ended = end(call, request, &options, &signing_in, who, proved).await;
            let (session, user_id, user) = told;
            let status = ended.err().unwrap_or(Status::SUCCESS);
            let how = match ended {
                Ok(_) => how,
                Err(_) if signing_in.is_binding => "the session takes no such channel",
                Err(_) if signing_in.session.signed_in().is_some() => "the session is another user's",
                Err(_) => "there is no room for the session",
            };
            connection
                .lane
                .audit
                .signed_in(connection, &SignIn { begun, status, session, user, user_id, how });
            if ended.is_err() && signing_in.is_binding {
                connection.lane.counters.channels_refused.increment();
            }
            let flags = ended?;
            let fixed = SessionSetupResponseFixed {
                session_flags: flags.into(),
                ..SessionSetupResponseFixed::blank()
            };
            Ok(Reply::of(move |body| SessionSetupResponse::write(body, fixed, &token)))
        }
        Err(why) => Err(refused(connection, &signing_in, why, begun).await),
    }
}

/// Hears of a reply as it leaves.
pub(super) fn answered(connection: &Connection, session: u64, reply: &[u8]) {
    connection.lane.server_state.pending_sign_ins.answered(connection.number, session, reply);
}

/// Begins the sign-in of a new session.
fn begin(connection: &Connection, negotiated: &Negotiated, options: &Options) -> Result<SigningIn, Status> {
    let (server_state, counters) = (&connection.lane.server_state, &connection.lane.counters);
    //= MS-SMB2 3.3.5.5
    //# A server that encrypts everything refuses a client that cannot, with STATUS_ACCESS_DENIED.
    if options.encryption == Encryption::Required && negotiated.cipher.is_none() {
        counters.unsealed_refused.increment();
        return Err(Status::ACCESS_DENIED);
    }
    may_try(connection)?;
    if connection.channels.borrow().len() >= SESSIONS_MAX {
        counters.sessions_refused.increment();
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    let Negotiated { dialect, signing, cipher, .. } = *negotiated;
    let agreed = Agreed { dialect, signing, cipher };
    //= MS-SMB2 3.3.5.5.3
    //# Session.SupportsNotifications is that of its connection.
    // It enters the table of sessions when its sign-in has succeeded.
    let id = server_state.sessions.next_id();
    let session = Arc::new(Session::new(id, negotiated.client, agreed, negotiated.notifies()));
    Ok(signing_in(connection, session, options, false))
}

/// Begins or goes on with the sign-in of one more channel.
fn bind(call: &Call<'_>, options: &Options) -> Result<SigningIn, Status> {
    let (connection, id) = (call.connection, call.context.get().session_id);
    let counters = &connection.lane.counters;
    let session = binding::session(call, options).inspect_err(|_| counters.channels_refused.increment())?;
    let begun = connection.lane.server_state.pending_sign_ins.take(connection.number, id);
    if let Some(begun) = begun.filter(|begun| begun.is_binding) {
        return Ok(begun);
    }
    // The answer could not be signed: AES-GMAC binds one channel, by a MessageId that nothing else was signed with.
    if call.channel.as_ref().is_none_or(|channel| channel.signing.is_none()) {
        counters.channels_refused.increment();
        return Err(Status::REQUEST_NOT_ACCEPTED);
    }
    may_try(connection)?;
    if connection.channels.borrow().len() >= SESSIONS_MAX {
        counters.sessions_refused.increment();
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    Ok(signing_in(connection, session, options, true))
}

/// Goes on with a sign-in, or begins one of a session that there is.
fn go_on(connection: &Connection, id: u64, options: &Options) -> Result<SigningIn, Status> {
    let begun = connection.lane.server_state.pending_sign_ins.take(connection.number, id);
    if let Some(begun) = begun.filter(|begun| !begun.is_binding) {
        return Ok(begun);
    }
    //= MS-SMB2 3.3.5.5
    //# A session that this connection does not have fails with STATUS_USER_SESSION_DELETED.
    let channel = connection.channels.borrow().get(&id).cloned().ok_or(Status::USER_SESSION_DELETED)?;
    may_try(connection)?;
    Ok(signing_in(connection, Arc::clone(&channel.session), options, false))
}

fn signing_in(
    connection: &Connection,
    session: Arc<Session>,
    options: &Options,
    is_binding: bool,
) -> SigningIn {
    let acceptor = Acceptor::new(options.policy, lane::random::array());
    SigningIn { session, is_binding, acceptor, preauth: *connection.preauth.borrow() }
}

/// Returns the kind of session for the audit log.
fn how(signing_in: &SigningIn, proved: &Proved) -> &'static str {
    match proved.who {
        Who::User { .. } if signing_in.is_binding => "user, by one more channel",
        Who::User { .. } if signing_in.session.signed_in().is_some() => "user, again",
        Who::User { .. } => "user",
        Who::Guest => "guest",
        Who::Anonymous => "anonymous",
    }
}

/// Returns the accounts as a sign-in by this connection looks them up.
fn accounts<'a>(connection: &'a Connection, options: &'a Options, now: Instant) -> SignInAccounts<'a> {
    // Samba's tests fail as fast as they can.
    let failures = (!options.test_switches).then_some(&connection.lane.server_state.failures);
    SignInAccounts { users: Users(&options.accounts), failures, address: connection.peer, now }
}

/// Refuses a sign-in of an address where too many have failed: none of them is looked at for a while.
fn may_try(connection: &Connection) -> Result<(), Status> {
    let now = now();
    if connection.lane.options().test_switches
        || connection.lane.server_state.failures.may_try(connection.peer, now)
    {
        return Ok(());
    }
    connection.lane.counters.sign_in_limited.increment();
    let (status, how) = (Status::REQUEST_NOT_ACCEPTED, "too many failed sign-ins from this address");
    let told = SignIn { begun: now, status, session: 0, user: "", user_id: 0, how };
    connection.lane.audit.signed_in(connection, &told);
    Err(status)
}

/// Ends a sign-in that has failed: a session that was to begin with it is none, and one that was to go on is over.
async fn refused(connection: &Connection, signing_in: &SigningIn, why: Refused, begun: Instant) -> Status {
    let (lane, claimed) = (&connection.lane, signing_in.acceptor.claimed());
    match why {
        Refused::HeldOff => lane.counters.sign_in_limited.increment(),
        _ => lane.counters.sign_in_failed.increment(),
    }
    if matches!(why, Refused::Wrong | Refused::Weak | Refused::Changed) {
        lane.server_state.failures.failed(connection.peer, claimed, begun);
    }
    let (status, how) = (why.status(), why.to_string());
    let session = signing_in.session.id;
    let told = SignIn { begun, status, session, user: claimed.unwrap_or_default(), user_id: 0, how: &how };
    lane.audit.signed_in(connection, &told);
    let session = &signing_in.session;
    //= MS-SMB2 3.3.5.5.3
    //# A failed binding leaves the session as it is.
    if signing_in.is_binding {
        connection.lane.counters.channels_refused.increment();
    } else if session.signed_in().is_some() {
        connection.remove_channel(session.id);
        session.remove_channel(connection.number);
        connection.lane.close_session(connection, session).await;
    }
    status
}

/// Returns the principal whose rights a session has.
fn principal(options: &Options, proved: &Proved) -> Option<Principal> {
    match &proved.who {
        Who::User { user, .. } => options.accounts.user(&Users(&options.accounts).name(user)).ok(),
        Who::Guest | Who::Anonymous => Some(options.accounts.anonymous()),
    }
}

/// Ends the sign-in, so that the session can be used, and returns the response.
async fn end(
    call: &Call<'_>,
    request: &SessionSetupRequest<'_>,
    options: &Options,
    signing_in: &SigningIn,
    who: Principal,
    proved: Proved,
) -> Result<u16, Status> {
    let (connection, session) = (call.connection, &signing_in.session);
    let counters = &connection.lane.counters;
    // The session's opens are its user's, and without proof of a password its keys are public. So another
    // user is refused, and the session goes on as it was.
    if !signing_in.is_binding && session.signed_in().is_some() && !may_renew(session, &who, &proved) {
        counters.sign_in_again_refused.increment();
        return Err(Status::ACCESS_DENIED);
    }
    counters.signed_in.increment();
    if let Who::User { user, .. } = &proved.who {
        connection.lane.server_state.failures.succeeded(connection.peer, user);
    }
    if !matches!(proved.who, Who::User { .. }) {
        counters.signed_in_guest.increment();
    }
    if signing_in.is_binding {
        return binding::bind(call, signing_in, &who, &proved);
    }
    if let Some(signed_in) = session.signed_in() {
        //= MS-SMB2 3.3.5.5.2
        //# A client that signs in again keeps the session's keys.
        counters.signed_in_again.increment();
        session.renew(who);
        return Ok(signed_in.flags);
    }
    let signed_in = signed_in(call, request, options, signing_in, who.clone(), &proved);
    let (flags, signing) = (signed_in.flags, signed_in.signing.clone());
    let number = session.add_channel(connection.number, connection.lane.lane_mailbox.here())?;
    let nonces = match signed_in.sealing {
        Some(_) => Some(Nonces::new(number).map_err(|_| Status::INSUFFICIENT_RESOURCES)?),
        None => None,
    };
    let consumer = consumer_of(connection.peer, &who);
    let added = connection.lane.server_state.sessions.add(consumer, options.sessions_max, session);
    added.inspect_err(|_| counters.sessions_refused.increment())?;
    session.begin(signed_in);
    counters.sessions_begun.increment();
    let channel = Channel::new(Arc::clone(session), signing, nonces);
    connection.add_channel(channel);
    //= MS-SMB2 3.3.5.5.3
    //# A session that the same user had before, and says is gone, is closed.
    let previous = request.fixed.previous_session_id.get();
    if previous != session.id
        && let Some(previous) = connection.lane.server_state.sessions.get(previous)
        && previous.is_of(&who)
    {
        connection.lane.close_session(connection, &previous).await;
    }
    Ok(flags)
}

/// Returns whether a sign-in has proved the identity that the session's first one had proved.
pub(super) fn is_users_own(session: &Session, who: &Principal, proved: &Proved) -> bool {
    session.is_of(who) && session.is_proved() && matches!(proved.who, Who::User { .. })
}

/// Returns whether a sign-in again may change whose rights count. An anonymous one takes rights away until
/// the owner is back, as with Samba.
fn may_renew(session: &Session, who: &Principal, proved: &Proved) -> bool {
    match proved.who {
        Who::Anonymous => session.is_proved(),
        Who::User { .. } | Who::Guest => is_users_own(session, who, proved),
    }
}

/// Returns the keys and rules of a session that begins.
fn signed_in(
    call: &Call<'_>,
    request: &SessionSetupRequest<'_>,
    options: &Options,
    signing_in: &SigningIn,
    owner: Principal,
    proved: &Proved,
) -> SignedIn {
    let (agreed, preauth) = (&signing_in.session.agreed, &signing_in.preauth);
    let key = proved.session_key.as_ref().map(|key| SessionKey::new(&key[..]));
    let sealing = key.as_ref().filter(|_| options.encryption != Encryption::Off);
    let sealing = sealing.and_then(|key| keys::sealing_keys(key, agreed, preauth, Role::Server));
    let is_proved = matches!(proved.who, Who::User { .. });
    let asks = u16::from(request.fixed.security_mode) & security_mode::SIGNING_REQUIRED != 0;
    let sealing_required = options.encryption == Encryption::Required && sealing.is_some() && is_proved;
    let mut flags = match proved.who {
        Who::User { .. } => 0,
        Who::Guest => session_flags::IS_GUEST,
        Who::Anonymous => session_flags::IS_NULL,
    };
    if sealing_required {
        flags |= session_flags::ENCRYPT_DATA;
    }
    SignedIn {
        owner,
        is_proved,
        signing: key.as_ref().map(|key| Arc::new(keys::signing_key(key, agreed, preauth))),
        free_nonces: FreeNonces::below(call.header().message_id.get()),
        sealing: sealing.map(|(to_client, to_server)| Sealing { to_client, to_server }),
        //= MS-SMB2 3.3.5.5.3
        //# Session.SigningRequired where the client or the server insists, and the session is neither a guest's nor anonymous. What an anonymous client
        //# signs or seals all the same is checked, and answered so, as with Windows and Samba.
        signing_required: is_proved && (asks || options.signing == Signing::Required),
        sealing_required,
        flags,
    }
}

/// Sessions of a connection.
const SESSIONS_MAX: usize = 256;
