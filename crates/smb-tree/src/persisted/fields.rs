//! Fields of a record, little endian, one behind another: written without fail, read with every bound checked.

use smb_wire::Guid;

use crate::tree::guid_bytes;

/// Writes the fields of a record, little endian.
#[derive(Default)]
pub(super) struct RecordWriter(Vec<u8>);

/// Reads the fields of a record, each with its bound.
pub(super) struct RecordReader<'a>(&'a [u8]);

impl RecordWriter {
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.0.push(flag.into());
    }

    pub(super) fn guid(&mut self, guid: Guid) {
        self.raw(&guid_bytes(guid));
    }

    /// Writes bytes with their number in front.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.raw(&(bytes.len() as u32).to_le_bytes());
        self.raw(bytes);
    }

    /// Checks whether there is something, and what.
    pub(super) fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

macro_rules! numbers {
    ($($number:ident),*) => {
        impl RecordWriter {
            $(pub(super) fn $number(&mut self, number: $number) {
                self.raw(&number.to_le_bytes());
            })*
        }

        impl RecordReader<'_> {
            $(pub(super) fn $number(&mut self) -> Option<$number> {
                self.array().map($number::from_le_bytes)
            })*
        }
    };
}

numbers!(u8, u16, u32, u64, i32, i64);

impl<'a> RecordReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn guid(&mut self) -> Option<Guid> {
        self.array().map(Guid::new)
    }

    pub(super) fn bytes(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u32()?).ok().filter(|len| *len <= max)?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn text(&mut self, max: usize) -> Option<String> {
        String::from_utf8(self.bytes(max)?.to_vec()).ok()
    }

    pub(super) fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if self.flag()? { read(self).map(Some) } else { Some(None) }
    }
}
