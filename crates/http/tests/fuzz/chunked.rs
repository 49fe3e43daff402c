//! Chunked request bodies.

use bolero::check;
use http::chunked::BodyDiscard;
use http::refusal::Refusal;
use http::request::BodyLength;

#[test]
fn chunked_bytes() {
    check!().for_each(check_split);
}

#[test]
fn chunked_fragments() {
    check!().for_each(|picks: &[u8]| check_split(&crate::from_fragments(picks, FRAGMENTS)));
}

#[test]
fn chunked_body_ends_where_its_writer_ended_it() {
    check!().with_type::<(Vec<Vec<u8>>, Vec<u8>)>().for_each(|(chunks, next)| {
        let mut wire = Vec::new();
        for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
            wire.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
            wire.extend_from_slice(chunk);
            wire.extend_from_slice(b"\r\n");
        }
        wire.extend_from_slice(b"0\r\n\r\n");
        let body_len = wire.len();
        wire.extend_from_slice(next);
        let mut body = BodyDiscard::new(BodyLength::Chunked, u64::MAX).unwrap();
        let fed = body.feed(&wire).unwrap();
        assert_eq!((fed.consumed, fed.done), (body_len, true));
    });
}

/// How the network cuts the bytes must not matter.
fn check_split(input: &[u8]) {
    let mut whole = BodyDiscard::new(BodyLength::Chunked, 1 << 16).unwrap();
    let at_once = whole.feed(input).map(|fed| (fed.consumed, fed.done));
    let mut body = BodyDiscard::new(BodyLength::Chunked, 1 << 16).unwrap();
    assert_eq!(at_once, byte_by_byte(&mut body, input));
}

fn byte_by_byte(body: &mut BodyDiscard, input: &[u8]) -> Result<(usize, bool), Refusal> {
    let mut consumed = 0;
    for byte in input {
        if body.is_done() {
            break;
        }
        consumed += body.feed(std::slice::from_ref(byte))?.consumed;
    }
    Ok((consumed, body.is_done()))
}

const FRAGMENTS: &[&[u8]] = &[
    b"0",
    b"1",
    b"2",
    b"a",
    b"F",
    b"\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b";x=y",
    b";",
    b"=",
    b"\"",
    b"\\",
    b"x",
    b"xx",
    b"X: y",
    b" ",
    b"\0",
    b"-",
    b"ffffffff",
];
