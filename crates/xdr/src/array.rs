//! Arrays of fixed and variable length, and optional data.

use core::ops::{Deref, DerefMut};

use crate::{Decode, Encode, Reader, Result, Sink, UNBOUNDED, UNIT, Writer};

/// Optional data, XDR's `type *name` (RFC 4506 section 4.19): a boolean, then the value if it is true.
pub type Optional<T> = Option<Box<T>>;

/// A variable-length array of at most `MAX` elements (RFC 4506 section 4.13).
///
/// The bound is checked by decode and encode; building a longer list is allowed and fails when it is sent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct List<T, const MAX: usize = UNBOUNDED>(pub Vec<T>);

impl<T, const MAX: usize> List<T, MAX> {
    /// Largest number of elements, as declared.
    pub const MAX: usize = MAX;
}

impl<T, const MAX: usize> Default for List<T, MAX> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize> From<Vec<T>> for List<T, MAX> {
    fn from(elements: Vec<T>) -> Self {
        Self(elements)
    }
}

impl<T, const MAX: usize> FromIterator<T> for List<T, MAX> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

impl<T, const MAX: usize> IntoIterator for List<T, MAX> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'l, T, const MAX: usize> IntoIterator for &'l List<T, MAX> {
    type Item = &'l T;
    type IntoIter = core::slice::Iter<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T, const MAX: usize> Deref for List<T, MAX> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T, const MAX: usize> DerefMut for List<T, MAX> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T: Encode, const MAX: usize> Encode for List<T, MAX> {
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        writer.count(self.0.len(), MAX)?;
        self.0.iter().try_for_each(|element| element.encode(writer))
    }
}

impl<'a, T: Decode<'a>, const MAX: usize> Decode<'a> for List<T, MAX> {
    const MIN_SIZE: usize = UNIT;

    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        const { assert!(T::MIN_SIZE >= UNIT, "an element without bytes would make the count unbounded") };
        let count = reader.count(MAX, T::MIN_SIZE)?;
        // An element may be larger in memory than on the wire: start with no more memory than the input has bytes
        // left, and let what really arrives grow it.
        let capacity = count.min(reader.remaining() / size_of::<T>().max(1));
        let mut elements = Vec::with_capacity(capacity);
        reader.nested(|reader| {
            for _ in 0..count {
                elements.push(T::decode(reader)?);
            }
            Ok(Self(elements))
        })
    }
}

/// Fixed-length array, RFC 4506 section 4.12.
impl<T: Encode, const N: usize> Encode for [T; N] {
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        self.iter().try_for_each(|element| element.encode(writer))
    }
}

impl<'a, T: Decode<'a>, const N: usize> Decode<'a> for [T; N] {
    const MIN_SIZE: usize = N * T::MIN_SIZE;

    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let mut failed = None;
        let elements: [Option<T>; N] = core::array::from_fn(|_| match failed {
            Some(_) => None,
            None => T::decode(reader).map_err(|error| failed = Some(error)).ok(),
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(elements.map(|element| element.expect("no element failed, so all are there"))),
        }
    }
}

impl<T: Encode> Encode for Optional<T> {
    fn encode<S: Sink>(&self, writer: &mut Writer<S>) -> Result<()> {
        self.is_some().encode(writer)?;
        self.as_ref().map_or(Ok(()), |value| value.encode(writer))
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Optional<T> {
    const MIN_SIZE: usize = UNIT;

    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        if !bool::decode(reader)? {
            return Ok(None);
        }
        reader.nested(|reader| T::decode(reader)).map(|value| Some(Box::new(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Error, MAX_DEPTH, to_vec};

    #[derive(Debug, PartialEq)]
    struct Chain(Optional<Chain>);

    impl Decode<'_> for Chain {
        const MIN_SIZE: usize = UNIT;

        fn decode(reader: &mut Reader<'_>) -> Result<Self> {
            reader.value().map(Chain)
        }
    }

    #[test]
    fn list_is_a_count_and_its_elements() {
        let list = List::<u32, 3>(vec![1, 2]);
        let wire = to_vec(&list).unwrap();
        assert_eq!(wire, [0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(Reader::new(&wire).value(), Ok(list));
    }

    #[test]
    fn list_above_its_bound_fails_both_ways() {
        let list = List::<u32, 1>(vec![1, 2]);
        assert_eq!(to_vec(&list), Err(Error::TooLong { offset: 0, len: 2, max: 1 }));
        let read = Reader::new(&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]).value::<List<u32, 1>>();
        assert_eq!(read, Err(Error::TooLong { offset: 0, len: 2, max: 1 }));
    }

    #[test]
    fn hostile_count_is_refused_before_allocation() {
        let wire = [0x40, 0, 0, 0, 0, 0, 0, 0];
        let read = Reader::new(&wire).value::<List<u64>>();
        assert_eq!(read, Err(Error::Truncated { offset: 8, missing: (1 << 33) - 4 }));
    }

    #[test]
    fn first_allocation_is_no_larger_than_the_input() {
        let mut wire = 100u32.to_be_bytes().to_vec();
        wire.resize(4 + 400, 0);
        let list: List<Bytes<'_, 8>> = Reader::new(&wire).value().unwrap();
        assert_eq!(list.len(), 100);
        // 24 bytes in memory for 4 on the wire: growth by doubling from 400 / 24 = 16 elements, never 100 at once.
        assert!(list.0.capacity() < 200);
        wire.truncate(4 + 200);
        assert!(Reader::new(&wire).value::<List<Bytes<'_, 8>>>().unwrap_err().is_truncated());
    }

    #[test]
    fn fixed_array_reports_the_element_that_fails() {
        let wire = [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1];
        assert_eq!(Reader::new(&wire).value::<[bool; 3]>(), Err(Error::BadBool { offset: 4, value: 7 }));
        assert_eq!(Reader::new(&wire).value::<[u32; 3]>(), Ok([1, 7, 1]));
    }

    #[test]
    fn nesting_stops_at_the_limit_instead_of_the_stack() {
        let wire = 1u32.to_be_bytes().repeat(1 << 20);
        let error = Reader::new(&wire).value::<Chain>().unwrap_err();
        assert_eq!(error, Error::TooDeep { offset: 4 * (MAX_DEPTH as usize + 1), max: MAX_DEPTH });
        let shallow = [0, 0, 0, 1, 0, 0, 0, 0];
        assert!(Reader::new(&shallow).with_max_depth(1).value::<Chain>().is_ok());
        assert!(Reader::new(&shallow).with_max_depth(0).value::<Chain>().is_err());
    }

    #[derive(Debug)]
    struct Tree {
        _children: List<Tree>,
    }

    impl Decode<'_> for Tree {
        const MIN_SIZE: usize = UNIT;

        fn decode(reader: &mut Reader<'_>) -> Result<Self> {
            reader.value().map(|_children| Tree { _children })
        }
    }

    #[test]
    fn lists_within_lists_count_as_nesting() {
        let wire = 1u32.to_be_bytes().repeat(1 << 20);
        let error = Reader::new(&wire).value::<Tree>().unwrap_err();
        assert_eq!(error, Error::TooDeep { offset: 4 * (MAX_DEPTH as usize + 1), max: MAX_DEPTH });
    }
}
