//! Reader and writer of the little-endian fields of values.

use crate::Error;

/// Reader that takes fields off the front of a value.
pub(crate) struct Fields<'v> {
    rest: &'v [u8],
    what: &'static str,
}

impl<'v> Fields<'v> {
    /// Makes a reader of `value`, which errors call `what`.
    pub(crate) fn of(value: &'v [u8], what: &'static str) -> Self {
        Self { rest: value, what }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'v [u8], Error> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Error> {
        self.array().map(i64::from_le_bytes)
    }

    /// Returns the bytes that are left.
    pub(crate) fn rest(self) -> &'v [u8] {
        self.rest
    }

    pub(crate) fn text(bytes: &[u8], what: &'static str) -> Result<String, Error> {
        String::from_utf8(bytes.to_vec()).map_err(|_| Error::Damaged(format!("{what} is not UTF-8")))
    }

    pub(crate) fn damaged(&self, why: &str) -> Error {
        Error::Damaged(format!("{}: {why}", self.what))
    }

    fn short(&self) -> Error {
        self.damaged("it is cut off")
    }
}
