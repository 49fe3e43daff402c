use super::*;

fn parsed(bytes: &[u8]) -> Head<'_> {
    let (head, len) = parse(bytes, &Limits::default()).expect("accepted").expect("complete");
    assert_eq!(len, bytes.len());
    head
}

fn refused(bytes: &[u8]) -> RequestError {
    parse(bytes, &Limits::default()).expect_err("refused")
}

/// A GET with these header lines after a good Host.
fn with_fields(fields: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").into_bytes()
}

#[test]
fn curl_request_is_parsed_whole() {
    let bytes = b"GET /a/b.txt?x=1 HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: curl/8\r\n\
        Accept: */*\r\nRange: bytes=0-9\r\n\r\n";
    let head = parsed(bytes);
    assert_eq!(head.method, Method::Get);
    assert_eq!(head.target, Target::Path { path: b"/a/b.txt", query: Some(b"x=1") });
    assert_eq!(head.host, b"example.org:8080");
    assert_eq!(head.fields.range, Some(&b"bytes=0-9"[..]));
    assert_eq!(head.fields.user_agent, Some(&b"curl/8"[..]));
    assert!(head.keep_alive);
    assert_eq!(head.body, BodyLength::None);
}

#[test]
fn pipelined_bytes_after_the_head_are_left_alone() {
    let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\n";
    let (_, len) = parse(bytes, &Limits::default()).unwrap().unwrap();
    assert_eq!(&bytes[len..], b"GET /2 HTTP/1.1\r\n");
}

#[test]
fn every_prefix_of_a_good_head_asks_for_more() {
    let bytes = b"GET /x HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
    for len in 0..bytes.len() {
        assert_eq!(parse(&bytes[..len], &Limits::default()), Ok(None), "{len}");
    }
}

