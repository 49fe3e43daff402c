//! A listing for programs.

use std::fmt::Write;

use super::Listing;
use crate::date::Civil;
use crate::path;

/// Writes the listing as one JSON object:
/// `{"path":"/a/","entries":[{"name","href","type","size","modified"},…]}`.
///
/// Names are shown with U+FFFD for what is not UTF-8; `href` holds the exact bytes, percent-encoded.
/// `modified` is RFC 3339 in UTC; `size` is absent for directories.
pub fn json(listing: &Listing<'_>, out: &mut Vec<u8>) {
    let mut text = String::with_capacity(64 + listing.entries.len() * 128);
    text.push_str("{\"path\":");
    put_string(&String::from_utf8_lossy(&absolute(listing.path)), &mut text);
    text.push_str(",\"entries\":[");
    for (index, entry) in listing.entries.iter().enumerate() {
        text.push_str(if index == 0 { "{\"name\":" } else { ",\n{\"name\":" });
        put_string(&String::from_utf8_lossy(&entry.name), &mut text);
        let slash = if entry.directory { "/" } else { "" };
        let _ = write!(text, ",\"href\":\"{}{slash}\",\"type\":", path::encode_segment(&entry.name));
        if entry.directory {
            text.push_str("\"directory\"");
        } else {
            let _ = write!(text, "\"file\",\"size\":{}", entry.size);
        }
        let at = Civil::from_unix(entry.modified_s);
        let _ = write!(
            text,
            ",\"modified\":\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z\"}}",
            at.year, at.month, at.day, at.hour, at.minute, at.second
        );
    }
    text.push_str("]}\n");
    out.extend_from_slice(text.as_bytes());
}

fn absolute(relative: &[u8]) -> Vec<u8> {
    if relative.is_empty() { b"/".to_vec() } else { [b"/", relative, b"/"].concat() }
}

/// A JSON string (RFC 8259 7). `<` is escaped too, so that the text is harmless inside HTML.
pub(crate) fn put_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '\x7f' | '<' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", character as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
