//! Keys of one direction, and the AEAD with them: nonce, additional data and sequence number.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, NONCE_LEN};
use aws_lc_rs::aead::{LessSafeKey, Nonce, UnboundKey};
use rustls::{ConnectionTrafficSecrets, ProtocolVersion, SupportedCipherSuite};

use crate::error::TlsError;
use crate::layout::{HEADER_LEN, RecordLayout};

/// Bytes of an AEAD's tag in TLS 1.2 and 1.3.
pub(crate) const TAG_LEN: usize = 16;

/// Bytes of the nonce that a TLS 1.2 AES-GCM record carries (RFC 5288 section 3).
pub(crate) const EXPLICIT_NONCE_LEN: usize = 8;

/// Protocol version that Linerate speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// Version TLS 1.2, RFC 5246.
    Tls12,
    /// Version TLS 1.3, RFC 8446.
    Tls13,
}

impl TlsVersion {
    /// Returns the name for logs and access records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }

    pub(crate) fn from_rustls(version: ProtocolVersion) -> Option<Self> {
        match version {
            ProtocolVersion::TLSv1_2 => Some(Self::Tls12),
            ProtocolVersion::TLSv1_3 => Some(Self::Tls13),
            _ => None,
        }
    }
}

/// Secrets of one direction from a handshake or a key update.
///
/// They feed either a user-space sealer or opener, or kernel TLS. Key bytes are wiped on drop.
pub struct TrafficKeys {
    pub(crate) version: TlsVersion,
    /// Sequence number of the next record.
    pub(crate) seq: u64,
    /// Number of records that the key may protect (RFC 8446 section 5.5).
    pub(crate) record_limit: u64,
    pub(crate) secrets: ConnectionTrafficSecrets,
}

impl TrafficKeys {
    pub(crate) fn new(
        suite: SupportedCipherSuite,
        (seq, secrets): (u64, ConnectionTrafficSecrets),
    ) -> Result<Self, TlsError> {
        let (version, record_limit) = match suite {
            SupportedCipherSuite::Tls12(suite) => (TlsVersion::Tls12, suite.common.confidentiality_limit),
            SupportedCipherSuite::Tls13(suite) => (TlsVersion::Tls13, suite.common.confidentiality_limit),
        };
        Ok(Self { version, seq, record_limit, secrets })
    }

    /// Returns the protocol version that the keys belong to.
    pub fn version(&self) -> TlsVersion {
        self.version
    }

    pub(crate) fn form(&self) -> RecordForm {
        match (self.version, &self.secrets) {
            (TlsVersion::Tls13, _) => RecordForm::Tls13,
            (TlsVersion::Tls12, ConnectionTrafficSecrets::Chacha20Poly1305 { .. }) => RecordForm::Tls12Chacha,
            (TlsVersion::Tls12, _) => RecordForm::Tls12Gcm,
        }
    }

    pub(crate) fn parts(&self) -> Result<(&'static Algorithm, &[u8], [u8; NONCE_LEN]), TlsError> {
        let (algorithm, key, iv) = match &self.secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(TlsError::Cipher),
        };
        let iv = iv.as_ref().try_into().map_err(|_| TlsError::Cipher)?;
        Ok((algorithm, key.as_ref(), iv))
    }
}

/// Form of nonces and records, by version and cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordForm {
    /// TLS 1.3: the nonce is IV xor sequence number; the content type is encrypted behind the plaintext.
    Tls13,
    /// TLS 1.2 AES-GCM: the nonce is four bytes of IV and eight carried by the record (RFC 5288).
    Tls12Gcm,
    /// TLS 1.2 ChaCha20-Poly1305: the nonce is IV xor sequence number (RFC 7905).
    Tls12Chacha,
}

impl RecordForm {
    pub(crate) const fn layout(self) -> RecordLayout {
        match self {
            Self::Tls13 => RecordLayout::new(HEADER_LEN, 1 + TAG_LEN),
            Self::Tls12Gcm => RecordLayout::new(HEADER_LEN + EXPLICIT_NONCE_LEN, TAG_LEN),
            Self::Tls12Chacha => RecordLayout::new(HEADER_LEN, TAG_LEN),
        }
    }