#[test]
fn one_empty_line_before_the_request_is_skipped() {
    assert_eq!(parsed(b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").method, Method::Get);
}

#[test]
fn bare_lf_is_refused_wherever_it_ends_a_line() {
    for bytes in [
        &b"GET / HTTP/1.1\nHost: a\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA:\n\r\n",
    ] {
        assert_eq!(refused(bytes), RequestError::BareLf, "{}", bytes.escape_ascii());
    }
}

#[test]
fn folded_lines_and_spaces_before_colons_are_refused() {
    assert_eq!(refused(&with_fields("A: b\r\n c\r\n")), RequestError::HeaderField);
    assert_eq!(refused(&with_fields("A : b\r\n")), RequestError::HeaderField);
    assert_eq!(refused(&with_fields(" A: b\r\n")), RequestError::HeaderField);
}

#[test]
fn nul_and_bare_cr_in_a_field_are_refused() {
    assert_eq!(refused(&with_fields("A: b\0c\r\n")), RequestError::HeaderField);
    assert_eq!(refused(&with_fields("A: b\rc\r\n")), RequestError::HeaderField);
    assert_eq!(refused(&with_fields("A\0: b\r\n")), RequestError::HeaderField);
}

#[test]
fn content_length_beside_transfer_encoding_is_refused_in_both_orders() {
    for fields in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    ] {
        assert_eq!(refused(&with_fields(fields)), RequestError::BodyLength, "{fields}");
    }
}

#[test]
fn content_lengths_must_agree_and_be_plain_digits() {
    for value in ["", "+1", "-1", "0x10", "1 2", "3, 4", "18446744073709551616", "1,", "\u{b2}"] {
        let fields = format!("Content-Length: {value}\r\n");
        assert_eq!(refused(&with_fields(&fields)), RequestError::BodyLength, "{value:?}");
    }
    assert_eq!(refused(&with_fields("Content-Length: 3\r\nContent-Length: 4\r\n")), RequestError::BodyLength);
    assert_eq!(parsed(&with_fields("Content-Length: 3, 3\r\n")).body, BodyLength::Exact(3));
    assert_eq!(parsed(&with_fields("Content-Length: 0\r\n")).body, BodyLength::None);
}

#[test]
fn only_chunked_is_known_and_not_in_http_1_0() {
    assert_eq!(parsed(&with_fields("Transfer-Encoding: Chunked\r\n")).body, BodyLength::Chunked);
    for coding in ["gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked;a=b", ""] {
        let fields = format!("Transfer-Encoding: {coding}\r\n");
        assert_eq!(refused(&with_fields(&fields)), RequestError::TransferCoding, "{coding}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(old), RequestError::BodyLength);
}

#[test]
fn host_must_stand_exactly_once_in_http_1_1() {
    assert_eq!(refused(b"GET / HTTP/1.1\r\n\r\n"), RequestError::Host);
    assert_eq!(refused(&with_fields("Host: a\r\n")), RequestError::Host);
    for value in ["", "a b", "user@a", "a/b", ":80", "a\"b", "<a>"] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: {value}\r\n\r\n");
        assert_eq!(refused(bytes.as_bytes()), RequestError::Host, "{value:?}");
    }
    assert_eq!(parsed(b"GET / HTTP/1.1\r\nHost: [::1]:8443\r\n\r\n").host, b"[::1]:8443");
    assert_eq!(parsed(b"GET / HTTP/1.0\r\n\r\n").host, b"");
}

#[test]
fn absolute_target_replaces_host() {
    let head = parsed(b"GET HTTP://b:1/x?y HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.host, b"b:1");
    assert_eq!(head.target, Target::Path { path: b"/x", query: Some(b"y") });
    assert_eq!(parsed(b"GET http://b HTTP/1.1\r\nHost: a\r\n\r\n").target.raw_path(), b"/");
    assert_eq!(parsed(b"GET http://b?q HTTP/1.1\r\nHost: a\r\n\r\n").target.query(), Some(&b"q"[..]));
}

#[test]
fn odd_targets_are_refused() {
    for target in ["a", "*", "ftp://a/", "http://", "http:///x", "http://u@h/", "/a#b", "//a/../#"] {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(refused(bytes.as_bytes()), RequestError::Target, "{target}");
    }
    for line in ["GET  / HTTP/1.1", "GET /", "GET / a HTTP/1.1", "GET /\0 HTTP/1.1", "G(T / HTTP/1.1"] {
        let bytes = format!("{line}\r\nHost: a\r\n\r\n");
        assert_eq!(refused(bytes.as_bytes()), RequestError::RequestLine, "{line:?}");
    }
}

#[test]
fn asterisk_is_for_options_alone() {
    assert_eq!(parsed(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").target, Target::Asterisk);
}

#[test]
fn unknown_methods_and_versions_have_their_own_refusals() {
    assert_eq!(refused(b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n"), RequestError::MethodUnknown);
    assert_eq!(refused(b"get / HTTP/1.1\r\nHost: a\r\n\r\n"), RequestError::MethodUnknown);
    assert_eq!(refused(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"), RequestError::MethodNotAllowed);
    assert_eq!(parsed(b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n").method, Method::Put);
    assert_eq!(parsed(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n").method, Method::Other);
    assert_eq!(refused(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"), RequestError::Version);
    assert_eq!(refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), RequestError::Version);
    assert_eq!(refused(b"GET / HTTX/1.1\r\nHost: a\r\n\r\n"), RequestError::RequestLine);
    assert_eq!(refused(b"GET / HTTP/0.9\r\nHost: a\r\n\r\n"), RequestError::Version);
    assert_eq!(refused(b"GET / HTTP/3.1\r\nHost: a\r\n\r\n"), RequestError::Version);
    assert_eq!(refused(b"GET / HTTP/1.x\r\nHost: a\r\n\r\n"), RequestError::RequestLine);
    assert_eq!(refused(b"GET / HTTP/1.10\r\nHost: a\r\n\r\n"), RequestError::RequestLine);
}

#[test]
fn later_minor_versions_of_http_1_are_read_as_the_last_known_one() {
    for minor in 2..=9 {
        let text = |minor: u32| {
            format!(
                "\r\nPUT /a%20b?q=1 HTTP/1.{minor}\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nbody!"
            )
        };
        let (known, later) = (text(1), text(minor));
        let head_len = later.len() - "body!".len();
        assert_eq!(parsed(&later.as_bytes()[..head_len]), parsed(&known.as_bytes()[..head_len]), "1.{minor}");
        // However it comes.
        for len in 0..later.len() {
            let known =
                parse(&known.as_bytes()[..len], &Limits::default()).map(|head| head.map(|(_, len)| len));
            let later =
                parse(&later.as_bytes()[..len], &Limits::default()).map(|head| head.map(|(_, len)| len));
            assert_eq!(later, known, "1.{minor}: {len} bytes");
            assert_eq!(later.unwrap().is_some(), len >= head_len);
        }
        // What is refused there is refused here.
        for (rest, refusal) in [
            ("GET / HTTP/1.1\r\n\r\n", RequestError::Host),
            ("GET / HTTP/1.1\nHost: a\n\n", RequestError::BareLf),
            ("GET / HTTP/1.1\r\nHost: a\nB: c\r\n\r\n", RequestError::BareLf),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", RequestError::HeaderField),
            ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::RequestLine),
            ("GE(T / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::RequestLine),
            ("BREW / HTTP/1.1\r\nHost: a\r\n\r\n", RequestError::MethodUnknown),
        ] {
            assert_eq!(refused(rest.as_bytes()), refusal, "{rest:?}");
            let later = rest.replace("HTTP/1.1", &format!("HTTP/1.{minor}"));
            assert_eq!(refused(later.as_bytes()), refusal, "{later:?}");
        }
    }
}

#[test]
fn keep_alive_follows_version_and_connection_field() {
    assert!(!parsed(&with_fields("Connection: foo, Close\r\n")).keep_alive);
    assert!(!parsed(&with_fields("Connection: keep-alive\r\nConnection: close\r\n")).keep_alive);
    assert!(!parsed(b"GET / HTTP/1.0\r\n\r\n").keep_alive);
    assert!(parsed(b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
}

#[test]
fn expect_continue_counts_only_with_a_body() {
    assert!(parsed(&with_fields("Expect: 100-Continue\r\nContent-Length: 1\r\n")).expect_continue);
    assert!(!parsed(&with_fields("Expect: 100-continue\r\n")).expect_continue);
    assert_eq!(refused(&with_fields("Expect: 200-ok\r\n")), RequestError::Expectation);
}

#[test]
fn lists_in_several_lines_are_one_list() {
    let bytes = with_fields(
        "If-None-Match: \"a\"\r\nAccept: text/html\r\nif-none-match: W/\"b,c\"\r\nAccept-Encoding: br\r\n\
         If-Match: \"d\"\r\nAccept: */*;q=0.1\r\nIF-MATCH:\r\nAccept-Encoding: gzip;q=0\r\nAccept-Encoding: zstd\r\n",
    );
    let fields = parsed(&bytes).fields;
    assert_eq!(fields.if_none_match.as_deref(), Some(&b"\"a\", W/\"b,c\""[..]));
    assert_eq!(fields.accept.as_deref(), Some(&b"text/html, */*;q=0.1"[..]));
    assert_eq!(fields.accept_encoding.as_deref(), Some(&b"br, gzip;q=0, zstd"[..]));
    assert_eq!(fields.if_match.as_deref(), Some(&b"\"d\", "[..]));
    let expects = with_fields("Expect: ,\r\nExpect: 100-continue, 100-continue\r\nContent-Length: 1\r\n");
    assert!(parsed(&expects).expect_continue);
}

#[test]
fn repeated_ranges_are_refused_and_repeated_dates_void() {
    for field in ["Range: bytes=0-1", "If-Range: \"a\""] {
        assert_eq!(refused(&with_fields(&format!("{field}\r\n{field}\r\n"))), RequestError::DuplicateField);
    }
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    for times in 2..4 {
        let lines = format!("If-Modified-Since: {date}\r\nIf-Unmodified-Since: {date}\r\n").repeat(times);
        let bytes = with_fields(&lines);
        let fields = parsed(&bytes).fields;
        assert_eq!((fields.if_modified_since, fields.if_unmodified_since), (Some(&b""[..]), Some(&b""[..])));
    }
}

#[test]
fn limits_hold_before_and_after_the_head_is_complete() {
    let limits = Limits { target_bytes_max: 64, head_bytes_max: 256, headers_max: 4, ..Limits::default() };
    let long_target = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(64));
    assert_eq!(parse(long_target.as_bytes(), &limits), Err(RequestError::TargetTooLong));
    let endless_target = "GET /".to_owned() + &"x".repeat(200);
    assert_eq!(parse(endless_target.as_bytes(), &limits), Err(RequestError::TargetTooLong));
    let long_head = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}\r\n\r\n", "x".repeat(256));
    assert_eq!(parse(long_head.as_bytes(), &limits), Err(RequestError::HeadTooLarge));
    let endless_head = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {}", "x".repeat(256));
    assert_eq!(parse(endless_head.as_bytes(), &limits), Err(RequestError::HeadTooLarge));
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(4));
    assert_eq!(parse(many.as_bytes(), &limits), Err(RequestError::HeadTooLarge));
}
