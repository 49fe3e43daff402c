//! Declaration of structures of fixed layout: little-endian, unaligned, any bytes are a value.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::malformed::Malformed;

/// Declares a structure as it lies on the wire. Fields have the specification's names; what needs more words has them.
macro_rules! wire {
    ($(#[$meta:meta])* pub struct $name:ident { $( $(#[$field_meta:meta])* $field:ident: $ty:ty, )* }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout,
            zerocopy::Immutable, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $( $(#[$field_meta])* #[doc = concat!(" `", stringify!($field), "` of the section named above.")] pub $field: $ty, )*
        }
        impl $crate::fixed::Layout for $name {
            const FIELDS: &'static [$crate::fixed::Field] = &[
                $( $crate::fixed::Field {
                    name: stringify!($field),
                    offset: std::mem::offset_of!($name, $field),
                    len: size_of::<$ty>(),
                }, )*
            ];
        }
    };
}

/// Declares the fixed part of a command's body with the `StructureSize` that it must carry.
macro_rules! body {
    ($(#[$meta:meta])* pub struct $name:ident = $size:literal { $($fields:tt)* }) => {
        $crate::fixed::wire! {
            $(#[$meta])*
            pub struct $name {
                structure_size: zerocopy::little_endian::U16,
                $($fields)*
            }
        }
        impl $crate::fixed::Fixed for $name {
            const STRUCTURE_SIZE: u16 = $size;
        }
    };
}

pub(crate) use {body, wire};

/// A structure without a length of its own: plain bytes on the wire.
pub trait Plain: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Copy {}

impl<T: FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + Copy> Plain for T {}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name of the specification, in our spelling.
    pub name: &'static str,
    /// Bytes before it.
    pub offset: usize,
    /// Bytes of the field.
    pub len: usize,
}

/// Places of a structure's fields, in their order and without gaps: tests vary each of them.
pub trait Layout: Plain {
    /// The fields.
    const FIELDS: &'static [Field];
}

/// The fixed part of a command's body, which begins with its `StructureSize`.
pub trait Fixed: Plain {
    /// Value of `structure_size`: the length, and 1 more where something of variable length follows.
    const STRUCTURE_SIZE: u16;

    /// Makes a body that is all zero but for the size.
    fn blank() -> Self {
        let mut blank = Self::new_zeroed();
        blank.as_mut_bytes()[..2].copy_from_slice(&Self::STRUCTURE_SIZE.to_le_bytes());
        blank
    }
}

/// Returns the structure that `bytes` begin with.
pub fn prefix<T: Plain>(bytes: &[u8]) -> Result<(&T, &[u8]), Malformed> {
    T::ref_from_prefix(bytes).map_err(|_| Malformed::Short)
}

/// Returns the `count` structures that `bytes` begin with.
pub fn prefix_of<T: Plain>(bytes: &[u8], count: usize) -> Result<&[T], Malformed> {
    let (all, _) = <[T]>::ref_from_prefix_with_elems(bytes, count).map_err(|_| Malformed::Count)?;
    Ok(all)
}

/// Returns the part of `bytes` that an offset and a length of the wire name; an empty one may be anywhere.
pub fn part(bytes: &[u8], offset: usize, len: usize) -> Result<&[u8], Malformed> {
    if len == 0 {
        return Ok(&[]);
    }
    let end = offset.checked_add(len).ok_or(Malformed::Offset)?;
    bytes.get(offset..end).ok_or(Malformed::Offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsctl::copy::Chunk;

    #[test]
    fn fields_lie_one_behind_the_other_and_fill_their_structure() {
        let fields: Vec<_> =
            Chunk::FIELDS.iter().map(|field| (field.name, field.offset, field.len)).collect();
        let expected =
            [("source_offset", 0, 8), ("target_offset", 8, 8), ("length", 16, 4), ("reserved", 20, 4)];
        assert_eq!(fields, expected);
    }
}
