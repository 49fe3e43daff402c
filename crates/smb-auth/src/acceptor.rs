//! The server's side of a sign-in.

use smb_wire::Role;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::ntlm::message::{Authenticate, Challenge, MIC, av, find, pairs, parse_negotiate};
use crate::ntlm::{crypto, flags};
use crate::spnego::{self, NTLMSSP, Resp, State, Token, oid};
use crate::{Refused, SessionKey, TOKEN_MAX};

/// Accounts, as far as a sign-in asks.
pub trait Accounts {
    /// The NT hash of an account; of one that there is not, or that has none, a decoy that nobody knows, so that it
    /// takes as long.
    fn nt_hash(&self, domain: &str, user: &str) -> Zeroizing<[u8; 16]>;

    /// Whether there is such an account: where guests are let in, only others are.
    fn is_known(&self, domain: &str, user: &str) -> bool;

    /// Whether so many have failed with this name, be there such an account or not, that its password is not looked at now.
    fn is_held_off(&self, domain: &str, user: &str) -> bool {
        let _ = (domain, user);
        false
    }
}

/// How the server calls itself in a challenge.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its NetBIOS name.
    pub netbios_name: String,
    /// The domain or workgroup.
    pub netbios_domain: String,
    /// Its DNS name.
    pub dns_name: String,
    /// That of its domain; may be empty.
    pub dns_domain: String,
}

/// Who may sign in without proof. Nobody, unless configured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// Names that there are not come in as a guest.
    pub guest: bool,
    /// Nobody in particular comes in.
    pub anonymous: bool,
}

/// Who signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// An account, by the names that were sent.
    User {
        /// The domain, as the client believes.
        domain: String,
        /// The user.
        user: String,
    },
    /// A name that there is not.
    Guest,
    /// Nobody in particular.
    Anonymous,
}

/// What a sign-in ends with.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// Who.
    pub who: Who,
    /// The session's key. A guest has none, and nothing of his session is signed or sealed; that of nobody in particular is one that
    /// everybody knows, and proves nothing.
    pub session_key: Option<SessionKey>,
}

/// What a token is answered with.
#[derive(Clone, Debug)]
pub enum Reply {
    /// `STATUS_MORE_PROCESSING_REQUIRED` and this token.
    More(Vec<u8>),
    /// `STATUS_SUCCESS` and this token.
    Done(Vec<u8>, SignedIn),
}

/// The token of a server's answer to NEGOTIATE: it speaks NTLM.
pub fn hint() -> Vec<u8> {
    spnego::write_hint(&spnego::mechanism_list(&[oid::NTLM]))
}

/// One sign-in. It holds the first two messages (some hundred bytes) until the third has come.
#[derive(Debug)]
pub struct Acceptor {
    policy: Policy,
    challenge: [u8; 8],
    state: Step,
    /// The offer's list, where there was one: the client speaks SPNEGO.
    list: Option<Vec<u8>>,
    /// NTLM was not the client's first choice, so that somebody may have struck out what was.
    mic_required: bool,
    claimed: Option<String>,
}

#[derive(Debug)]
enum Step {
    Offer,
    Negotiate,
    Authenticate { negotiate: Vec<u8>, challenge: Vec<u8>, flags: u32 },
    Ended,
}

impl Acceptor {
    /// A sign-in with this challenge, which is random and never used again.
    pub fn new(policy: Policy, challenge: [u8; 8]) -> Self {
        Self { policy, challenge, state: Step::Offer, list: None, mic_required: false, claimed: None }
    }

    /// The user's name as the client gave it, once it has.
    pub fn claimed(&self) -> Option<&str> {
        self.claimed.as_deref()
    }

    /// Takes a client's token. `now` is the time, 100 ns since 1601.
    ///
    /// # Errors
    /// Why the sign-in has failed; it is over then.
    pub fn accept(
        &mut self,
        token: &[u8],
        target: &Target,
        now: u64,
        accounts: &dyn Accounts,
    ) -> Result<Reply, Refused> {
        let state = std::mem::replace(&mut self.state, Step::Ended);
        if token.len() > TOKEN_MAX {
            return Err(Refused::TooLong);
        }
        let (inner, mic) = match (&state, token.starts_with(NTLMSSP)) {
            (Step::Offer, true) => (Some(token), None),
            (Step::Offer, false) => (self.offer(token)?, None),
            (_, true) if self.list.is_none() => (Some(token), None),
            (_, false) if self.list.is_some() => match Token::parse(token)? {
                Token::Resp(resp) => (resp.token, resp.mic),
                Token::Init(_) => return Err(Refused::Order),
            },
            _ => return Err(Refused::Order),
        };
        match (state, inner) {
            (Step::Offer | Step::Negotiate, Some(negotiate)) => self.negotiate(negotiate, target, now),
            // The client's first choice was another: it is asked for a token of ours.
            (Step::Offer, None) => {
                self.state = Step::Negotiate;
                let resp =
                    Resp { state: Some(State::RequestMic), mechanism: Some(oid::NTLM), ..Resp::default() };
                Ok(Reply::More(spnego::write_resp(&resp)))
            }
            (Step::Authenticate { negotiate, challenge, flags }, Some(message)) => {
                let authenticate = Authenticate::parse(message)?;
                let agreed = authenticate.flags & flags;
                let signed_in = self.authenticate(&authenticate, agreed, &negotiate, &challenge, accounts)?;
                self.finish(signed_in, agreed, mic)
            }
            _ => Err(Refused::Order),
        }
    }

