//! NEGOTIATE, CHALLENGE and AUTHENTICATE (MS-NLMP 2.2.1), and the list of pairs in the latter two (2.2.2.1).

use smb_wire::text::{Text, encoded};

use crate::Refused;
use crate::ntlm::flags;
use crate::spnego::NTLMSSP;

/// Bytes of AUTHENTICATE that hold its integrity code.
pub const MIC: std::ops::Range<usize> = 72..88;
/// Most pairs of a list that are looked at.
pub const PAIRS_MAX: usize = 64;
/// Version that the messages tell: the revision of NTLM alone means something.
const VERSION: [u8; 8] = [6, 1, 0, 0, 0, 0, 0, 15];

const NEGOTIATE: u32 = 1;
const CHALLENGE: u32 = 2;
const AUTHENTICATE: u32 = 3;

/// `AvId` (MS-NLMP 2.2.2.1).
pub mod av {
    /// The end.
    pub const EOL: u16 = 0;
    /// The server's NetBIOS name.
    pub const NB_COMPUTER_NAME: u16 = 1;
    /// MsvAvNbDomainName: NetBIOS name of the server's domain.
    pub const NB_DOMAIN_NAME: u16 = 2;
    /// The server's DNS name.
    pub const DNS_COMPUTER_NAME: u16 = 3;
    /// MsvAvDnsDomainName: DNS name of the server's domain.
    pub const DNS_DOMAIN_NAME: u16 = 4;
    /// Bits: 2 is that there is an integrity code.
    pub const FLAGS: u16 = 6;
    /// The server's time.
    pub const TIMESTAMP: u16 = 7;
    /// The name by which the client knows the server.
    pub const TARGET_NAME: u16 = 9;

    /// Bit of [`FLAGS`]: there is an integrity code.
    pub const FLAG_MIC: u32 = 2;
}

/// Finds the value of the pair of this id; a list that does not end is malformed.
pub fn find(list: &[u8], id: u16) -> Result<Option<&[u8]>, Refused> {
    let mut found = None;
    let mut rest = list;
    for _ in 0..PAIRS_MAX {
        let (head, behind) = rest.split_first_chunk::<4>().ok_or(Refused::Malformed)?;
        let this = u16::from_le_bytes([head[0], head[1]]);
        let len = u16::from_le_bytes([head[2], head[3]]);
        let (value, behind) = behind.split_at_checked(len.into()).ok_or(Refused::Malformed)?;
        if this == av::EOL {
            return Ok(found);
        }
        if this == id && found.is_none() {
            found = Some(value);
        }
        rest = behind;
    }
    Err(Refused::Malformed)
}

/// Encodes a list of these pairs, ended.
pub fn pairs(pairs: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (id, value) in pairs.iter().chain(&[(av::EOL, &[][..])]) {
        out.extend(id.to_le_bytes());
        out.extend(u16::try_from(value.len()).expect("short values").to_le_bytes());
        out.extend(*value);
    }
    out
}

fn check(bytes: &[u8], kind: u32, len_min: usize) -> Result<(), Refused> {
    if bytes.len() < len_min || !bytes.starts_with(NTLMSSP) {
        return Err(Refused::Malformed);
    }
    if word(bytes, 8) != kind { Err(Refused::Order) } else { Ok(()) }
}

/// Reads a word; the caller has checked that it is there.
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Returns what the fields at `at` point to.
fn field(bytes: &[u8], at: usize) -> Result<&[u8], Refused> {
    let len = usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    if len == 0 {
        return Ok(&[]);
    }
    let offset = word(bytes, at + 4) as usize;
    let end = offset.checked_add(len).ok_or(Refused::Malformed)?;
    bytes.get(offset..end).ok_or(Refused::Malformed)
}

fn put(out: &mut Vec<u8>, at: usize, value: &[u8]) {
    let len = u16::try_from(value.len()).expect("short fields").to_le_bytes();
    let offset = u32::try_from(out.len()).expect("a short message").to_le_bytes();
    out[at..at + 8].copy_from_slice(&[&len[..], &len, &offset].concat());
    out.extend(value);
}

/// Encodes a name as the flags say: in UTF-16, or else in a code page.
fn text(name: &str, flags: u32) -> Vec<u8> {
    if flags & flags::UNICODE != 0 { encoded(name) } else { name.as_bytes().to_vec() }
}

fn begin(kind: u32, len: usize) -> Vec<u8> {
    let mut out = NTLMSSP.to_vec();
    out.extend(kind.to_le_bytes());
    out.resize(len, 0);
    out
}

/// Parses the flags of a NEGOTIATE.
pub fn parse_negotiate(bytes: &[u8]) -> Result<u32, Refused> {
    check(bytes, NEGOTIATE, 16)?;
    Ok(word(bytes, 12))
}

