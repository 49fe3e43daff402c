//! Big-endian cursors for the fixed layouts of DEBUG payloads.

use super::error::{DebugError, refuse_bad_type};

/// Appends fields in wire order.
pub(super) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn with_capacity(len: usize) -> Self {
        Self { bytes: Vec::with_capacity(len) }
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn bytes(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads fields in wire order. Fields past the end read as zero: newer servers append fields, so an older
/// server's answer is a prefix.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Refuses payloads shorter than the `need` bytes that make sense at all.
    pub(super) fn new(payload: &'a [u8], need: usize) -> Result<Self, DebugError> {
        if payload.len() < need {
            refuse_bad_type(payload)?;
            return Err(DebugError::Short { need, got: payload.len() });
        }
        Ok(Self { rest: payload })
    }

    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.rest.split_first_chunk::<N>() {
            Some((bytes, rest)) => {
                self.rest = rest;
                *bytes
            }
            None => {
                self.rest = &[];
                [0; N]
            }
        }
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    pub(super) fn u8(&mut self) -> u8 {
        u8::from_be_bytes(self.array())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    pub(super) fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }
}
