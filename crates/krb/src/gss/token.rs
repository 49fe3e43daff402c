//! The frame of context tokens (RFC 2743 3.1, RFC 4121 4.1): a mechanism's identifier and a token's kind.

use crate::der::{Malformed, OBJECT_IDENTIFIER, Reader, element};

/// A mechanism by which Kerberos is called in GSS-API tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// 1.2.840.113554.1.2.2.
    Krb5,
    /// 1.2.840.48018.1.2.2: the same, by a slip of Windows 2000.
    MsKrb5,
}

/// 1.2.840.48018.1.2.2, encoded: SPNEGO offers it beside [`Mechanism::Krb5`].
pub const MS_KRB5_OID: &[u8] = &[0x2a, 0x86, 0x48, 0x82, 0xf7, 0x12, 0x01, 0x02, 0x02];

impl Mechanism {
    /// Returns the encoded object identifier, without tag and length.
    pub const fn oid(self) -> &'static [u8] {
        match self {
            Self::Krb5 => &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02],
            Self::MsKrb5 => MS_KRB5_OID,
        }
    }
}

/// The kind of a context token: its first two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An AP-REQ, 01 00.
    ApReq,
    /// An AP-REP, 02 00.
    ApRep,
    /// A KRB-ERROR, 03 00.
    Error,
}

/// A context token: a message of Kerberos in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framed<'a> {
    /// Mechanism that the frame names.
    pub mechanism: Mechanism,
    /// Kind of the message.
    pub kind: TokenKind,
    /// The message.
    pub message: &'a [u8],
}

impl<'a> Framed<'a> {
    /// The first byte of a framed token.
    pub const TAG: u8 = 0x60;

    /// Reads it. `None` where another mechanism's identifier is on it.
    pub fn parse(token: &'a [u8]) -> Result<Option<Self>, Malformed> {
        let mut frame = Reader::new("GSS-API token", token).only(Self::TAG)?;
        let oid = frame.expect(OBJECT_IDENTIFIER)?.rest();
        let known = [Mechanism::Krb5, Mechanism::MsKrb5].into_iter().find(|known| known.oid() == oid);
        let Some(mechanism) = known else { return Ok(None) };
        let malformed = frame.malformed();
        let (kind, message) = frame.rest().split_first_chunk::<2>().ok_or(malformed)?;
        let kind = match kind {
            [1, 0] => TokenKind::ApReq,
            [2, 0] => TokenKind::ApRep,
            [3, 0] => TokenKind::Error,
            _ => return Err(malformed),
        };
        Ok(Some(Self { mechanism, kind, message }))
    }

    /// Writes it.
    pub fn encode(&self) -> Vec<u8> {
        let kind: &[u8] = match self.kind {
            TokenKind::ApReq => &[1, 0],
            TokenKind::ApRep => &[2, 0],
            TokenKind::Error => &[3, 0],
        };
        let oid = element(OBJECT_IDENTIFIER, &[self.mechanism.oid()]);
        element(Self::TAG, &[&oid, kind, self.message])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_under_both_identifiers() {
        for mechanism in [Mechanism::Krb5, Mechanism::MsKrb5] {
            for kind in [TokenKind::ApReq, TokenKind::ApRep, TokenKind::Error] {
                let token = Framed { mechanism, kind, message: &[7; 300] };
                assert_eq!(Framed::parse(&token.encode()), Ok(Some(token)));
            }
        }
    }

    #[test]
    fn other_mechanisms_and_kinds_are_told_apart() {
        let framed = Framed { mechanism: Mechanism::Krb5, kind: TokenKind::ApReq, message: b"m" };
        let mut other = framed.encode();
        // 1.2.840.113554.1.2.3.
        other[12] = 3;
        assert_eq!(Framed::parse(&other), Ok(None));
        let mut wrap = framed.encode();
        wrap[13] = 5;
        assert_eq!(Framed::parse(&wrap), Err(Malformed("GSS-API token")));
        assert!(Framed::parse(&[]).is_err());
        assert!(
            Framed::parse(&element(0x60, &[element(OBJECT_IDENTIFIER, &[Mechanism::Krb5.oid()])])).is_err()
        );
    }
}
