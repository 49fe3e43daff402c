//! The server's side of a sign-in: the negotiation of a mechanism (SPNEGO, RFC 4178), and its tokens in that.

use smb_wire::Role;
use subtle::ConstantTimeEq;

use crate::mechanism::{Host, Mechanism, Step};
use crate::ntlm::Server;
use crate::sign_in::{Accounts, Policy, SignedIn, Target};
use crate::spnego::{self, NTLMSSP, Resp, State, Token, oid};
use crate::{Refused, TOKEN_MAX};

/// Reply to a token.
#[derive(Clone, Debug)]
pub enum Reply {
    /// `STATUS_MORE_PROCESSING_REQUIRED` and this token.
    More(Vec<u8>),
    /// `STATUS_SUCCESS` and this token.
    Done(Vec<u8>, SignedIn),
}

/// Returns the token of a server's answer to NEGOTIATE: what it speaks.
pub fn hint() -> Vec<u8> {
    spnego::write_hint(&spnego::mechanism_list(&[oid::NTLM]))
}

/// One sign-in. It holds what its mechanism does of the messages before the last (of NTLM some hundred bytes).
#[derive(Debug)]
pub struct Acceptor {
    policy: Policy,
    challenge: [u8; 8],
    stage: Stage,
    /// The offer's list, where there was one: the client speaks SPNEGO.
    list: Option<Vec<u8>>,
    /// The mechanism was not the client's first choice, so that an attacker may have struck out what was.
    mic_required: bool,
    /// The client knows which mechanism it is.
    is_told: bool,
    claimed: Option<String>,
}

#[derive(Debug)]
enum Stage {
    Offer,
    UnderWay(Box<dyn Mechanism>),
    Ended,
}

/// Mechanism chosen from an offer, and the client's token in it.
struct Chosen<'a> {
    mechanism: Box<dyn Mechanism>,
    token: Option<&'a [u8]>,
}

impl Acceptor {
    /// Creates a sign-in with this challenge, which is random and never used again.
    pub fn new(policy: Policy, challenge: [u8; 8]) -> Self {
        Self {
            policy,
            challenge,
            stage: Stage::Offer,
            list: None,
            mic_required: false,
            is_told: false,
            claimed: None,
        }
    }

    /// Returns the user's name as the client gave it, once it has.
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
        let stage = std::mem::replace(&mut self.stage, Stage::Ended);
        if token.len() > TOKEN_MAX {
            return Err(Refused::TooLong);
        }
        let is_bare = token.starts_with(NTLMSSP);
        let (mut mechanism, inner, mic) = match stage {
            Stage::Offer if is_bare => (self.mechanism(oid::NTLM).ok_or(Refused::NoMechanism)?, token, None),
            Stage::Offer => match self.offer(token)? {
                Chosen { mechanism, token: Some(inner) } => (mechanism, inner, None),
                // The client's first choice was another: it is asked for a token of ours.
                Chosen { mechanism, token: None } => {
                    let state = if self.mic_required { State::RequestMic } else { State::Incomplete };
                    return Ok(self.go_on(mechanism, state, None));
                }
            },
            Stage::UnderWay(mechanism) if is_bare && self.list.is_none() => (mechanism, token, None),
            Stage::UnderWay(mechanism) if !is_bare && self.list.is_some() => match Token::parse(token)? {
                Token::Resp(resp) => (mechanism, resp.token.ok_or(Refused::Order)?, resp.mic),
                Token::Init(_) => return Err(Refused::Order),
            },
            _ => return Err(Refused::Order),
        };
        let step = mechanism.step(inner, &Host { target, now, accounts });
        self.claimed = mechanism.claimed().map(str::to_owned);
        match step? {
            Step::More(inner) => Ok(self.go_on(mechanism, State::Incomplete, Some(inner))),
            Step::Done { token, signed_in } => self.finish(&*mechanism, token, signed_in, mic),
        }
    }

    /// Returns the mechanism of that name, if it is spoken.
    fn mechanism(&self, name: &[u8]) -> Option<Box<dyn Mechanism>> {
        match name {
            oid::NTLM => Some(Box::new(Server::new(self.policy, self.challenge))),
            _ => None,
        }
    }

    /// Takes an offer: the first mechanism in it that is spoken, and its token if it is the client's first choice.
    fn offer<'a>(&mut self, token: &'a [u8]) -> Result<Chosen<'a>, Refused> {
        let Token::Init(init) = Token::parse(token)? else { return Err(Refused::Order) };
        let names = init.mechanisms().collect::<Result<Vec<_>, _>>()?;
        // It is kept for the integrity code: a handful of mechanisms, of some ten bytes each.
        if init.list.len() > LIST_MAX {
            return Err(Refused::Malformed);
        }
        self.list = Some(init.list.to_vec());
        let spoken = names.iter().enumerate().find_map(|(place, name)| Some((place, self.mechanism(name)?)));
        let (place, mechanism) = spoken.ok_or(Refused::NoMechanism)?;
        self.mic_required = place > 0;
        Ok(Chosen { mechanism, token: init.token.filter(|_| place == 0) })
    }

    /// Has the client go on, by a token of the mechanism's if it has one yet.
    fn go_on(&mut self, mechanism: Box<dyn Mechanism>, state: State, inner: Option<Vec<u8>>) -> Reply {
        let token = match (&self.list, inner) {
            (None, Some(inner)) => inner,
            (_, inner) => spnego::write_resp(&Resp {
                state: Some(state),
                mechanism: Some(mechanism.oid()),
                token: inner.as_deref(),
                mic: None,
            }),
        };
        (self.is_told, self.stage) = (true, Stage::UnderWay(mechanism));
        Reply::More(token)
    }

    fn finish(
        &self,
        mechanism: &dyn Mechanism,
        token: Option<Vec<u8>>,
        signed_in: SignedIn,
        mic: Option<&[u8]>,
    ) -> Result<Reply, Refused> {
        let Some(list) = &self.list else { return Ok(Reply::Done(token.unwrap_or_default(), signed_in)) };
        let ours = match (mic, mechanism.mic(Role::Client, list)) {
            (Some(mic), Some(expected)) => {
                //= RFC 4178 5
                //# A mechListMIC that does not verify ends the negotiation.
                if !bool::from(expected.ct_eq(mic)) {
                    return Err(Refused::Changed);
                }
                mechanism.mic(Role::Server, list)
            }
            (None, Some(_)) if self.mic_required => return Err(Refused::NoMic),
            _ => None,
        };
        let resp = Resp {
            state: Some(State::Completed),
            mechanism: (!self.is_told).then(|| mechanism.oid()),
            token: token.as_deref(),
            mic: ours.as_deref(),
        };
        Ok(Reply::Done(spnego::write_resp(&resp), signed_in))
    }
}

/// Bytes of the list of mechanisms in a first token.
const LIST_MAX: usize = 512;