    /// Takes an offer, and gives NTLM's token in it if NTLM is the client's first choice.
    fn offer<'a>(&mut self, token: &'a [u8]) -> Result<Option<&'a [u8]>, Refused> {
        let Token::Init(init) = Token::parse(token)? else { return Err(Refused::Order) };
        let mechanisms = init.mechanisms().collect::<Result<Vec<_>, _>>()?;
        let place = mechanisms.iter().position(|mechanism| *mechanism == oid::NTLM);
        self.list = Some(init.list.to_vec());
        match place.ok_or(Refused::NoMechanism)? {
            0 => Ok(init.token),
            _ => {
                self.mic_required = true;
                Ok(None)
            }
        }
    }

    fn negotiate(&mut self, negotiate: &[u8], target: &Target, now: u64) -> Result<Reply, Refused> {
        let asked = parse_negotiate(negotiate)?;
        if asked & flags::UNICODE == 0 || asked & flags::NTLM == 0 {
            return Err(Refused::Weak);
        }
        let always = flags::UNICODE
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
        let text = |text: &str| smb_wire::text::encoded(text);
        //= MS-NLMP 2.2.2.1
        //# With a timestamp in the challenge a client should give an integrity code.
        let target_info = pairs(&[
            (av::NB_DOMAIN_NAME, &text(&target.netbios_domain)),
            (av::NB_COMPUTER_NAME, &text(&target.netbios_name)),
            (av::DNS_DOMAIN_NAME, &text(&target.dns_domain)),
            (av::DNS_COMPUTER_NAME, &text(&target.dns_name)),
            (av::TIMESTAMP, &now.to_le_bytes()),
        ]);
        let challenge = Challenge { flags, challenge: self.challenge, target_info: &target_info };
        let challenge = challenge.write(&target.netbios_name);
        let token = match self.list {
            Some(_) => spnego::write_resp(&Resp {
                state: Some(State::Incomplete),
                mechanism: Some(oid::NTLM),
                token: Some(&challenge),
                mic: None,
            }),
            None => challenge.clone(),
        };
        self.state = Step::Authenticate { negotiate: negotiate.to_vec(), challenge, flags };
        Ok(Reply::More(token))
    }

    fn authenticate(
        &mut self,
        message: &Authenticate<'_>,
        agreed: u32,
        negotiate: &[u8],
        challenge: &[u8],
        accounts: &dyn Accounts,
    ) -> Result<SignedIn, Refused> {
        if message.user.is_empty() && message.nt.is_empty() && message.lm.len() <= 1 {
            //= MS-NLMP 3.2.5.1.2
            //# Of nobody in particular the base key is zeros. Who exchanges keys chooses his own under it.
            let session_key = session_key(SessionKey::default(), message.session_key, agreed).ok();
            let signed_in = SignedIn { who: Who::Anonymous, session_key };
            return if self.policy.anonymous { Ok(signed_in) } else { Err(Refused::Anonymous) };
        }
        let names = message.user.decode().zip(message.domain.decode());
        self.claimed = names.as_ref().map(|(user, _)| user.clone());
        //= MS-NLMP 3.3.2
        //# NTLMv2's answer is a proof of 16 bytes and what it proves; 24 bytes are of NTLMv1.
        let (proof, said) = message.nt.split_first_chunk::<16>().ok_or(Refused::Weak)?;
        // Version, time, challenge and the end of a list: less is no answer of NTLMv2.
        if said.len() < 32 || said[..2] != [1, 1] {
            return Err(Refused::Weak);
        }
        //= MS-NLMP 2.2.2.7
        //# The answer ends with a list of pairs, and that with MsvAvEOL: one without an end is malformed, whoever sent it.
        let flags = find(&said[28..], av::FLAGS)?.and_then(|value| value.first_chunk()).copied();
        let (user, domain) = names.ok_or(Refused::Wrong)?;
        if accounts.is_held_off(&domain, &user) {
            return Err(Refused::HeldOff);
        }
        let nt_hash = accounts.nt_hash(&domain, &user);
        let key = crypto::ntowf_v2(&nt_hash, message.user.units(), message.domain.units());
        let expected = crypto::proof(&key, &self.challenge, said);
        if !bool::from(expected.ct_eq(proof)) {
            let guest = self.policy.guest && !accounts.is_known(&domain, &user);
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

    fn finish(&self, signed_in: SignedIn, agreed: u32, mic: Option<&[u8]>) -> Result<Reply, Refused> {
        let Some(list) = &self.list else { return Ok(Reply::Done(Vec::new(), signed_in)) };
        let signature = |key, sender| crypto::first_signature(key, agreed, sender, list);
        // A code under a key that everybody knows says nothing.
        let key = signed_in.session_key.as_ref().filter(|_| signed_in.who != Who::Anonymous);
        let ours = match (mic, key) {
            (Some(mic), Some(key)) => {
                //= RFC 4178 5
                //# A mechListMIC that does not verify ends the negotiation.
                if !bool::from(signature(key, Role::Client).ct_eq(mic)) {
                    return Err(Refused::Changed);
                }
                Some(signature(key, Role::Server))
            }
            (None, Some(_)) if self.mic_required => return Err(Refused::NoMic),
            _ => None,
        };
        let resp =
            Resp { state: Some(State::Completed), mic: ours.as_ref().map(|mic| &mic[..]), ..Resp::default() };
        Ok(Reply::Done(spnego::write_resp(&resp), signed_in))
    }
}

/// `ExportedSessionKey`: the client's choice where keys are exchanged.
fn session_key(base: SessionKey, encrypted: &[u8], agreed: u32) -> Result<SessionKey, Refused> {
    if agreed & flags::KEY_EXCH == 0 {
        return Ok(base);
    }
    let mut key = Zeroizing::new(*<&[u8; 16]>::try_from(encrypted).map_err(|_| Refused::Malformed)?);
    crypto::rc4(&*base, &mut *key);
    Ok(key)
}
