//! Against the examples of RFC 7541 appendix C, and against ourselves.

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
    let mut fields = Vec::new();
    decoder.decode(block, |name, value| {
        fields.push(format!("{}: {}", name.escape_ascii(), value.escape_ascii()));
    })?;
    Ok(fields)
}

#[test]
fn requests_of_the_specification_are_read_with_and_without_huffman_codes() {
    let plain = [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ];
    let coded = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::new();
        let first = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
        assert_eq!(decoded(&mut decoder, &hex(blocks[0])).unwrap(), first);
        let second = decoded(&mut decoder, &hex(blocks[1])).unwrap();
        assert_eq!(second[..4], first);
        assert_eq!(second[4..], ["cache-control: no-cache"]);
        let third = [
            ":method: GET",
            ":scheme: https",
            ":path: /index.html",
            ":authority: www.example.com",
            "custom-key: custom-value",
        ];
        assert_eq!(decoded(&mut decoder, &hex(blocks[2])).unwrap(), third);
    }
}

#[test]
fn table_forgets_the_oldest_when_it_is_full() {
    let mut decoder = Decoder::new();
    // Room for two entries of 38 bytes.
    decoder.decode(&hex("3f2d"), |_, _| {}).unwrap();
    for value in ["a", "b", "c"] {
        let mut block = vec![0x40, 5];
        block.extend_from_slice(b"field");
        block.push(1);
        block.extend_from_slice(value.as_bytes());
        decoder.decode(&block, |_, _| {}).unwrap();
    }
    assert_eq!(decoded(&mut decoder, &[0x80 | 62, 0x80 | 63]).unwrap(), ["field: c", "field: b"]);
    assert_eq!(decoded(&mut decoder, &[0x80 | 64]), Err(HpackError));
}

#[test]
fn what_is_no_header_block_is_refused() {
    let bad: [&[u8]; 9] = [
        &[0x80],                               // index 0
        &[0x80 | 62],                          // beyond the table
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], // an endless integer
        &[0xff],                               // half an integer
        &[0x82, 0x20],                         // a new table size behind a field
        &[0x3f, 0xe2, 0x1f],                   // more than the table may have: 4097
        &[0x00, 0x01],                         // half a string
        &[0x00, 0x01, b'a', 0x81, 0x00],       // no padding of ones
        &[0x00, 0x7f, 0x80, 0x80, 0x80],
    ];
    for block in bad {
        assert_eq!(decoded(&mut Decoder::new(), block), Err(HpackError), "{block:02x?}");
    }
}

/// One answer's block; none of its fields comes again but the first two.
fn encoded(encoder: &mut Encoder, status: u16, fields: &[(&'static str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = encoder.begin(status, &mut out);
    fields.iter().for_each(|(name, value)| block.field(name, value.as_bytes()));
    out
}

#[test]
fn what_is_encoded_is_decoded_to_the_same_and_what_comes_again_is_one_byte() {
    let long = "x".repeat(300);
    let fields = [
        ("Server", "linerate"),
        ("X-Content-Type-Options", "nosniff"),
        ("Vary", "Accept"),
        ("Location", &long),
        ("Cache-Control", &long),
        ("X-Unknown", "a"),
    ];
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new();
    for code in [200, 206, 416, 304] {
        let block = encoded(&mut encoder, code, &fields);
        let read = decoded(&mut decoder, &block).unwrap();
        assert_eq!(read[0], format!(":status: {code}"));
        assert_eq!(read.len(), 1 + fields.len());
        for ((name, value), read) in fields.iter().zip(&read[1..]) {
            assert_eq!(*read, format!("{}: {value}", name.to_ascii_lowercase()));
        }
    }
    let again = encoded(&mut encoder, 200, &fields[..3]);
    assert_eq!(again.len(), 4);
    assert_eq!(decoded(&mut decoder, &again).unwrap()[3], "vary: Accept");
}

#[test]
fn sent_table_has_the_size_that_the_peer_keeps_and_forgets_as_it_does() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new();
    let mut size = 4096;
    for n in 0..200u32 {
        // Any sizes in turn, sometimes several between two blocks; RFC 7541 4.2 wants the smallest told.
        for step in 0..n % 4 {
            size = [0, 100, 60, 700, 4096, 1 << 20][(n + 5 * step) as usize % 6];
            encoder.set_table_max(size);
        }
        let date = format!("date {}", n / 3);
        let block = encoded(&mut encoder, 200, &[("Server", "linerate"), ("Date", &date), ("Vary", "b")]);
        let expected = [":status: 200", "server: linerate", &format!("date: {date}"), "vary: b"];
        assert_eq!(decoded(&mut decoder, &block).unwrap(), expected, "{n}, {size} bytes");
    }
    encoder.set_table_max(0);
    let fields = [("Server", "linerate")];
    let first = encoded(&mut encoder, 200, &fields);
    let second = encoded(&mut encoder, 200, &fields);
    assert_eq!((first[0], &first[1..]), (0x20, &second[..]), "that there is no table is told once");
    assert_eq!(decoded(&mut decoder, &first).unwrap(), decoded(&mut decoder, &second).unwrap());
}

#[test]
fn any_bytes_are_decoded_or_refused() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let mut decoder = Decoder::new();
        let _ = decoder.decode(bytes, |_, _| {});
        let _ = decoder.decode(bytes, |_, _| {});
    });
}
