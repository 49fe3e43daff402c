//! Errors of an encoding, with the offset of the byte.

/// `core::result::Result` with this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// A failed read or write. Offsets count bytes from the start of the reader's input or the writer's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input ends inside an item. More input may complete it.
    #[error("input ends at byte {offset}: {missing} more bytes needed")]
    Truncated {
        /// Offset where the input ends.
        offset: usize,
        /// A lower bound of the bytes that are missing.
        missing: usize,
    },
    /// A count or length is above the bound its declaration gives.
    #[error("length {len} at byte {offset} is above its bound of {max}")]
    TooLong {
        /// Offset of the length.
        offset: usize,
        /// Length that was found.
        len: usize,
        /// Bound that was declared.
        max: usize,
    },
    /// A boolean is neither 0 nor 1 (RFC 4506 section 4.4).
    #[error("boolean at byte {offset} is {value}, not 0 or 1")]
    BadBool {
        /// Offset of the boolean.
        offset: usize,
        /// Word that was found.
        value: u32,
    },
    /// An enumeration or union discriminant has a value that its type does not list (RFC 4506 sections 4.3, 4.15).
    #[error("{value} at byte {offset} is no member of {type_name}")]
    BadEnum {
        /// Offset of the value.
        offset: usize,
        /// Value that was found.
        value: i64,
        /// Name of the enumeration or union.
        type_name: &'static str,
    },
    /// A word does not fit the narrower C type it stands for.
    #[error("word {value:#010x} at byte {offset} does not fit {type_name}")]
    OutOfRange {
        /// Offset of the word.
        offset: usize,
        /// Word that was found.
        value: u32,
        /// Name of the narrower type.
        type_name: &'static str,
    },
    /// The bytes that pad an item to a multiple of four are not all zero (RFC 4506 section 4.9).
    #[error("padding at byte {offset} is not zero")]
    BadPadding {
        /// Offset of the padding.
        offset: usize,
    },
    /// A string that has to be UTF-8 is not.
    #[error("string at byte {offset} is not UTF-8")]
    NotUtf8 {
        /// Offset of the first invalid byte.
        offset: usize,
    },
    /// Lists and optional values are nested deeper than the reader allows.
    #[error("more than {max} lists and optional values inside each other at byte {offset}")]
    TooDeep {
        /// Offset of the value that goes too deep.
        offset: usize,
        /// Depth that the reader allows.
        max: u32,
    },
    /// Bytes follow the last item.
    #[error("{len} bytes left over at byte {offset}")]
    Trailing {
        /// Offset where the surplus bytes start.
        offset: usize,
        /// Number of surplus bytes.
        len: usize,
    },
    /// The output has no room for an item.
    #[error("output is full at byte {offset}: no room for {needed} bytes")]
    Full {
        /// Number of bytes that were written before.
        offset: usize,
        /// Size in bytes of the item that did not fit.
        needed: usize,
    },
}

impl Error {
    /// Returns whether more input could make the read succeed: true for [`Error::Truncated`] alone.
    pub const fn is_truncated(&self) -> bool {
        matches!(self, Self::Truncated { .. })
    }
}
