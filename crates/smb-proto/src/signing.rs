//! Signatures (MS-SMB2 3.1.4.1, 3.1.5.1). The parts of a message are taken where they lie, and the header's own
//! signature counts as zero wherever it does: nothing is gathered, nothing is overwritten to be checked.

use aws_lc_rs::{cmac, hmac};
use smb_wire::header::{HEADER_LEN, SIGNATURE};
use smb_wire::{Command, Header, Role};
use subtle::ConstantTimeEq;
use zerocopy::IntoBytes;

use crate::gmac::{self, GmacKey};

/// Signing algorithm of a connection: the values of SMB2_SIGNING_CAPABILITIES (MS-SMB2 2.2.3.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum SigningAlgorithm {
    /// 2.0.2 and 2.1.
    HmacSha256 = 0,
    /// 3.x, where nothing else is agreed on.
    AesCmac = 1,
    /// 3.1.1.
    AesGmac = 2,
}

impl SigningAlgorithm {
    /// Algorithms by preference: GMAC costs a twentieth of CMAC.
    pub const PREFERRED: [Self; 3] = [Self::AesGmac, Self::AesCmac, Self::HmacSha256];

    /// Returns the algorithm of a wire value; `None` where there is none.
    pub fn from_wire(value: u16) -> Option<Self> {
        Self::PREFERRED.into_iter().find(|algorithm| *algorithm as u16 == value)
    }

    /// Returns the one of `offered` that we prefer; AES-CMAC where none of them is known (MS-SMB2 3.3.5.4). Where a
    /// session may have many channels, AES-GMAC is taken only if there is nothing else: the interim replies to two
    /// bindings are signed with the session's key under one MessageId, and two messages under one nonce give away the
    /// key that authenticates.
    pub fn choose(offered: impl IntoIterator<Item = u16>, many_channels: bool) -> Self {
        let offered: Vec<_> = offered.into_iter().filter_map(Self::from_wire).collect();
        let is_safe = |ours: &Self| !many_channels || *ours != Self::AesGmac;
        let mut preferred = Self::PREFERRED.into_iter().filter(|ours| offered.contains(ours));
        let first = preferred.clone().next();
        preferred.find(is_safe).or(first).unwrap_or(Self::AesCmac)
    }
}

/// The key of a session or channel, ready to sign.
pub struct SigningKey(Kind);

enum Kind {
    Hmac(Box<hmac::Key>),
    Cmac(Box<cmac::Key>),
    Gmac(Box<GmacKey>),
}

/// A signature in the making.
pub struct Signature<'a>(Running<'a>);

#[expect(
    clippy::large_enum_variant,
    reason = "it lives for one message; a box would cost each signature an allocation"
)]
enum Running<'a> {
    Hmac(hmac::Context),
    Cmac(cmac::Context),
    Gmac(gmac::Running<'a>),
}

/// Reason why there is no signature: what was given is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the first part of a message must begin with its header")]
pub struct NoHeader;

impl SigningKey {
    /// Creates a key of 16 bytes.
    pub fn new(algorithm: SigningAlgorithm, key: &[u8; 16]) -> Self {
        Self(match algorithm {
            SigningAlgorithm::HmacSha256 => Kind::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key))),
            SigningAlgorithm::AesCmac => Kind::Cmac(Box::new(
                cmac::Key::new(cmac::AES_128, key).expect("16 bytes are a key of AES-128"),
            )),
            SigningAlgorithm::AesGmac => Kind::Gmac(Box::new(GmacKey::new(key))),
        })
    }

    /// Computes the signature of a message that `sender` sends: its parts in order, the first of which holds the header
    /// whole.
    pub fn sign(&self, sender: Role, parts: &[&[u8]]) -> Result<[u8; 16], NoHeader> {
        let (first, others) = parts.split_first().ok_or(NoHeader)?;
        let (head, rest) = first.split_first_chunk().ok_or(NoHeader)?;
        let mut signature = self.begin(sender, head)?;
        signature.update(rest);
        others.iter().for_each(|part| signature.update(part));
        Ok(signature.finish())
    }

    /// Begins the signature of a message that `sender` sends by its header, for a caller that has reason to
    /// pause between the parts.
    pub fn begin(&self, sender: Role, head: &[u8; HEADER_LEN]) -> Result<Signature<'_>, NoHeader> {
        let header = Header::parse(head).map_err(|_| NoHeader)?;
        //= MS-SMB2 3.1.4.1
        //# The signature is zero while it is computed, and padding of a compound is part of the message.
        let mut blank = *head;
        blank[SIGNATURE].fill(0);
        let mut signature = Signature(match &self.0 {
            Kind::Hmac(key) => Running::Hmac(hmac::Context::with_key(key)),
            Kind::Cmac(key) => Running::Cmac(cmac::Context::with_key(key)),
            Kind::Gmac(key) => Running::Gmac(key.begin(nonce(sender, header))),
        });
        signature.update(&blank);
        Ok(signature)
    }

    /// Returns whether the signature in the header is that of the message. It takes as long for a wrong one.
    pub fn verify(&self, sender: Role, parts: &[&[u8]]) -> bool {
        let Ok(expected) = self.sign(sender, parts) else { return false };
        parts[0][SIGNATURE].ct_eq(&expected).into()
    }

    /// Signs a message that lies in one piece.
    pub fn sign_in_place(&self, sender: Role, message: &mut [u8]) -> Result<(), NoHeader> {
        let signature = self.sign(sender, &[message])?;
        message[SIGNATURE].copy_from_slice(signature.as_bytes());
        Ok(())
    }
}

impl Signature<'_> {
    /// Continues the message with `part`.
    pub fn update(&mut self, part: &[u8]) {
        match &mut self.0 {
            Running::Hmac(context) => context.update(part),
            Running::Cmac(context) => context.update(part).expect("AES takes every length"),
            Running::Gmac(hash) => hash.update(part),
        }
    }

    /// Ends the message, and returns its signature.
    pub fn finish(self) -> [u8; 16] {
        match self.0 {
            Running::Hmac(context) => *context.sign().as_ref().first_chunk().expect("32 bytes of SHA-256"),
            Running::Cmac(context) => {
                let tag = context.sign().expect("a context that was only updated");
                *tag.as_ref().first_chunk().expect("a block of AES")
            }
            Running::Gmac(hash) => hash.finish(),
        }
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Kind::Hmac(_) => "SigningKey(HMAC-SHA256)",
            Kind::Cmac(_) => "SigningKey(AES-CMAC)",
            Kind::Gmac(_) => "SigningKey(AES-GMAC)",
        })
    }
}

/// Returns what makes each GMAC of a session another one.
fn nonce(sender: Role, header: &Header) -> [u8; 12] {
    //= MS-SMB2 3.1.4.1
    //# MessageId, then a bit for the server and one for CANCEL.
    let from_server = u32::from(sender == Role::Server);
    let cancel = u32::from(header.command.get() == Command::Cancel as u16) << 1;
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(header.message_id.as_bytes());
    nonce[8..].copy_from_slice(&(from_server | cancel).to_le_bytes());
    nonce
}
