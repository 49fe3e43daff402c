//! From the path of a request target to a name below the exported directory.
//!
//! Decoding happens once, and the result is checked after it: no NUL, no `..` segment, no slash that
//! came out of an escape. The kernel's own check (openat2 beneath the root) stands behind this one.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::request_error::RequestError;

/// A decoded path relative to the exported directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelativePath<'b> {
    /// Segments joined by single slashes, none empty, `.` or `..`; empty for the root itself.
    /// Borrowed when the request held no escape and nothing to tidy up.
    pub bytes: Cow<'b, [u8]>,
    /// The request path ended in a slash (or in `/.`): a directory is meant.
    pub directory: bool,
}

/// Decodes and checks a request path that begins with `/`.
pub fn decode(raw: &[u8]) -> Result<RelativePath<'_>, RequestError> {
    let relative = raw.strip_prefix(b"/").ok_or(RequestError::Path)?;
    if is_plain(raw) {
        let directory = relative.is_empty() || relative.ends_with(b"/");
        let bytes = relative.strip_suffix(b"/").unwrap_or(relative);
        return Ok(RelativePath { bytes: Cow::Borrowed(bytes), directory });
    }
    let mut bytes = Vec::with_capacity(relative.len());
    let mut directory = true;
    for segment in relative.split(|byte| *byte == b'/') {
        let start = bytes.len();
        if start > 0 {
            bytes.push(b'/');
        }
        let name_start = bytes.len();
        decode_segment(segment, &mut bytes)?;
        let name = &bytes[name_start..];
        directory = name.is_empty() || name == b".";
        if directory {
            bytes.truncate(start);
            continue;
        }
        // Windows clients of the same tree read a backslash as a separator.
        if name.split(|byte| matches!(byte, b'\\' | b'/')).any(|part| part == b"..") {
            return Err(RequestError::Path);
        }
    }
    Ok(RelativePath { bytes: Cow::Owned(bytes), directory })
}

/// Percent-encodes a relative path for use in a URL path; slashes stay.
pub fn encode(relative: &[u8]) -> percent_encoding::PercentEncode<'_> {
    percent_encode(relative, PATH_SET)
}

/// Percent-encodes one name, slashes included.
pub fn encode_segment(name: &[u8]) -> percent_encoding::PercentEncode<'_> {
    percent_encode(name, SEGMENT_SET)
}

/// Returns true if there is nothing to decode, tidy or refuse: the common case, decided in one pass. Dots count only
/// after a slash, so `a.txt` is plain while `/.a`, `/..` and `//` are not.
fn is_plain(raw: &[u8]) -> bool {
    let mut previous = 0;
    for byte in raw {
        let special = matches!(byte, b'%' | b'\\' | 0) || (previous == b'/' && matches!(byte, b'/' | b'.'));
        if special {
            return false;
        }
        previous = *byte;
    }
    true
}

fn decode_segment(segment: &[u8], out: &mut Vec<u8>) -> Result<(), RequestError> {
    let mut rest = segment;
    while let [byte, tail @ ..] = rest {
        let (decoded, tail) = match (byte, tail) {
            (b'%', [high, low, tail @ ..]) => (hex(*high)? << 4 | hex(*low)?, tail),
            (b'%', _) => return Err(RequestError::Path),
            (byte, tail) => (*byte, tail),
        };
        // A file name holds neither; an encoded slash means that another program decoded differently.
        if matches!(decoded, 0 | b'/') {
            return Err(RequestError::Path);
        }
        out.push(decoded);
        rest = tail;
    }
    Ok(())
}

fn hex(digit: u8) -> Result<u8, RequestError> {
    char::from(digit).to_digit(16).map(|value| value as u8).ok_or(RequestError::Path)
}

/// RFC 3986 `pchar` less the sub-delims that HTML, shells or `Refresh` fields could trip over.
const SEGMENT_SET: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'+')
    .remove(b',')
    .remove(b'=')
    .remove(b'@');
const PATH_SET: &AsciiSet = &SEGMENT_SET.remove(b'/');

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(raw: &str) -> (String, bool) {
        let path = decode(raw.as_bytes()).expect("accepted");
        (String::from_utf8_lossy(&path.bytes).into_owned(), path.directory)
    }

    #[test]
    fn plain_path_is_borrowed() {
        let path = decode(b"/a/b.txt").unwrap();
        assert!(matches!(path.bytes, Cow::Borrowed(b"a/b.txt")));
        assert!(!path.directory);
        assert!(matches!(decode(b"/").unwrap().bytes, Cow::Borrowed(b"")));
    }

    #[test]
    fn escapes_are_decoded_once() {
        assert_eq!(decoded("/a%20b%E2%82%ac").0, "a b€");
        assert_eq!(decoded("/%252e%252e/x").0, "%2e%2e/x");
        assert_eq!(decoded("/a%0Ab").0, "a\nb");
    }

    #[test]
    fn empty_and_dot_segments_vanish() {
        assert_eq!(decoded("//a///b"), ("a/b".into(), false));
        assert_eq!(decoded("/./a/./b/."), ("a/b".into(), true));
        assert_eq!(decoded("/a/%2e/"), ("a".into(), true));
        assert_eq!(decoded("/a/"), ("a".into(), true));
        assert_eq!(decoded("/."), ("".into(), true));
    }

    #[test]
    fn parent_segments_are_refused_in_every_encoding() {
        for raw in [
            "/..",
            "/../x",
            "/a/../b",
            "/a/..",
            "/%2e%2e/x",
            "/.%2E/x",
            "/%2e./x",
            "/a/%2E%2e",
            "/..%5cx",
            "/..\\x",
            "/a\\..\\b",
            "/a%5C%2e%2e%5cb",
            "/\\..",
        ] {
            assert_eq!(decode(raw.as_bytes()), Err(RequestError::Path), "{raw}");
        }
    }

    #[test]
    fn encoded_slash_nul_and_broken_escapes_are_refused() {
        for raw in ["/a%2fb", "/a%2Fb", "/%00", "/a%00.txt", "/%", "/%2", "/%zz", "/a%g0", "/%+1", "x", ""] {
            assert_eq!(decode(raw.as_bytes()), Err(RequestError::Path), "{raw}");
        }
        assert_eq!(decode(b"/a\0b"), Err(RequestError::Path));
    }

    #[test]
    fn encoding_then_decoding_gives_the_name_back() {
        let name = "a b/ü&\"'<>?#%;:\u{7}\\x".as_bytes();
        let url = format!("/{}", encode(name));
        assert!(!url.contains(['"', '<', '&', '?', '#', '\\']));
        assert_eq!(decode(url.as_bytes()).unwrap().bytes.as_ref(), name);
    }
}
