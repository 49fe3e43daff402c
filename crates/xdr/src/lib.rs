//! XDR (RFC 4506) over a bounds-checked cursor.
//!
//! [`Reader`] borrows its input and hands out slices of it; [`Writer`] appends to a `Vec<u8>` or fills a
//! `&mut [u8]`. [`Encode`] and [`Decode`] join the two to types; `rxgen` derives them from `.xg` files, and [`rpc`]
//! holds what its stubs share. Nothing here panics on hostile input, and no length field from the wire sizes an
//! allocation beyond the bytes that came with it.
//!
//! ```
//! use xdr::{Bytes, Decode, Reader, Writer};
//!
//! let mut wire = Vec::new();
//! let mut writer = Writer::new(&mut wire);
//! writer.value(&7u32)?;
//! writer.value(&Bytes::<16>::from(b"hello"))?;
//! assert_eq!(wire, b"\0\0\0\x07\0\0\0\x05hello\0\0\0");
//!
//! let mut reader = Reader::new(&wire);
//! assert_eq!(u32::decode(&mut reader)?, 7);
//! assert_eq!(&*Bytes::<16>::decode(&mut reader)?, b"hello");
//! reader.finish()?;
//! # Ok::<(), xdr::Error>(())
//! ```

pub mod afs;
mod array;
mod bytes;
mod error;
mod primitive;
mod reader;
pub mod rpc;
mod writer;

pub use array::{List, Optional};
pub use bytes::{Bytes, Chars, Opaque};
pub use error::{Error, Result};
pub use reader::{MAX_DEPTH, Reader};
pub use writer::{Counter, Sink, Writer, encoded_len, to_vec};

/// The unit every XDR item is padded to, in bytes (RFC 4506 section 3).
pub const UNIT: usize = 4;

/// The bound of an array or opaque declared without one: the largest count XDR can carry (RFC 4506 section 4.10).
pub const UNBOUNDED: usize = u32::MAX as usize;

/// A value with an XDR encoding.
pub trait Encode {
    /// Appends the encoding to `writer`.
    ///
    /// Fails with [`Error::TooLong`] when a variable-length item exceeds its declared bound and with [`Error::Full`]
    /// when the sink has no room; what was written before stays written.
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()>;
}

/// A value that can be read from XDR, possibly borrowing from the input.
pub trait Decode<'a>: Sized {
    /// Bytes of the shortest encoding. It lets a list refuse a count that the remaining input cannot hold.
    const MIN_SIZE: usize;

    /// Reads one value at the reader's position. After an error the position is unspecified.
    fn decode(reader: &mut Reader<'a>) -> Result<Self>;
}

/// Returns the number of zero bytes that follow an item of `len` bytes.
const fn padding(len: usize) -> usize {
    len.wrapping_neg() % UNIT
}
