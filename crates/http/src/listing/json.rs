//! A listing for programs.

use std::fmt::Write;

use service::log::text::put_json_string;

use super::Order;
use super::row::Row;
use crate::path;

/// Writes what stands before the entries of
/// `{"path":"/a/","entries":[{"name","href","type","size","modified"},…]}`.
///
/// Names are shown with U+FFFD for what is not UTF-8; `href` holds the exact bytes, percent-encoded.
/// Without an order a member `"sorted":false` stands before `entries`.
/// `modified` is RFC 3339 in UTC, absent where there is no such time; `size` is absent for directories.
pub(super) fn head(path: &[u8], order: Option<Order>, text: &mut String) {
    text.push_str("{\"path\":");
    put_json_string(&String::from_utf8_lossy(&absolute(path)), text);
    text.push_str(if order.is_some() { ",\"entries\":[" } else { ",\"sorted\":false,\"entries\":[" });
}

/// Writes one entry.
pub(super) fn row(row: Row<'_>, is_first: bool, text: &mut String) {
    text.push_str(if is_first { "{\"name\":" } else { ",\n{\"name\":" });
    put_json_string(&String::from_utf8_lossy(row.name), text);
    let slash = if row.directory { "/" } else { "" };
    let _ = write!(text, ",\"href\":\"{}{slash}\",\"type\":", path::encode_segment(row.name));
    if row.directory {
        text.push_str("\"directory\"");
    } else {
        let _ = write!(text, "\"file\",\"size\":{}", row.size);
    }
    if let Some(at) = row.modified() {
        let _ = write!(
            text,
            ",\"modified\":\"{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z\"",
            at.year, at.month, at.day, at.hour, at.minute, at.second
        );
    }
    text.push('}');
}

/// Writes what stands behind the entries.
pub(super) fn end(text: &mut String) {
    text.push_str("]}\n");
}

fn absolute(relative: &[u8]) -> Vec<u8> {
    if relative.is_empty() { b"/".to_vec() } else { [b"/", relative, b"/"].concat() }
}