/// Encodes a NEGOTIATE.
pub fn write_negotiate(flags: u32) -> Vec<u8> {
    let mut out = begin(NEGOTIATE, 40);
    out[12..16].copy_from_slice(&flags.to_le_bytes());
    out[32..40].copy_from_slice(&VERSION);
    out
}

/// CHALLENGE message of a server.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// Flags that the server agrees to.
    pub flags: u32,
    /// The challenge.
    pub challenge: [u8; 8],
    /// Pairs that name the server.
    pub target_info: &'a [u8],
}

impl<'a> Challenge<'a> {
    /// Reads a CHALLENGE.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refused> {
        check(bytes, CHALLENGE, 48)?;
        Ok(Self {
            flags: word(bytes, 20),
            challenge: *bytes[24..].first_chunk().expect("48 bytes"),
            target_info: field(bytes, 40)?,
        })
    }

    /// Writes the message as a server of this name sends it.
    pub fn write(&self, target: &str) -> Vec<u8> {
        let mut out = begin(CHALLENGE, 56);
        out[20..24].copy_from_slice(&self.flags.to_le_bytes());
        out[24..32].copy_from_slice(&self.challenge);
        out[48..56].copy_from_slice(&VERSION);
        put(&mut out, 12, &text(target, self.flags));
        put(&mut out, 40, self.target_info);
        out
    }
}

/// AUTHENTICATE message of a client.
#[derive(Clone, Debug)]
pub struct Authenticate<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// Flags that the client agrees to.
    pub flags: u32,
    /// LM's answer, which is not looked at but for its absence.
    pub lm: &'a [u8],
    /// NTLMv2's answer.
    pub nt: &'a [u8],
    /// The domain, as it counts for the proof; `None`, as of [`Authenticate::user`], for what is no text.
    pub domain: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The session's key, encrypted.
    pub session_key: &'a [u8],
}

impl<'a> Authenticate<'a> {
    /// Reads an AUTHENTICATE, which has text in UTF-16, or else in a code page.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refused> {
        check(bytes, AUTHENTICATE, 64)?;
        let flags = word(bytes, 60);
        //= MS-NLMP 2.2.1.3
        //# Names are in Unicode where that was agreed on, else in OEM. Which code page that is remains unsaid: ASCII is the same in all.
        let text = |at| match flags & flags::UNICODE {
            0 => Ok(std::str::from_utf8(field(bytes, at)?)
                .ok()
                .filter(|text| text.is_ascii())
                .map(str::to_owned)),
            _ => Text::new(field(bytes, at)?).map(|text| text.decode()).map_err(|_| Refused::Malformed),
        };
        Ok(Self {
            bytes,
            flags,
            lm: field(bytes, 12)?,
            nt: field(bytes, 20)?,
            domain: text(28)?,
            user: text(36)?,
            session_key: field(bytes, 52)?,
        })
    }

    /// Returns the integrity code, which is there if no field lies where it would be.
    pub fn mic(&self) -> Option<&'a [u8; 16]> {
        let begins = [12, 20, 28, 36, 44, 52]
            .into_iter()
            .filter(|at| self.bytes[*at..at + 2] != [0, 0])
            .map(|at| word(self.bytes, at + 4) as usize);
        let clear = begins.min().is_none_or(|begin| begin >= MIC.end);
        clear.then(|| self.bytes.get(MIC)?.first_chunk()).flatten()
    }
}

/// Parts of AUTHENTICATE, beside the integrity code.
#[derive(Clone, Copy, Debug)]
pub struct AuthenticateParts<'a> {
    /// Flags that the client agrees to.
    pub flags: u32,
    /// LM's answer.
    pub lm: &'a [u8],
    /// NTLMv2's answer.
    pub nt: &'a [u8],
    /// The domain.
    pub domain: &'a str,
    /// The user.
    pub user: &'a str,
    /// The client's own name.
    pub workstation: &'a str,
    /// The session's key, encrypted.
    pub session_key: &'a [u8],
}

impl AuthenticateParts<'_> {
    /// Writes the message with zeros for the integrity code.
    pub fn write(&self) -> Vec<u8> {
        let mut out = begin(AUTHENTICATE, MIC.end);
        out[60..64].copy_from_slice(&self.flags.to_le_bytes());
        out[64..72].copy_from_slice(&VERSION);
        put(&mut out, 28, &text(self.domain, self.flags));
        put(&mut out, 36, &text(self.user, self.flags));
        put(&mut out, 44, &text(self.workstation, self.flags));
        put(&mut out, 12, self.lm);
        put(&mut out, 20, self.nt);
        put(&mut out, 52, self.session_key);
        out
    }
}
