//! Request heads.

use bolero::check;
use http::limits::Limits;
use http::request::{Head, Target, parse};

#[test]
fn request_bytes() {
    check!().for_each(|input: &[u8]| check_head(input));
}

#[test]
fn request_fragments() {
    check!().for_each(|picks: &[u8]| check_head(&crate::fuzz::from_fragments(picks, FRAGMENTS)));
}

/// Checks a head of any bytes: no panic, nothing a field slice could smuggle, and no dependence on what
/// follows.
fn check_head(input: &[u8]) {
    let limits = Limits { target_bytes_max: 64, head_bytes_max: 512, headers_max: 8, ..Limits::default() };
    let Ok(Some((head, len))) = parse(input, &limits) else { return };
    assert!(len <= input.len() && len <= limits.head_bytes_max);
    assert!(input[..len].ends_with(b"\r\n\r\n"));
    for text in texts(&head) {
        assert!(!text.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{head:?}");
    }
    if let Target::Path { path, .. } = head.target {
        assert!(path.starts_with(b"/") && path.len() <= limits.target_bytes_max);
        assert!(!path.contains(&b'?') && !path.contains(&b' '));
    }
    assert_eq!(parse(&input[..len], &limits), Ok(Some((head, len))), "what follows changed the head");
    for shorter in 0..len {
        assert!(!matches!(parse(&input[..shorter], &limits), Ok(Some(_))), "a prefix is a head too");
    }
}

fn texts<'h>(head: &'h Head<'_>) -> impl Iterator<Item = &'h [u8]> {
    let fields = &head.fields;
    [
        Some(head.target.raw_path()),
        head.target.query(),
        Some(head.host),
        fields.accept.as_deref(),
        fields.accept_encoding.as_deref(),
        fields.if_match.as_deref(),
        fields.if_modified_since,
        fields.if_none_match.as_deref(),
        fields.if_range,
        fields.if_unmodified_since,
        fields.range,
        fields.referer,
        fields.user_agent,
    ]
    .into_iter()
    .flatten()
}

const FRAGMENTS: &[&[u8]] = &[
    b"GET ",
    b"HEAD ",
    b"OPTIONS ",
    b"POST ",
    b"/",
    b"/a?b",
    b"*",
    b"http://h/",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"Host: a\r\n",
    b"Host:",
    b"Content-Length: 3\r\n",
    b"Content-Length: 3, 4\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Expect: 100-continue\r\n",
    b"Range: bytes=0-1\r\n",
    b"If-None-Match: \"x\"\r\n",
    b"If-None-Match: \r\n",
    b"Accept: a, b\r\n",
    b"X: y\r\n",
    b" y\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b":",
    b" ",
    b"\t",
    b"\x80",
    b"%",
];
