//! fuzz: no input makes a decode panic or allocate beyond what the input pays for.

use xdr::afs::AfsUuid;
use xdr::{Bytes, Chars, Decode, Encode, List, Opaque, Optional, Reader, to_vec};

/// Decodes `input` as a `T`; a value that decodes must encode to the bytes it came from, where its form is canonical.
fn decode<'a, T: Decode<'a> + Encode>(input: &'a [u8], canonical: bool) {
    let mut reader = Reader::new(input);
    let Ok(value) = reader.value::<T>() else { return };
    let wire = to_vec(&value).unwrap();
    assert_eq!(wire.len(), reader.position());
    if canonical {
        assert_eq!(wire, input[..reader.position()]);
    }
}

#[test]
fn any_input_decodes_to_its_own_encoding_or_fails() {
    bolero::check!().for_each(|input: &[u8]| {
        decode::<Bytes<'_>>(input, true);
        decode::<List<Bytes<'_, 8>>>(input, true);
        decode::<List<Optional<u64>, 100>>(input, true);
        decode::<List<List<Opaque<3>>, 9>>(input, true);
        decode::<[Optional<Bytes<'_>>; 3]>(input, true);
        decode::<List<Chars<2>>>(input, false);
        decode::<AfsUuid>(input, false);
    });
}

#[test]
fn lenient_reader_counts_what_the_strict_one_refuses() {
    bolero::check!().for_each(|input: &[u8]| {
        let mut lenient = Reader::lenient(input);
        let value = lenient.value::<List<Bytes<'_, 8>>>();
        let strict = Reader::new(input).value::<List<Bytes<'_, 8>>>();
        if value.is_ok() && lenient.bad_padding() > 0 {
            assert!(strict.is_err());
        } else {
            assert_eq!(strict.is_ok(), value.is_ok());
        }
    });
}
