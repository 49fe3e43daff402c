//! Integers, booleans and floats, and the words that C's narrower types travel in.

use crate::{Decode, Encode, Error, Reader, Result, Sink, UNIT, Writer};

/// Implements both directions for types whose encoding is their big-endian bytes (RFC 4506 sections 4.1, 4.2
/// and 4.5 to 4.7).
macro_rules! big_endian {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            #[inline]
            fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
                writer.raw(&self.to_be_bytes())
            }
        }

        impl Decode<'_> for $type {
            const MIN_SIZE: usize = size_of::<$type>();

            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self> {
                let mut bytes = [0; size_of::<$type>()];
                bytes.copy_from_slice(reader.raw(size_of::<$type>())?);
                Ok(Self::from_be_bytes(bytes))
            }
        }
    )*};
}

big_endian!(u32, i32, u64, i64, f32, f64);

/// Implements both directions for C's `char` and `short`, signed and not, each of which takes a whole word.
/// RFC 4506 has no such types; stock peers extend by the type's sign when they send and cut when they
/// receive, so both extensions are read and nothing else is.
macro_rules! narrow {
    ($($type:ty, $wide:ty, $unsigned:ty, $signed:ty);*) => {$(
        impl Encode for $type {
            #[inline]
            fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
                <$wide>::from(*self).encode(writer)
            }
        }

        impl Decode<'_> for $type {
            const MIN_SIZE: usize = UNIT;

            #[inline]
            fn decode(reader: &mut Reader<'_>) -> Result<Self> {
                let offset = reader.position();
                let value = reader.u32()?;
                let zero_extended = value == u32::from(value as $unsigned);
                let sign_extended = value.cast_signed() == i32::from(value as $signed);
                if !zero_extended && !sign_extended {
                    return Err(Error::OutOfRange { offset, value, type_name: stringify!($type) });
                }
                Ok(value as $type)
            }
        }
    )*};
}

narrow!(u8, u32, u8, i8; i8, i32, u8, i8; u16, u32, u16, i16; i16, i32, u16, i16);

/// Boolean, RFC 4506 section 4.4.
impl Encode for bool {
    #[inline]
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        writer.u32(u32::from(*self))
    }
}

impl Decode<'_> for bool {
    const MIN_SIZE: usize = UNIT;

    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let offset = reader.position();
        match reader.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(Error::BadBool { offset, value }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::to_vec;

    #[test]
    fn hyper_is_big_endian_in_eight_bytes() {
        assert_eq!(to_vec(&0x0102_0304_0506_0708_u64).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(to_vec(&-2_i64).unwrap(), [255, 255, 255, 255, 255, 255, 255, 254]);
    }

    #[test]
    fn boolean_other_than_zero_or_one_is_refused() {
        let mut reader = Reader::new(&[0, 0, 0, 2]);
        assert_eq!(reader.value::<bool>(), Err(Error::BadBool { offset: 0, value: 2 }));
    }

    #[test]
    fn signed_char_is_sent_sign_extended_and_unsigned_char_is_not() {
        assert_eq!(to_vec(&-61_i8).unwrap(), [0xff, 0xff, 0xff, 0xc3]);
        assert_eq!(to_vec(&0xc3_u8).unwrap(), [0, 0, 0, 0xc3]);
    }

    #[test]
    fn narrow_types_take_either_extension_and_nothing_else() {
        let read = |word: u32| Reader::new(&word.to_be_bytes()).value::<u8>();
        assert_eq!(read(0xffff_ffc3), Ok(0xc3));
        assert_eq!(read(0x0000_00c3), Ok(0xc3));
        assert_eq!(read(0x0000_01c3), Err(Error::OutOfRange { offset: 0, value: 0x1c3, type_name: "u8" }));
        assert_eq!(Reader::new(&[0, 0, 0x80, 1]).value::<i16>(), Ok(-32767));
        assert!(Reader::new(&[0, 1, 0, 0]).value::<u16>().is_err());
    }
}
