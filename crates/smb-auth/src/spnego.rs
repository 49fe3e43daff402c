//! Tokens of SPNEGO (RFC 4178 4.2, MS-SPNG 2.2.1).

use crate::Refused;
use crate::der::{Reader, element};

/// First bytes of NTLM's messages; some clients send them without SPNEGO.
pub const NTLMSSP: &[u8; 8] = b"NTLMSSP\0";

/// Most mechanisms of one offer that are looked at.
pub const MECHANISMS_MAX: usize = 32;

/// Object identifiers, without tag and length.
pub mod oid {
    /// SPNEGO: 1.3.6.1.5.5.2.
    pub const SPNEGO: &[u8] = &[0x2b, 6, 1, 5, 5, 2];
    /// NTLM: 1.3.6.1.4.1.311.2.2.10.
    pub const NTLM: &[u8] = &[0x2b, 6, 1, 4, 1, 0x82, 0x37, 2, 2, 10];
    /// Kerberos: 1.2.840.113554.1.2.2.
    pub const KERBEROS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2];
}

const SEQUENCE: u8 = 0x30;
const OID: u8 = 6;
const OCTETS: u8 = 4;
const ENUMERATED: u8 = 10;
const GENERAL_STRING: u8 = 0x1b;
const APPLICATION: u8 = 0x60;

fn context(number: u8) -> u8 {
    0xa0 | number
}

/// `negState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Done.
    Completed = 0,
    /// The peer has to send another token.
    Incomplete = 1,
    /// Refused.
    Reject = 2,
    /// The peer has to send another token, with a `mechListMIC` in it.
    RequestMic = 3,
}

impl State {
    fn from_wire(value: u8) -> Option<Self> {
        [Self::Completed, Self::Incomplete, Self::Reject, Self::RequestMic]
            .into_iter()
            .find(|state| *state as u8 == value)
    }
}

/// `NegTokenInit`: what a client offers.
#[derive(Clone, Copy, Debug)]
pub struct Init<'a> {
    /// The list of mechanisms as it lies in the token, which `mechListMIC` is made over.
    pub list: &'a [u8],
    /// A token of the first of them.
    pub token: Option<&'a [u8]>,
}

impl<'a> Init<'a> {
    /// Returns the mechanisms, in the client's order.
    pub fn mechanisms(&self) -> impl Iterator<Item = Result<&'a [u8], Refused>> + use<'a> {
        let content = Reader::new(self.list).only(SEQUENCE);
        let mut reader = content.as_ref().map_or(Reader::new(&[]), |content| Reader::new(content));
        let mut left = MECHANISMS_MAX;
        let failed = content.err().map(Err);
        failed.into_iter().chain(std::iter::from_fn(move || {
            if reader.is_empty() {
                return None;
            }
            left = left.checked_sub(1)?;
            Some(reader.expect(OID))
        }))
    }
}

/// `NegTokenResp`: everything after the offer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resp<'a> {
    /// State of the negotiation.
    pub state: Option<State>,
    /// The mechanism that was chosen.
    pub mechanism: Option<&'a [u8]>,
    /// The mechanism's next token.
    pub token: Option<&'a [u8]>,
    /// A code over the offer's list, by the mechanism's keys.
    pub mic: Option<&'a [u8]>,
}

/// A token of either kind.
#[derive(Clone, Copy, Debug)]
pub enum Token<'a> {
    /// The first.
    Init(Init<'a>),
    /// The others.
    Resp(Resp<'a>),
}

impl<'a> Token<'a> {
    /// Reads a token.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refused> {
        let mut reader = Reader::new(bytes);
        match reader.next()? {
            (APPLICATION, content) => {
                let mut reader = Reader::new(content);
                if reader.expect(OID)? != oid::SPNEGO {
                    return Err(Refused::NoMechanism);
                }
                parse_init(Reader::new(reader.expect(context(0))?).only(SEQUENCE)?).map(Self::Init)
            }
            (tag, content) if tag == context(1) => {
                parse_resp(Reader::new(content).only(SEQUENCE)?).map(Self::Resp)
            }
            _ => Err(Refused::Malformed),
        }
    }
}

fn parse_init(content: &[u8]) -> Result<Init<'_>, Refused> {
    let mut reader = Reader::new(content);
    let list = reader.expect(context(0))?;
    let mut token = None;
    while !reader.is_empty() {
        let (tag, content) = reader.next()?;
        if tag == context(2) {
            token = Some(Reader::new(content).only(OCTETS)?);
        }
    }
    Ok(Init { list, token })
}