    pub(crate) const fn version(self) -> TlsVersion {
        match self {
            Self::Tls13 => TlsVersion::Tls13,
            Self::Tls12Gcm | Self::Tls12Chacha => TlsVersion::Tls12,
        }
    }
}

/// AEAD of one direction with its running sequence number.
pub(crate) struct RecordCipher {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    seq: u64,
    /// Sequence number at which the key is used up.
    seq_end: u64,
    form: RecordForm,
}

impl RecordCipher {
    pub(crate) fn new(keys: &TrafficKeys) -> Result<Self, TlsError> {
        let (algorithm, key, iv) = keys.parts()?;
        let form = keys.form();
        let key = UnboundKey::new(algorithm, key).map_err(|_| TlsError::Cipher)?;
        Ok(Self { key: LessSafeKey::new(key), iv, seq: keys.seq, seq_end: keys.record_limit, form })
    }

    /// Lifts the limit to the sequence number's end, for received records, which the peer has counted.
    pub(crate) fn without_record_limit(self) -> Self {
        Self { seq_end: u64::MAX, ..self }
    }

    pub(crate) fn form(&self) -> RecordForm {
        self.form
    }

    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    pub(crate) fn records_left(&self) -> u64 {
        self.seq_end.saturating_sub(self.seq)
    }

    /// Takes the sequence number of the next record.
    ///
    /// A sequence number is never handed out twice: that alone keeps nonces unique.
    pub(crate) fn next_seq(&mut self) -> Result<u64, TlsError> {
        if self.seq >= self.seq_end {
            return Err(TlsError::KeyExhausted);
        }
        let seq = self.seq;
        self.seq += 1;
        Ok(seq)
    }

    /// Computes IV xor sequence number (RFC 8446 section 5.3, RFC 7905 section 2).
    pub(crate) fn nonce_from_seq(&self, seq: u64) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        for (byte, seq_byte) in nonce[NONCE_LEN - 8..].iter_mut().zip(seq.to_be_bytes()) {
            *byte ^= seq_byte;
        }
        nonce
    }

    /// Joins the IV's fixed part and the eight bytes that the record carries (RFC 5288 section 3).
    pub(crate) fn nonce_from_record(&self, explicit: [u8; EXPLICIT_NONCE_LEN]) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        nonce[NONCE_LEN - EXPLICIT_NONCE_LEN..].copy_from_slice(&explicit);
        nonce
    }

    pub(crate) fn seal(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_LEN], TlsError> {
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), text)
            .map_err(|_| TlsError::Cipher)?;
        tag.as_ref().try_into().map_err(|_| TlsError::Cipher)
    }

    /// Decrypts `text_and_tag` in place; the plaintext is all but the last [`TAG_LEN`] bytes.
    pub(crate) fn open(
        &self,
        nonce: [u8; NONCE_LEN],
        aad: &[u8],
        text_and_tag: &mut [u8],
    ) -> Result<usize, TlsError> {
        let Some((text, tag)) = text_and_tag.split_last_chunk_mut::<TAG_LEN>() else {
            return Err(TlsError::BadRecordMac);
        };
        // With the tag apart: the combined form moves the whole plaintext onto itself once more.
        self.key
            .open_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(aad), tag, text)
            .map_err(|_| TlsError::BadRecordMac)?;
        Ok(text.len())
    }
}

/// Builds TLS 1.2's additional data: sequence number, type, version, plaintext length (RFC 5246 section
/// 6.2.3.3).
pub(crate) fn tls12_aad(seq: u64, content_type: u8, plain_len: usize) -> [u8; 13] {
    let mut aad = [0; 13];
    aad[..8].copy_from_slice(&seq.to_be_bytes());
    aad[8] = content_type;
    aad[9..11].copy_from_slice(&[3, 3]);
    aad[11..].copy_from_slice(&(plain_len as u16).to_be_bytes());
    aad
}
