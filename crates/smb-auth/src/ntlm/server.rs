//! The server's side of NTLMv2: a challenge, and whether the answer proves a password.

use smb_wire::Role;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::message::{Authenticate, Challenge, MIC, av, find, pairs, parse_negotiate};
use super::{crypto, flags};
use crate::mechanism::{Host, Mechanism, Step};
use crate::spnego::oid;
use crate::{Policy, Refused, SessionKey, SignedIn, Who};

/// One sign-in. It holds the first two messages until the third has come.
#[derive(Debug)]
pub(crate) struct Server {
    policy: Policy,
    challenge: [u8; 8],
    stage: Stage,
    claimed: Option<String>,
}

#[derive(Debug)]
enum Stage {
    Negotiate,
    Authenticate {
        negotiate: Vec<u8>,
        challenge: Vec<u8>,
        flags: u32,
    },
    /// The exchange is done; `agreed` are its flags and `key` is there where one proves anything.
    Done {
        agreed: u32,
        key: Option<SessionKey>,
    },
    Ended,
}

impl Server {
    /// Begins a sign-in with this challenge, which is random and never used again.
    pub(crate) fn new(policy: Policy, challenge: [u8; 8]) -> Self {
        Self { policy, challenge, stage: Stage::Negotiate, claimed: None }
    }
}

impl Mechanism for Server {
    fn oid(&self) -> &'static [u8] {
        oid::NTLM
    }

    fn step(&mut self, token: &[u8], host: &Host<'_>) -> Result<Step, Refused> {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Negotiate => self.negotiate(token, host),
            Stage::Authenticate { negotiate, challenge, flags } => {
                let authenticate = Authenticate::parse(token)?;
                let agreed = authenticate.flags & flags;
                let signed_in = self.authenticate(&authenticate, agreed, (&negotiate, &challenge), host)?;
                // A code under a public key says nothing.
                let key = signed_in.session_key.clone().filter(|_| signed_in.who != Who::Anonymous);
                self.stage = Stage::Done { agreed, key };
                Ok(Step::Done { token: None, signed_in })
            }
            Stage::Done { .. } | Stage::Ended => Err(Refused::Order),
        }
    }

    fn claimed(&self) -> Option<&str> {
        self.claimed.as_deref()
    }

    fn mic(&self, sender: Role, text: &[u8]) -> Option<Vec<u8>> {
        let Stage::Done { agreed, key: Some(key) } = &self.stage else { return None };
        Some(crypto::first_signature(key, *agreed, sender, text).to_vec())
    }
}

impl Server {
    fn negotiate(&mut self, negotiate: &[u8], host: &Host<'_>) -> Result<Step, Refused> {
        // It is kept whole for the integrity code; what clients send has some forty bytes and two short names.
        if negotiate.len() > NEGOTIATE_MAX {
            return Err(Refused::Malformed);
        }
        let asked = parse_negotiate(negotiate)?;
        //= MS-NLMP 3.2.5.1.1
        //# Text is Unicode where the client knows it, else OEM; a client that knows neither is refused.
        let text_as = match asked & (flags::UNICODE | flags::OEM) {
            0 => return Err(Refused::Weak),
            flags::OEM => flags::OEM,
            _ => flags::UNICODE,
        };
        if asked & flags::NTLM == 0 {
            return Err(Refused::Weak);
        }
        let always = text_as
            | flags::NTLM
            | flags::ALWAYS_SIGN
            | flags::TARGET_TYPE_SERVER
            | flags::EXTENDED_SESSION_SECURITY
            | flags::TARGET_INFO
            | flags::VERSION
            | flags::KEY_128
            | flags::KEY_56;
        let if_asked = flags::REQUEST_TARGET | flags::SIGN | flags::SEAL | flags::KEY_EXCH;
        let flags = always | asked & if_asked;
        let target = host.target;
        let text = |text: &str| smb_wire::text::encoded(text);
        //= MS-NLMP 2.2.2.1
        //# With a timestamp in the challenge a client should give an integrity code.
        let target_info = pairs(&[
            (av::NB_DOMAIN_NAME, &text(&target.netbios_domain)),
            (av::NB_COMPUTER_NAME, &text(&target.netbios_name)),
            (av::DNS_DOMAIN_NAME, &text(&target.dns_domain)),
            (av::DNS_COMPUTER_NAME, &text(&target.dns_name)),
            (av::TIMESTAMP, &host.now.to_le_bytes()),
        ]);
        let challenge = Challenge { flags, challenge: self.challenge, target_info: &target_info };
        let challenge = challenge.write(&target.netbios_name);
        self.stage =
            Stage::Authenticate { negotiate: negotiate.to_vec(), challenge: challenge.clone(), flags };
        Ok(Step::More(challenge))
    }

