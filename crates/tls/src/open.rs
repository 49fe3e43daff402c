//! Opener of records in place, from input in any cut; refuses shapes that only an attacker sends.

use std::ops::Range;

use rustls::ContentType;

use crate::error::TlsError;
use crate::keys::{
    EXPLICIT_NONCE_LEN, RecordCipher, RecordForm, TAG_LEN, TlsVersion, TrafficKeys, tls12_aad,
};
use crate::layout::{HEADER_LEN, PLAINTEXT_MAX};

/// Most consecutive records without content before they count as a flood (BoringSSL draws the line there
/// too).
const EMPTY_RUN_MAX: u8 = 32;

/// Length in bytes below which an application record costs budget; longer ones earn some back. An HTTP/2
/// frame has nine bytes at least, so only byte-by-byte senders ever pay.
const TINY_LEN: usize = 8;

/// Number of tiny records that a peer may send before a useful one has to come.
const TINY_BUDGET: u16 = 1024;

/// Place of an opened record's plaintext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Range of the input that was passed in.
    Input(Range<usize>),
    /// Range of [`RecordOpener::carried`], as the record had arrived in pieces.
    Carry(Range<usize>),
}

/// Result of opening a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// All input is taken; the next record is not complete yet.
    NeedMore,
    /// One record was opened, which took `consumed` bytes of the input.
    Record { consumed: usize, content_type: ContentType, plain: Place },
}

/// Opener of one direction's records (RFC 8446 section 5.2, RFC 5246 section 6.2.3.3).
///
/// Whole records are decrypted where they lie. Only a record that is cut by the end of the input is
/// gathered in a buffer of its own, which grows with the bytes that really came, never beyond one
/// record, and which is freed as soon as no record is cut.
pub struct RecordOpener {
    cipher: RecordCipher,
    carry: Vec<u8>,
    /// True when the carried record was handed out, so its bytes may go.
    carry_delivered: bool,
    empty_run: u8,
    tiny_budget: u16,
}

impl RecordOpener {
    /// Makes an opener that starts with `keys` at their sequence number.
    pub fn new(keys: &TrafficKeys) -> Result<Self, TlsError> {
        Ok(Self {
            cipher: Self::cipher(keys)?,
            carry: Vec::new(),
            carry_delivered: false,
            empty_run: 0,
            tiny_budget: TINY_BUDGET,
        })
    }

    /// Switches to the peer's new key, whose first record begins with the next byte of input.
    pub(crate) fn rekey(&mut self, keys: &TrafficKeys) -> Result<(), TlsError> {
        self.cipher = Self::cipher(keys)?;
        Ok(())
    }

    /// Returns the bytes held back for an incomplete record; zero when the peer is idle between records.
    pub fn carried_len(&self) -> usize {
        if self.carry_delivered { 0 } else { self.carry.len() }
    }

    #[cfg(test)]
    pub(crate) fn carry_capacity(&self) -> usize {
        self.carry.capacity()
    }

    /// Returns the plaintext behind a [`Place::Carry`], valid until the next call of [`Self::open`].
    pub(crate) fn carried(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.carry[range]
    }

    /// Opens the first record of `input`, in place where it is whole.
    ///
    /// # Errors
    /// Any error ends the connection; [`TlsError::alert`] tells the peer why.
    pub(crate) fn open(&mut self, input: &mut [u8]) -> Result<Opened, TlsError> {
        if std::mem::take(&mut self.carry_delivered) {
            self.carry.clear();
        }
        let opened = if self.carry.is_empty() { self.open_input(input) } else { self.open_carried(input) }?;
        if self.carry.is_empty() {
            self.carry = Vec::new();
        }
        Ok(opened)
    }

    fn open_input(&mut self, input: &mut [u8]) -> Result<Opened, TlsError> {
        let Some(record_len) = self.record_len(input)? else {
            self.stash(input, HEADER_LEN);
            return Ok(Opened::NeedMore);
        };
        if input.len() < record_len {
            self.stash(input, record_len);
            return Ok(Opened::NeedMore);
        }
        let (content_type, plain) = self.unprotect(&mut input[..record_len])?;
        Ok(Opened::Record { consumed: record_len, content_type, plain: Place::Input(plain) })
    }

    fn open_carried(&mut self, input: &mut [u8]) -> Result<Opened, TlsError> {
        let mut consumed = self.fill_carry(input, HEADER_LEN);
        let Some(record_len) = self.record_len(&self.carry)? else {
            return Ok(Opened::NeedMore);
        };
        consumed += self.fill_carry(&input[consumed..], record_len);
        if self.carry.len() < record_len {
            return Ok(Opened::NeedMore);
        }
        let mut record = std::mem::take(&mut self.carry);
        let (content_type, plain) = self.unprotect(&mut record)?;
        self.carry = record;
        self.carry_delivered = true;
        Ok(Opened::Record { consumed, content_type, plain: Place::Carry(plain) })
    }

    /// Brings the carried record to `target` bytes as far as the input reaches; returns bytes taken.
    fn fill_carry(&mut self, input: &[u8], target: usize) -> usize {
        let take = target.saturating_sub(self.carry.len()).min(input.len());
        self.stash(&input[..take], target);
        take
    }

