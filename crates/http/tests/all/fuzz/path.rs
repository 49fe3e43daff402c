//! Request paths.

use bolero::check;
use http::path;

#[test]
fn path_bytes() {
    check!().for_each(|input: &[u8]| {
        check_path(input);
        check_path(&[b"/", input].concat());
    });
}

#[test]
fn path_fragments() {
    check!().for_each(|picks: &[u8]| {
        check_path(&[b"/".to_vec(), crate::fuzz::from_fragments(picks, FRAGMENTS)].concat());
    });
}

/// An accepted path names something beneath the root, and writing it again gives the same name.
fn check_path(raw: &[u8]) {
    let Ok(decoded) = path::decode(raw) else { return };
    let bytes = &decoded.bytes;
    assert!(!bytes.contains(&0), "{decoded:?}");
    assert!(
        bytes.is_empty() || bytes.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b"..")),
        "{decoded:?}"
    );
    assert!(bytes.split(|byte| matches!(byte, b'/' | b'\\')).all(|name| name != b".."), "{decoded:?}");
    let again = format!("/{}", path::encode(bytes));
    assert_eq!(path::decode(again.as_bytes()).unwrap().bytes, *bytes);
}

const FRAGMENTS: &[&[u8]] = &[
    b"/", b"/", b".", b".", b"%2e", b"%2E", b"%2f", b"%5c", b"\\", b"%00", b"%", b"a", b"%61", b"%c0%ae",
    b"%25", b"%252e", b"..", b"\0", b"?", b";", b"\xff",
];
