//! unit: every codec type reads back the value that it wrote.

use proptest::prelude::*;
use xdr::afs::{AfsUuid, Time64};
use xdr::{Bytes, Chars, Decode, Encode, List, Opaque, Optional, Reader, UNIT, encoded_len, to_vec};

/// Encodes and decodes `value`, and checks alignment, the announced sizes, and that every cut is reported as
/// truncation.
fn round_trip<T>(value: &T)
where
    T: Encode + for<'a> Decode<'a> + PartialEq + std::fmt::Debug,
{
    let wire = to_vec(value).unwrap();
    assert_eq!(wire.len() % UNIT, 0);
    assert_eq!(wire.len(), encoded_len(value).unwrap());
    assert!(wire.len() >= T::MIN_SIZE);
    let mut reader = Reader::new(&wire);
    assert_eq!(&reader.value::<T>().unwrap(), value);
    reader.finish().unwrap();
    for cut in 0..wire.len() {
        assert!(Reader::new(&wire[..cut]).value::<T>().unwrap_err().is_truncated());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn integers(a: u32, b: i32, c: u64, d: i64, e: bool) {
        round_trip(&a);
        round_trip(&b);
        round_trip(&c);
        round_trip(&d);
        round_trip(&e);
    }

    #[test]
    fn narrow_integers(a: u8, b: i8, c: u16, d: i16) {
        round_trip(&a);
        round_trip(&b);
        round_trip(&c);
        round_trip(&d);
    }

    #[test]
    fn floats(a in proptest::num::f32::NORMAL, b in proptest::num::f64::NORMAL) {
        round_trip(&a);
        round_trip(&b);
    }

    #[test]
    fn byte_strings(bytes in prop::collection::vec(any::<u8>(), 0..64), fixed: [u8; 7]) {
        let wire = to_vec(&Bytes::<64>::from(bytes.clone())).unwrap();
        prop_assert_eq!(&*Reader::new(&wire).value::<Bytes<'_, 64>>().unwrap(), &bytes[..]);
        round_trip(&Opaque(fixed));
        round_trip(&Chars(fixed));
    }

    #[test]
    fn lists_and_options(list in prop::collection::vec(any::<u64>(), 0..20), some: Option<i16>, pair: [u32; 2]) {
        round_trip(&List::<u64, 20>(list.clone()));
        round_trip(&list.iter().map(|&n| [n, !n]).collect::<List<[u64; 2], 20>>());
        round_trip::<Optional<i16>>(&some.map(Box::new));
        round_trip(&[pair, pair]);
    }

    #[test]
    fn afs_types(uuid: [u8; 16], ticks: i64) {
        round_trip(&AfsUuid(uuid));
        round_trip(&Time64(ticks));
    }
}
