use super::*;

fn reader(bytes: &[u8]) -> Reader<'_> {
    Reader::new("test", bytes)
}

#[test]
fn elements_come_back_whatever_their_length() {
    for len in [0, 1, 127, 128, 255, 256, 70_000] {
        let content = vec![7; len];
        let bytes = octets(&content);
        assert_eq!(reader(&bytes).octets().unwrap(), content);
        assert!(reader(&bytes).sequence().is_err());
        assert!(reader(&bytes[..bytes.len() - 1]).octets().is_err());
        assert!(reader(&[&bytes[..], &[0]].concat()).octets().is_err());
    }
}

#[test]
fn lengths_beyond_the_input_are_refused() {
    for bad in [
        &[4][..],
        &[4, 0x80, 0, 0],
        &[4, 0x85, 0, 0, 0, 0, 0],
        &[4, 0x84, 0xff, 0xff, 0xff, 0xff],
        &[0x1f, 0],
        &[],
    ] {
        assert_eq!(reader(bad).next(), Err(Malformed("test")));
    }
}

#[test]
fn integers_are_as_short_as_der_wants() {
    let cases: [(i64, &[u8]); 9] = [
        (0, &[2, 1, 0]),
        (127, &[2, 1, 0x7f]),
        (128, &[2, 2, 0, 0x80]),
        (256, &[2, 2, 1, 0]),
        (-1, &[2, 1, 0xff]),
        (-128, &[2, 1, 0x80]),
        (-129, &[2, 2, 0xff, 0x7f]),
        (-138, &[2, 2, 0xff, 0x76]),
        (0xffff_ffff, &[2, 5, 0, 0xff, 0xff, 0xff, 0xff]),
    ];
    for (value, bytes) in cases {
        assert_eq!(integer(value), bytes);
        assert_eq!(reader(bytes).integer(), Ok(value));
    }
    assert_eq!(reader(&integer(0xffff_ffff)).uint32(), Ok(u32::MAX));
    assert_eq!(reader(&integer(-1)).uint32(), Ok(u32::MAX));
    for value in [1 << 32, -(1 << 31) - 1] {
        assert!(reader(&integer(value)).uint32().is_err());
        assert!(reader(&integer(value)).int32().is_err());
    }
    assert!(reader(&integer(1_000_000)).microseconds().is_err());
    assert!(reader(&[2, 0]).integer().is_err());
    assert!(reader(&[2, 9, 0, 0, 0, 0, 0, 0, 0, 0, 1]).integer().is_err());
}

#[test]
fn flags_of_fewer_bits_are_filled_with_zeros() {
    assert_eq!(reader(&[3, 5, 0, 0x20, 0, 0, 0]).flags(), Ok(0x2000_0000));
    assert_eq!(reader(&[3, 2, 4, 0xa0]).flags(), Ok(0xa000_0000));
    assert_eq!(reader(&[3, 6, 0, 1, 2, 3, 4, 5]).flags(), Ok(0x0102_0304));
    for bad in [&[3, 0][..], &[3, 1, 3], &[3, 2, 8, 1]] {
        assert!(reader(bad).flags().is_err());
    }
}
