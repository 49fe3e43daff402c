//! Clients' text in log lines: any input stays one line, with its fields apart.

use std::fmt::Write as _;
use std::io::Write as _;

/// Appends text with quotes, backslashes and all but visible ASCII as `\xHH`, as nginx does.
///
/// No client can forge a line or send a control sequence to a terminal that shows the log.
pub fn put_escaped(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        if matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\') {
            out.push(*byte);
        } else {
            let _ = write!(out, "\\x{byte:02X}");
        }
    }
}

/// Escapes a field that ends at a blank ([`put_escaped`]).
pub fn put_escaped_word(text: &[u8], out: &mut Vec<u8>) {
    for part in text.split_inclusive(|byte| *byte == b' ') {
        put_escaped(part.strip_suffix(b" ").unwrap_or(part), out);
        if part.ends_with(b" ") {
            out.extend_from_slice(b"\\x20");
        }
    }
}

/// Appends a JSON string (RFC 8259 7). `<` is escaped too, so that the text is harmless inside HTML, and so
/// is what acts on a terminal: control characters, and those that change the direction of text.
pub fn put_json_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '<'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}' => {
                let _ = write!(out, "\\u{:04x}", character as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Appends a field of a JSON object behind others, with U+FFFD for what is not UTF-8; nothing for an empty
/// text.
pub fn put_json_field(field: &str, text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let mut value = String::with_capacity(text.len() + 2);
    put_json_string(&String::from_utf8_lossy(text), &mut value);
    let _ = write!(out, ",\"{field}\":{value}");
}