fn parse_resp(content: &[u8]) -> Result<Resp<'_>, Refused> {
    let mut reader = Reader::new(content);
    let mut resp = Resp::default();
    while !reader.is_empty() {
        let (tag, content) = reader.next()?;
        let inner = Reader::new(content);
        match tag & !0xa0 {
            0 => match inner.only(ENUMERATED)? {
                [state] => resp.state = Some(State::from_wire(*state).ok_or(Refused::Malformed)?),
                _ => return Err(Refused::Malformed),
            },
            1 => resp.mechanism = Some(inner.only(OID)?),
            2 => resp.token = Some(inner.only(OCTETS)?),
            3 => resp.mic = Some(inner.only(OCTETS)?),
            _ => return Err(Refused::Malformed),
        }
    }
    Ok(resp)
}

/// Encodes a list of mechanisms, as it lies in an offer.
pub fn mechanism_list(mechanisms: &[&[u8]]) -> Vec<u8> {
    let oids: Vec<_> = mechanisms.iter().map(|oid| element(OID, &[oid])).collect();
    element(SEQUENCE, &oids.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Encodes a client's offer.
pub fn write_init(list: &[u8], token: &[u8]) -> Vec<u8> {
    let list = element(context(0), &[list]);
    let token = element(context(2), &[&element(OCTETS, &[token])]);
    wrap(&[&list, &token])
}

/// Returns what a server offers unasked, in its answer to NEGOTIATE (MS-SPNG 2.2.1 `NegTokenInit2`).
pub fn write_hint(list: &[u8]) -> Vec<u8> {
    let list = element(context(0), &[list]);
    let name = element(GENERAL_STRING, &[b"not_defined_in_RFC4178@please_ignore"]);
    let hints = element(SEQUENCE, &[&element(context(0), &[&name])]);
    wrap(&[&list, &element(context(3), &[&hints])])
}

fn wrap(fields: &[&[u8]]) -> Vec<u8> {
    let init = element(context(0), &[&element(SEQUENCE, fields)]);
    element(APPLICATION, &[&element(OID, &[oid::SPNEGO]), &init])
}

/// Encodes any later token.
pub fn write_resp(resp: &Resp<'_>) -> Vec<u8> {
    let state = resp.state.map(|state| element(context(0), &[&element(ENUMERATED, &[&[state as u8]])]));
    let mechanism = resp.mechanism.map(|oid| element(context(1), &[&element(OID, &[oid])]));
    let token = resp.token.map(|token| element(context(2), &[&element(OCTETS, &[token])]));
    let mic = resp.mic.map(|mic| element(context(3), &[&element(OCTETS, &[mic])]));
    let fields: Vec<_> = [state, mechanism, token, mic].into_iter().flatten().collect();
    element(context(1), &[&element(SEQUENCE, &fields.iter().map(Vec::as_slice).collect::<Vec<_>>())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back() {
        let list = mechanism_list(&[oid::KERBEROS, oid::NTLM]);
        let bytes = write_init(&list, b"first");
        let Token::Init(init) = Token::parse(&bytes).unwrap() else { panic!("an offer") };
        assert_eq!((init.list, init.token), (&list[..], Some(&b"first"[..])));
        assert_eq!(init.mechanisms().map(Result::unwrap).collect::<Vec<_>>(), [oid::KERBEROS, oid::NTLM]);
        let resp = Resp {
            state: Some(State::Incomplete),
            mechanism: Some(oid::NTLM),
            token: Some(&[5; 300]),
            mic: Some(b"mic"),
        };
        let bytes = write_resp(&resp);
        let Token::Resp(read) = Token::parse(&bytes).unwrap() else { panic!("an answer") };
        assert_eq!(
            (read.state, read.mechanism, read.token, read.mic),
            (resp.state, resp.mechanism, resp.token, resp.mic)
        );
        for end in 0..bytes.len() {
            assert!(Token::parse(&bytes[..end]).is_err());
        }
        let bytes = write_hint(&list);
        let Token::Init(hint) = Token::parse(&bytes).unwrap() else { panic!("a hint is an offer") };
        assert_eq!(hint.list, list);
        assert!(hint.token.is_none());
    }

    /// The offer of a Windows client, from "SMB 3.1.1 Pre-authentication integrity in Windows 10", Microsoft, 2015.
    #[test]
    fn a_published_offer_is_read_and_written_alike() {
        let bytes = [
            0x60, 0x48, 0x06, 0x06, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x02, 0xa0, 0x3e, 0x30, 0x3c, 0xa0, 0x0e,
            0x30, 0x0c, 0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a, 0xa2, 0x2a,
            0x04, 0x28, 0x4e, 0x54, 0x4c, 0x4d, 0x53, 0x53, 0x50, 0x00, 0x01, 0x00, 0x00, 0x00, 0x97, 0x82,
            0x08, 0xe2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x06, 0x03, 0x80, 0x25, 0, 0, 0,
            0x0f,
        ];
        let Token::Init(init) = Token::parse(&bytes).unwrap() else { panic!("an offer") };
        assert_eq!(init.mechanisms().next(), Some(Ok(oid::NTLM)));
        assert_eq!(write_init(init.list, init.token.unwrap()), bytes);
    }
}
