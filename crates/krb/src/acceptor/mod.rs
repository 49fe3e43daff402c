//! Signing in with a ticket: bytes, keys and a time in, who it is and a reply out.

mod accepted;
mod policy;
mod reason;
mod ticket;

pub use accepted::{Accepted, Client, KeySource, OpenTicket, TicketKey};
pub use policy::{BindingCheck, Policy, ServiceName};
pub use reason::{Reason, Refusal};

use crate::Time;
use crate::crypto::{Key, usage};
use crate::der::Malformed;
use crate::gss::{Framed, GssChecksum, GssFlags, Mechanism, MessageIntegrity, Role, TokenKind};
use crate::keytab::Keys;
use crate::message::{
    ApRep, ApReq, Authenticator, EncApRepPart, EncryptedData, KrbError, SKEW_RECOVERY, SessionKey, ad_type,
};
use crate::replay::{ReplayCache, ReplayRefused};

/// Accepts tickets by a policy. It keeps nothing of a sign-in: a client that is refused for its clock begins anew.
#[derive(Clone, Debug, Default)]
pub struct Acceptor {
    policy: Policy,
}

/// Input of one sign-in: a token, and everything else that an acceptor does not have itself.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// A GSS-API token with an AP-REQ, as the mechToken of SPNEGO is, or a bare AP-REQ.
    pub token: &'a [u8],
    /// The time of day.
    pub now: Time,
    /// 20 random bytes, new for each request: the reply's confounder and first sequence number.
    pub random: &'a [u8; 20],
    /// Check that ties the token to the connection that carried it.
    pub bindings: BindingCheck,
}

impl Acceptor {
    /// Longest token that is looked at, bytes.
    pub const TOKEN_BYTES_MAX: usize = 64 << 10;