    /// Keeps `bytes` of a record that will have `target` bytes: memory follows what was received, so
    /// that a header alone does not reserve a whole record.
    fn stash(&mut self, bytes: &[u8], target: usize) {
        let need = self.carry.len() + bytes.len();
        if self.carry.capacity() < need {
            let capacity = need.max((2 * self.carry.capacity()).min(target));
            self.carry.reserve_exact(capacity - self.carry.len());
        }
        self.carry.extend_from_slice(bytes);
    }

    /// Returns the length on the wire of the record that starts `bytes`, once its header is there.
    fn record_len(&self, bytes: &[u8]) -> Result<Option<usize>, TlsError> {
        let Some(&[content_type, major, minor, len_hi, len_lo]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let len = usize::from(u16::from_be_bytes([len_hi, len_lo]));
        let len_max = match self.cipher.form().version() {
            TlsVersion::Tls13 => {
                if content_type != u8::from(ContentType::ApplicationData) {
                    return Err(TlsError::Unexpected("unprotected record after the handshake"));
                }
                PLAINTEXT_MAX + 256
            }
            TlsVersion::Tls12 => {
                if !(20..=23).contains(&content_type) {
                    return Err(TlsError::Unexpected("unknown record type"));
                }
                if (major, minor) != (3, 3) {
                    return Err(TlsError::RecordVersion(u16::from_be_bytes([major, minor])));
                }
                PLAINTEXT_MAX + 2048
            }
        };
        if len > len_max {
            return Err(TlsError::RecordOverflow(len));
        }
        Ok(Some(HEADER_LEN + len))
    }

    fn unprotect(&mut self, record: &mut [u8]) -> Result<(ContentType, Range<usize>), TlsError> {
        let (content_type, plain) = match self.cipher.form() {
            RecordForm::Tls13 => self.unprotect_tls13(record)?,
            RecordForm::Tls12Gcm | RecordForm::Tls12Chacha => self.unprotect_tls12(record)?,
        };
        self.police(content_type, plain.len())?;
        Ok((content_type, plain))
    }

    fn unprotect_tls13(&mut self, record: &mut [u8]) -> Result<(ContentType, Range<usize>), TlsError> {
        let seq = self.cipher.next_seq()?;
        let nonce = self.cipher.nonce_from_seq(seq);
        let (header, text_and_tag) = record.split_at_mut(HEADER_LEN);
        let inner_len = self.cipher.open(nonce, header, text_and_tag)?;
        if inner_len > PLAINTEXT_MAX + 1 {
            return Err(TlsError::RecordOverflow(inner_len));
        }
        let Some(type_at) = text_and_tag[..inner_len].iter().rposition(|&byte| byte != 0) else {
            return Err(TlsError::Unexpected("record of padding only"));
        };
        let content_type = ContentType::from(text_and_tag[type_at]);
        Ok((content_type, HEADER_LEN..HEADER_LEN + type_at))
    }

    fn unprotect_tls12(&mut self, record: &mut [u8]) -> Result<(ContentType, Range<usize>), TlsError> {
        let seq = self.cipher.next_seq()?;
        let content_type = record[0];
        let prefix = self.cipher.form().layout().prefix();
        if record.len() < prefix + TAG_LEN {
            return Err(TlsError::BadRecordMac);
        }
        let nonce = match record[HEADER_LEN..prefix].try_into() {
            Ok::<[u8; EXPLICIT_NONCE_LEN], _>(explicit) => self.cipher.nonce_from_record(explicit),
            Err(_) => self.cipher.nonce_from_seq(seq),
        };
        let plain_len = record.len() - prefix - TAG_LEN;
        let aad = tls12_aad(seq, content_type, plain_len);
        let plain_len = self.cipher.open(nonce, &aad, &mut record[prefix..])?;
        if plain_len > PLAINTEXT_MAX {
            return Err(TlsError::RecordOverflow(plain_len));
        }
        Ok((ContentType::from(content_type), prefix..prefix + plain_len))
    }

    /// Bounds the cost of records with little or no content.
    fn police(&mut self, content_type: ContentType, plain_len: usize) -> Result<(), TlsError> {
        if content_type != ContentType::ApplicationData {
            // RFC 8446 section 5.1: only application data may be empty.
            return if plain_len == 0 { Err(TlsError::Unexpected("empty record")) } else { Ok(()) };
        }
        if plain_len == 0 {
            self.empty_run += 1;
            return if self.empty_run > EMPTY_RUN_MAX {
                Err(TlsError::Flood("empty records"))
            } else {
                Ok(())
            };
        }
        self.empty_run = 0;
        if plain_len >= TINY_LEN {
            let earned = (plain_len / TINY_LEN) as u16;
            self.tiny_budget = self.tiny_budget.saturating_add(earned).min(TINY_BUDGET);
            return Ok(());
        }
        match self.tiny_budget.checked_sub(1) {
            Some(left) => self.tiny_budget = left,
            None => return Err(TlsError::Flood("tiny records")),
        }
        Ok(())
    }

    /// Makes a cipher with the sequence number's end as limit, as the peer counts its own key's records.
    fn cipher(keys: &TrafficKeys) -> Result<RecordCipher, TlsError> {
        RecordCipher::new(keys).map(|cipher| cipher.without_record_limit())
    }
}
