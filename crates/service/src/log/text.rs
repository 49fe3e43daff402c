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
    text.chars().for_each(|character| put_json_character(character, out));
    out.push('"');
}

fn put_json_character(character: char, out: &mut String) {
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

/// Appends a field of a JSON object behind others, with U+FFFD for what is not UTF-8; nothing for an empty
/// text. What is longer than [`AUDIT_TEXT_MAX`] bytes as it is written ends with `…`, behind a whole character.
pub fn put_json_field(field: &str, text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() {
        return;
    }
    let mut value = String::with_capacity(text.len().min(AUDIT_TEXT_MAX) + 8);
    for character in String::from_utf8_lossy(text).chars() {
        let whole = value.len();
        put_json_character(character, &mut value);
        if value.len() > AUDIT_TEXT_MAX {
            value.truncate(whole);
            value.push('…');
            break;
        }
    }
    let _ = write!(out, ",\"{field}\":\"{value}\"");
}

/// Escapes a field of the audit log that ends at a blank ([`put_escaped_word`]). What is longer than [`AUDIT_TEXT_MAX`] bytes as it is
/// written ends with `...`, behind a whole byte.
pub fn put_audit_word(text: &[u8], out: &mut Vec<u8>) {
    let begun = out.len();
    for byte in text.chunks(1) {
        let whole = out.len();
        put_escaped_word(byte, out);
        if out.len() - begun > AUDIT_TEXT_MAX {
            out.truncate(whole);
            out.extend_from_slice(b"...");
            return;
        }
    }
}

/// Longest text of a field of the audit log, in bytes as it is written: escapes make it up to four times as long as it came.
pub const AUDIT_TEXT_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_the_audit_log_is_cut_at_what_its_escapes_make_of_it() {
        for (character, escaped) in [("\u{85}", 6), ("a", 1), ("ä", 2), ("<", 6), ("\u{202e}", 6), ("\"", 2)]
        {
            for count in [10, 4096] {
                let text = character.repeat(count);
                let mut out = Vec::new();
                put_json_field("path", text.as_bytes(), &mut out);
                let len = out.len() - ",\"path\":\"\"".len();
                let line = String::from_utf8(out).unwrap();
                let is_cut = escaped * count > AUDIT_TEXT_MAX;
                assert_eq!(line.ends_with("…\""), is_cut, "{character:?}");
                assert!(if is_cut { len <= AUDIT_TEXT_MAX + 3 } else { len == escaped * count }, "{len}");
            }
        }
        for (byte, escaped) in [(b'\x85', 4), (b'a', 1), (b' ', 4)] {
            for count in [10, 4096] {
                let mut out = Vec::new();
                put_audit_word(&vec![byte; count], &mut out);
                let is_cut = escaped * count > AUDIT_TEXT_MAX;
                assert_eq!(out.ends_with(b"..."), is_cut, "{byte}");
                assert!(out.len() <= AUDIT_TEXT_MAX + 3 && (is_cut || out.len() == escaped * count));
            }
        }
    }
}
