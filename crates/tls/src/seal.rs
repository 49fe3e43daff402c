//! Sealing of records in place, many at a time, in the buffer from which they are sent.

use rustls::ContentType;

use crate::error::TlsError;
use crate::keys::{RecordCipher, RecordForm, TrafficKeys, tls12_aad};
use crate::layout::{HEADER_LEN, PLAINTEXT_MAX, RecordLayout};

/// Sealer of one direction's records (RFC 8446 section 5.2, RFC 5246 section 6.2.3.3).
pub struct RecordSealer {
    cipher: RecordCipher,
}

impl RecordSealer {
    /// Makes a sealer that starts with `keys` at their sequence number.
    pub fn new(keys: &TrafficKeys) -> Result<Self, TlsError> {
        Ok(Self { cipher: RecordCipher::new(keys)? })
    }

    /// Returns the layout of plaintext for [`Self::seal`].
    pub fn layout(&self) -> RecordLayout {
        self.cipher.form().layout()
    }

    pub(crate) fn next_seq(&self) -> u64 {
        self.cipher.seq()
    }

    /// Returns whether the key has protected less than half of what it may.
    pub(crate) fn is_fresh(&self) -> bool {
        self.cipher.records_left() > self.cipher.seq()
    }

    /// Returns how many more records the key may protect.
    pub fn records_left(&self) -> u64 {
        self.cipher.records_left()
    }

    /// Turns `plain_len` bytes, lying in the slots of [`Self::layout`], into records in place.
    ///
    /// Returns the bytes to send, from the buffer's start. An error leaves the buffer unusable.
    ///
    /// # Panics
    /// When `buf` is shorter than `layout().sealed_len(plain_len)`.
    pub fn seal(
        &mut self,
        content_type: ContentType,
        buf: &mut [u8],
        plain_len: usize,
    ) -> Result<usize, TlsError> {
        let layout = self.layout();
        let sealed_len = layout.sealed_len(plain_len);
        if layout.records(plain_len) as u64 > self.records_left() {
            return Err(TlsError::KeyExhausted);
        }
        for record in buf[..sealed_len].chunks_mut(layout.stride()) {
            self.seal_record(u8::from(content_type), record)?;
        }
        Ok(sealed_len)
    }

    /// Copies `plain` into new records behind `out`: for alerts and other short messages.
    pub fn append(
        &mut self,
        content_type: ContentType,
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let layout = self.layout();
        let start = out.len();
        out.resize(start + layout.sealed_len(plain.len()), 0);
        layout.copy_in(&mut out[start..], 0, plain);
        let sealed = self.seal(content_type, &mut out[start..], plain.len());
        if sealed.is_err() {
            out.truncate(start);
        }
        sealed.map(|_| ())
    }

    /// Seals the single record that fills `record`.
    fn seal_record(&mut self, content_type: u8, record: &mut [u8]) -> Result<(), TlsError> {
        let form = self.cipher.form();
        let layout = form.layout();
        let plain_len = record.len() - layout.prefix() - layout.suffix();
        debug_assert!((1..=PLAINTEXT_MAX).contains(&plain_len));

        let seq = self.cipher.next_seq()?;
        let nonce = self.cipher.nonce_from_seq(seq);
        let (prefix, text) = record.split_at_mut(layout.prefix());
        let wire_len = (prefix.len() + text.len() - HEADER_LEN) as u16;
        let wire_type = match form {
            RecordForm::Tls13 => u8::from(ContentType::ApplicationData),
            RecordForm::Tls12Gcm | RecordForm::Tls12Chacha => content_type,
        };
        prefix[0] = wire_type;
        prefix[1..3].copy_from_slice(&[3, 3]);
        prefix[3..HEADER_LEN].copy_from_slice(&wire_len.to_be_bytes());

        let tag = match form {
            RecordForm::Tls13 => {
                text[plain_len] = content_type;
                self.cipher.seal(nonce, prefix, &mut text[..=plain_len])?
            }
            RecordForm::Tls12Gcm | RecordForm::Tls12Chacha => {
                // The explicit nonce is the tail of the xor-ed nonce, as rustls' own records carry it:
                // going on that way cannot repeat one that the handshake has used.
                let explicit_len = prefix.len() - HEADER_LEN;
                prefix[HEADER_LEN..].copy_from_slice(&nonce[nonce.len() - explicit_len..]);
                let aad = tls12_aad(seq, content_type, plain_len);
                self.cipher.seal(nonce, &aad, &mut text[..plain_len])?
            }
        };
        let tag_at = text.len() - tag.len();
        text[tag_at..].copy_from_slice(&tag);
        Ok(())
    }
}
