//! Request bodies in chunks.

use bolero::check;
use http::body::BodyReader;
use http::request::BodyLength;
use http::request_error::RequestError;

#[test]
fn chunked_bytes() {
    check!().for_each(check_split);
}

#[test]
fn chunked_fragments() {
    check!().for_each(|picks: &[u8]| check_split(&crate::fuzz::from_fragments(picks, FRAGMENTS)));
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
        let mut body = BodyReader::new(BodyLength::Chunked, u64::MAX, u64::MAX).unwrap();
        let (mut taken, mut content) = (0, Vec::new());
        while !body.is_done() {
            let fed = body.feed(&wire[taken..]).unwrap();
            content.extend_from_slice(&wire[taken..][fed.content]);
            taken += fed.consumed;
        }
        assert_eq!((taken, content), (body_len, chunks.concat()));
    });
}

/// Checks that the network's cuts of the bytes do not matter.
fn check_split(input: &[u8]) {
    let mut whole = BodyReader::new(BodyLength::Chunked, 1 << 16, 1 << 16).unwrap();
    let at_once = in_pieces(&mut whole, input, usize::MAX);
    let mut body = BodyReader::new(BodyLength::Chunked, 1 << 16, 1 << 16).unwrap();
    assert_eq!(at_once, in_pieces(&mut body, input, 1));
}

/// Returns what a body takes of input that comes in pieces of so many bytes, its content, and whether it
/// ends.
fn in_pieces(
    body: &mut BodyReader,
    input: &[u8],
    step: usize,
) -> Result<(usize, Vec<u8>, bool), RequestError> {
    let (mut taken, mut content) = (0, Vec::new());
    while taken < input.len() && !body.is_done() {
        let piece = &input[taken..taken.saturating_add(step).min(input.len())];
        let fed = body.feed(piece)?;
        content.extend_from_slice(&piece[fed.content]);
        taken += fed.consumed;
    }
    Ok((taken, content, body.is_done()))
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