    fn authenticate(
        &mut self,
        message: &Authenticate<'_>,
        agreed: u32,
        (negotiate, challenge): (&[u8], &[u8]),
        host: &Host<'_>,
    ) -> Result<SignedIn, Refused> {
        if message.user.as_deref() == Some("") && message.nt.is_empty() && message.lm.len() <= 1 {
            //= MS-NLMP 3.2.5.1.2
            //# Of an anonymous client the base key is zeros. A client that exchanges keys chooses its own under it.
            let session_key = session_key(SessionKey::default(), message.session_key, agreed).ok();
            let signed_in = SignedIn { who: Who::Anonymous, session_key };
            return if self.policy.anonymous { Ok(signed_in) } else { Err(Refused::Anonymous) };
        }
        self.claimed = message.user.clone();
        //= MS-NLMP 3.3.2
        //# NTLMv2's answer is a proof of 16 bytes and what it proves; 24 bytes are of NTLMv1.
        let (proof, said) = message.nt.split_first_chunk::<16>().ok_or(Refused::Weak)?;
        // Version, time, challenge and the end of a list: less is no answer of NTLMv2.
        if said.len() < 32 || said[..2] != [1, 1] {
            return Err(Refused::Weak);
        }
        //= MS-NLMP 2.2.2.7
        //# The answer ends with a list of pairs, and that with MsvAvEOL: one without an end is malformed, from either side.
        let flags = find(&said[28..], av::FLAGS)?.and_then(|value| value.first_chunk()).copied();
        let (user, domain) = message.user.clone().zip(message.domain.clone()).ok_or(Refused::Wrong)?;
        if host.accounts.is_held_off(&domain, &user) {
            return Err(Refused::HeldOff);
        }
        let nt_hash = host.accounts.nt_hash(&domain, &user);
        let key = crypto::ntowf_v2(&nt_hash, user.encode_utf16(), domain.encode_utf16());
        let expected = crypto::proof(&key, &self.challenge, said);
        if !bool::from(expected.ct_eq(proof)) {
            let guest = self.policy.guest && !host.accounts.is_known(&domain, &user);
            let signed_in = SignedIn { who: Who::Guest, session_key: None };
            return if guest { Ok(signed_in) } else { Err(Refused::Wrong) };
        }
        let base = crypto::base_key(&key, proof);
        let session_key = session_key(base, message.session_key, agreed)?;
        let has_mic = flags.is_some_and(|flags| u32::from_le_bytes(flags) & av::FLAG_MIC != 0);
        //= MS-NLMP 3.2.5.1.2
        //# Where the answer, which the password proves, says that there is a code, the code must be there and right.
        // Linux's client makes none. Of 3.1.1 its session's keys cover every message of the sign-in.
        if has_mic {
            let mic = message.mic().ok_or(Refused::NoMic)?;
            //= MS-NLMP 3.2.5.1.2
            //# The code is made over all three messages, with zeros where it goes.
            let mut blank = message.bytes.to_vec();
            blank[MIC].fill(0);
            let expected = crypto::mic(&session_key, negotiate, challenge, &blank);
            if !bool::from(expected.ct_eq(mic)) {
                return Err(Refused::Changed);
            }
        }
        Ok(SignedIn { who: Who::User { domain, user }, session_key: Some(session_key) })
    }
}

/// Bytes of a NEGOTIATE_MESSAGE.
const NEGOTIATE_MAX: usize = 512;

/// Returns `ExportedSessionKey`: the client's choice where keys are exchanged.
fn session_key(base: SessionKey, encrypted: &[u8], agreed: u32) -> Result<SessionKey, Refused> {
    if agreed & flags::KEY_EXCH == 0 {
        return Ok(base);
    }
    let mut key = Zeroizing::new(*<&[u8; 16]>::try_from(encrypted).map_err(|_| Refused::Malformed)?);
    crypto::rc4(&*base, &mut *key);
    Ok(key)
}