    /// Creates an acceptor that follows a policy.
    pub fn new(policy: Policy) -> Self {
        Self { policy }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Signs a client in by an AP-REQ.
    ///
    /// A refusal may have a reply to the client; where it is [recoverable](Refusal::is_recoverable) the client sends another token by
    /// the time in it, which is accepted as a first one.
    pub fn accept(
        &self,
        request: &Request<'_>,
        keys: &Keys,
        replays: &ReplayCache,
    ) -> Result<Accepted, Box<Refusal>> {
        if request.token.len() > Self::TOKEN_BYTES_MAX {
            return Err(Refusal::unanswered(Reason::TooLong));
        }
        let (mechanism, message) = unframe(request.token).map_err(Refusal::unanswered)?;
        let ap_req = ApReq::parse(message).map_err(|error| Refusal::unanswered(error.into()))?;
        let mut audit = Audit::default();
        self.accept_ap_req(request, mechanism, &ap_req, keys, replays, &mut audit).map_err(|reason| {
            let reply = error_reply(&reason, &ap_req, mechanism, request.now, &audit);
            Box::new(Refusal { reason, client: audit.client, reply: Some(reply) })
        })
    }

    fn accept_ap_req(
        &self,
        request: &Request<'_>,
        mechanism: Option<Mechanism>,
        ap_req: &ApReq<'_>,
        keys: &Keys,
        replays: &ReplayCache,
        audit: &mut Audit,
    ) -> Result<Accepted, Reason> {
        if ap_req.use_session_key {
            return Err(Reason::UserToUser);
        }
        let service = &ap_req.ticket.service;
        self.policy.check_service(service)?;
        let ticket =
            self.open(&ap_req.ticket.encrypted, Some(service), keys, request.now, &mut audit.client)?;
        let Client::Principal(client) = &ticket.client else { return Err(Reason::Client) };
        let ticket_key = ticket.session_key.key().map_err(Reason::SessionKey)?;
        let sealed = ap_req.authenticator;
        let plain = sealed
            .decrypt(&ticket_key, usage::AP_REQ_AUTHENTICATOR)
            .map_err(|_| Reason::AuthenticatorIntegrity)?;
        let authenticator = Authenticator::parse(&plain)?;
        if authenticator.client != *client {
            return Err(Reason::ClientMismatch);
        }
        audit.client_time = Some(authenticator.time);
        let skew = authenticator.time.distance_seconds(request.now);
        if skew > u64::from(self.policy.clock_skew_seconds) {
            return Err(Reason::Skew {
                seconds: authenticator.time.seconds.saturating_sub(request.now.seconds),
            });
        }
        let checksum = gss_checksum(&authenticator, mechanism)?;
        check_bindings(request.bindings, checksum.as_ref(), &authenticator)?;
        let flags = checksum.unwrap_or_default().flags;
        if flags.contains(GssFlags::DCE_STYLE) {
            return Err(Reason::DceStyle);
        }
        let (session_key, key_source) = match &authenticator.subkey {
            Some(subkey) => (subkey.key().map_err(Reason::SessionKey)?, KeySource::InitiatorSubkey),
            None => (ticket_key.clone(), KeySource::Ticket),
        };
        // The last check: what is remembered is right in all else.
        let expires = Time::from_seconds(
            authenticator.time.seconds.saturating_add(self.policy.clock_skew_seconds.into()),
        );
        replays.accept(&client.to_string(), sealed.cipher, expires, request.now).map_err(|refused| {
            match refused {
                ReplayRefused::Replayed => Reason::Replay,
                ReplayRefused::Full => Reason::ReplayCacheFull,
            }
        })?;

        let client_seq = authenticator.seq_number.unwrap_or(0);
        let is_mutual = ap_req.mutual_required || flags.contains(GssFlags::MUTUAL);
        let reply = is_mutual.then(|| ap_rep(&authenticator, &ticket_key, mechanism, request.random));
        // Without an AP-REP the acceptor's numbers begin where the initiator's do.
        let our_seq = if is_mutual { sequence_number(request.random) } else { client_seq };
        Ok(Accepted {
            service: service.clone(),
            flags,
            messages: MessageIntegrity::new(
                session_key.clone(),
                Role::Acceptor,
                false,
                our_seq.into(),
                client_seq.into(),
            ),
            session_key: SessionKey::from(&session_key),
            key_source,
            has_bindings: checksum.is_some_and(|checksum| checksum.bindings != [0; 16]),
            reply,
            ticket,
        })
    }
}

/// The client and its clock, as far as they are known when it is refused.
#[derive(Default)]
struct Audit {
    client: Option<crate::Principal>,
    client_time: Option<Time>,
}

/// Takes the frame off a token, if there is one.
fn unframe(token: &[u8]) -> Result<(Option<Mechanism>, &[u8]), Reason> {
    match token.first() {
        Some(&ApReq::TAG) => Ok((None, token)),
        Some(&Framed::TAG) => {
            let framed = Framed::parse(token)?.ok_or(Reason::Mechanism)?;
            match framed.kind {
                TokenKind::ApReq => Ok((Some(framed.mechanism), framed.message)),
                TokenKind::ApRep | TokenKind::Error => Err(Malformed("AP-REQ").into()),
            }
        }
        _ => Err(Malformed("GSS-API token").into()),
    }
}

fn frame(kind: TokenKind, message: Vec<u8>, mechanism: Option<Mechanism>) -> Vec<u8> {
    match mechanism {
        Some(mechanism) => Framed { mechanism, kind, message: &message }.encode(),
        None => message,
    }
}

/// Parses the checksum of GSS-API, which a token in a GSS-API frame must have; a bare AP-REQ may have any or none.
fn gss_checksum(
    authenticator: &Authenticator<'_>,
    mechanism: Option<Mechanism>,
) -> Result<Option<GssChecksum>, Reason> {
    match authenticator.checksum {
        Some(checksum) if checksum.checksum_type == GssChecksum::TYPE => {
            Ok(Some(GssChecksum::parse(checksum.bytes)?))
        }
        _ if mechanism.is_some() => Err(Reason::NoGssChecksum),
        _ => Ok(None),
    }
}

/// Checks channel bindings by MIT's rule: a client that gives none passes, unless it says that it would have given some
/// (MS-KILE 3.4.5).
fn check_bindings(
    check: BindingCheck,
    checksum: Option<&GssChecksum>,
    authenticator: &Authenticator<'_>,
) -> Result<(), Reason> {
    let (expected, is_required) = match check {
        BindingCheck::Ignored => return Ok(()),
        BindingCheck::IfGiven(expected) => (expected, false),
        BindingCheck::Required(expected) => (expected, true),
    };
    let given = checksum.map_or([0; 16], |checksum| checksum.bindings);
    if given != [0; 16] {
        return if given == *expected.hash() { Ok(()) } else { Err(Reason::WrongBindings) };
    }
    let options = authenticator.authorization_data.find(ad_type::AP_OPTIONS);
    let options =
        options.and_then(|options| options.first_chunk()).map_or(0, |bits| u32::from_le_bytes(*bits));
    let would_give = options & KERB_AP_OPTIONS_CBT != 0;
    if is_required || would_give { Err(Reason::NoBindings) } else { Ok(()) }
}

fn ap_rep(
    authenticator: &Authenticator<'_>,
    ticket_key: &Key,
    mechanism: Option<Mechanism>,
    random: &[u8; 20],
) -> Vec<u8> {
    let (confounder, _) = random.split_first_chunk::<16>().expect("16 of 20");
    let part = EncApRepPart {
        time: authenticator.time,
        // Clients that ignore it, and others that do not set its flag in their integrity codes, get along without.
        subkey: None,
        seq_number: Some(sequence_number(random)),
    };
    let cipher = ticket_key.encrypt(usage::AP_REP, &part.encode(), confounder);
    let encrypted = EncryptedData { etype: ticket_key.etype().number(), kvno: None, cipher: &cipher };
    frame(TokenKind::ApRep, ApRep { encrypted }.encode(), mechanism)
}

/// Returns a sequence number of 30 bits: old clients take larger ones for negative numbers.
fn sequence_number(random: &[u8; 20]) -> u32 {
    let [.., a, b, c, d] = *random;
    u32::from_be_bytes([a, b, c, d]) >> 2
}

fn error_reply(
    reason: &Reason,
    ap_req: &ApReq<'_>,
    mechanism: Option<Mechanism>,
    now: Time,
    audit: &Audit,
) -> Vec<u8> {
    let error = KrbError {
        client_time: audit.client_time,
        server_time: now,
        code: reason.code(),
        client: audit.client.clone(),
        service: ap_req.ticket.service.clone(),
        text: None,
        data: reason.is_recoverable().then(|| SKEW_RECOVERY.to_vec()),
    };
    frame(TokenKind::Error, error.encode(), mechanism)
}

/// The client gives channel bindings wherever there are any (MS-KILE 2.2.10).
const KERB_AP_OPTIONS_CBT: u32 = 0x4000;
