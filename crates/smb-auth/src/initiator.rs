//! The client's side of a sign-in.

use smb_wire::Role;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::ntlm::message::{AuthenticateParts, Challenge, MIC, av, find, write_negotiate};
use crate::ntlm::{crypto, flags};
use crate::spnego::{self, Resp, State, Token, oid};
use crate::{Refused, SessionKey, TOKEN_MAX};

/// Name and password of a client that signs in.
#[derive(Clone)]
pub struct Credentials {
    /// The domain, as the server gets it.
    pub domain: String,
    /// The user; empty is anonymous.
    pub user: String,
    /// The NT hash of the password.
    pub nt_hash: Zeroizing<[u8; 16]>,
    /// The client's own name.
    pub workstation: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({}\\{})", self.domain, self.user)
    }
}

/// One sign-in: [`Initiator::first`], [`Initiator::answer`], [`Initiator::finish`].
#[derive(Debug)]
pub struct Initiator {
    credentials: Credentials,
    client_challenge: [u8; 8],
    random_key: SessionKey,
    list: Vec<u8>,
    negotiate: Vec<u8>,
    agreed: u32,
    session_key: Option<SessionKey>,
}

const ASKED: u32 = flags::UNICODE
    | flags::REQUEST_TARGET
    | flags::SIGN
    | flags::SEAL
    | flags::NTLM
    | flags::ALWAYS_SIGN
    | flags::EXTENDED_SESSION_SECURITY
    | flags::TARGET_INFO
    | flags::VERSION
    | flags::KEY_128
    | flags::KEY_EXCH
    | flags::KEY_56;

impl Initiator {
    /// Creates a sign-in with this challenge and this key for the session, both random and never used again.
    pub fn new(credentials: Credentials, client_challenge: [u8; 8], random_key: SessionKey) -> Self {
        let list = spnego::mechanism_list(&[oid::NTLM]);
        let negotiate = write_negotiate(ASKED);
        Self { credentials, client_challenge, random_key, list, negotiate, agreed: 0, session_key: None }
    }

    /// Returns the first token.
    pub fn first(&self) -> Vec<u8> {
        spnego::write_init(&self.list, &self.negotiate)
    }

    /// Returns the answer to the server's challenge. `now` is the time, 100 ns since 1601, if the server does not tell
    /// its own.
    pub fn answer(&mut self, token: &[u8], now: u64) -> Result<Vec<u8>, Refused> {
        let resp = response(token)?;
        if resp.state == Some(State::Reject) || resp.mechanism.is_some_and(|oid| oid != oid::NTLM) {
            return Err(Refused::NoMechanism);
        }
        let bytes = resp.token.ok_or(Refused::Malformed)?;
        let challenge = Challenge::parse(bytes)?;
        self.agreed = challenge.flags & ASKED;
        if self.agreed & flags::UNICODE == 0 || self.agreed & flags::EXTENDED_SESSION_SECURITY == 0 {
            return Err(Refused::Weak);
        }
        let message = self.authenticate(&challenge, bytes, now)?;
        let mic = self.session_key.as_ref().map(|key| self.signature(key, Role::Client));
        Ok(spnego::write_resp(&Resp {
            state: Some(State::Incomplete),
            mechanism: None,
            token: Some(&message),
            mic: mic.as_ref().map(|mic| &mic[..]),
        }))
    }

    fn authenticate(
        &mut self,
        challenge: &Challenge<'_>,
        bytes: &[u8],
        now: u64,
    ) -> Result<Vec<u8>, Refused> {
        let Credentials { domain, user, nt_hash, workstation } = &self.credentials;
        if user.is_empty() {
            let flags = self.agreed & !flags::KEY_EXCH | flags::ANONYMOUS;
            let parts =
                AuthenticateParts { flags, lm: &[0], nt: &[], domain, user, workstation, session_key: &[] };
            return Ok(parts.write());
        }
        let key = crypto::ntowf_v2(nt_hash, user.encode_utf16(), domain.encode_utf16());
        let time = find(challenge.target_info, av::TIMESTAMP)?.and_then(|time| time.first_chunk()).copied();
        let said = self.said(time.map_or(now, u64::from_le_bytes), challenge.target_info);
        let proof = crypto::proof(&key, &challenge.challenge, &said);
        let base = crypto::base_key(&key, &proof);
        let (session_key, encrypted) = if self.agreed & flags::KEY_EXCH != 0 {
            let mut encrypted = self.random_key.to_vec();
            crypto::rc4(&*base, &mut encrypted);
            (self.random_key.clone(), encrypted)
        } else {
            (base, Vec::new())
        };
        let nt = [&proof[..], &said].concat();
        // With a timestamp LM's answer is zeros (MS-NLMP 3.1.5.1.2).
        let parts = AuthenticateParts {
            flags: self.agreed,
            lm: &[0; 24],
            nt: &nt,
            domain,
            user,
            workstation,
            session_key: &encrypted,
        };
        let mut message = parts.write();
        let mic = crypto::mic(&session_key, &self.negotiate, bytes, &message);
        message[MIC].copy_from_slice(&mic);
        self.session_key = Some(session_key);
        Ok(message)
    }

    /// Returns what the proof is made over: time, our challenge, and the server's pairs with ours in front.
    fn said(&self, time: u64, target_info: &[u8]) -> Vec<u8> {
        let mut said = vec![1, 1, 0, 0, 0, 0, 0, 0];
        said.extend(time.to_le_bytes());
        said.extend(self.client_challenge);
        said.extend([0; 4]);
        said.extend(av::FLAGS.to_le_bytes());
        said.extend([4, 0]);
        said.extend(av::FLAG_MIC.to_le_bytes());
        said.extend(target_info);
        said.extend([0; 4]);
        said
    }

    /// Checks the server's last token, and gives the session's key; none after an anonymous sign-in.
    pub fn finish(self, token: &[u8]) -> Result<Option<SessionKey>, Refused> {
        let Some(key) = &self.session_key else { return Ok(None) };
        let resp = response(token)?;
        if resp.state != Some(State::Completed) {
            return Err(Refused::Order);
        }
        let expected = self.signature(key, Role::Server);
        match resp.mic {
            Some(mic) if !bool::from(expected.ct_eq(mic)) => Err(Refused::Changed),
            _ => Ok(self.session_key),
        }
    }

    fn signature(&self, key: &SessionKey, sender: Role) -> [u8; 16] {
        crypto::first_signature(key, self.agreed, sender, &self.list)
    }
}

fn response(token: &[u8]) -> Result<Resp<'_>, Refused> {
    if token.len() > TOKEN_MAX {
        return Err(Refused::TooLong);
    }
    match Token::parse(token)? {
        Token::Resp(resp) => Ok(resp),
        Token::Init(_) => Err(Refused::Order),
    }
}
