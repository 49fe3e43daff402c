//! A listing for people: one page without outside requests, usable by keyboard, phone and screen reader.
//!
//! Sorting is done by the server through plain forms, so the page works without its script; the script
//! adds the filter box alone.
//!
//! Rows come in groups, of which the browser lays out those in sight (`content-visibility`): a page of 10,000
//! appears as fast as one of 100, and searching it finds every row. For that they are not laid out as a table, and
//! say by `role` that they are one.

use std::fmt::Write;
use std::sync::LazyLock;

use aws_lc_rs::digest;

use super::row::{ListingTotals, Row};
use super::{Key, Order};
use crate::path;

/// Writes what stands before the rows. Without an order they cannot be sorted.
pub(super) fn head(path: &[u8], order: Option<Order>, page: &mut String) {
    let title = if path.is_empty() { b"/".to_vec() } else { [b"/", path, b"/"].concat() };
    page.push_str(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>",
    );
    escape(&title, page);
    page.push_str("</title>\n<style>");
    page.push_str(STYLE);
    page.push_str(ICONS);
    page.push_str("</style>\n<header>\n");
    breadcrumb(path, page);
    page.push_str(FILTER_BOX);
    page.push_str("</header>\n<main>\n");
    table_head(path, order, page);
}

/// Writes one row, before which there are `index` others.
pub(super) fn row(entry: Row<'_>, index: usize, page: &mut String) {
    if index > 0 && index.is_multiple_of(GROUP_ROWS) {
        page.push_str("</tbody>\n<tbody role=\"rowgroup\">\n");
    }
    let href = path::encode_segment(entry.name);
    let (icon, slash) = if entry.directory { ("folder", "/") } else { (icon(entry.name), "") };
    // `./` keeps a name with a colon from reading as a scheme (RFC 3986 4.2).
    let dot = if entry.name.contains(&b':') { "./" } else { "" };
    // Programs look for `<a href="` and a name that is the link.
    let _ = write!(
        page,
        "<tr class=\"entry\" role=\"row\"><td class=\"name\" role=\"cell\"><a href=\"{dot}{href}{slash}\" class=\"{icon}\">"
    );
    escape(entry.name, page);
    let _ = write!(page, "{slash}</a></td><td class=\"size\" role=\"cell\"");
    if entry.directory {
        page.push_str(">–");
    } else {
        let _ = write!(page, " title=\"{} byte{}\">", entry.size, if entry.size == 1 { "" } else { "s" });
        size(entry.size, page);
    }
    page.push_str("</td><td class=\"date\" role=\"cell\">");
    match entry.modified() {
        None => page.push('–'),
        Some(at) => {
            let _ = write!(
                page,
                "<time datetime=\"{0:04}-{1:02}-{2:02}T{3:02}:{4:02}:{5:02}Z\">\
                 {0:04}-{1:02}-{2:02} {3:02}:{4:02}</time>",
                at.year, at.month, at.day, at.hour, at.minute, at.second
            );
        }
    }
    page.push_str("</td></tr>\n");
}

/// Writes what stands behind the rows.
pub(super) fn end(totals: ListingTotals, page: &mut String) {
    page.push_str("</tbody>\n</table>\n");
    summary(totals, page);
    foot(page);
}

/// Writes the end of a part of a directory that is too large to be sorted. `next` is where the next part
/// begins.
pub(super) fn end_of_part(totals: ListingTotals, next: Option<u64>, page: &mut String) {
    page.push_str("</tbody>\n</table>\n");
    summary(totals, page);
    page.push_str("<p>This directory is too large to be sorted: its entries are shown in the order of the file system.</p>\n");
    if let Some(position) = next {
        let _ = writeln!(page, "<p><a href=\"?after={position}\" rel=\"next\">More entries</a></p>");
    }
    foot(page);
}

fn foot(page: &mut String) {
    page.push_str("</main>\n<script>");
    page.push_str(SCRIPT);
    page.push_str("</script>\n</html>\n");
}

/// Returns the Content-Security-Policy of the page: its own style with the icons in it, its own script by hash, nothing
/// from anywhere.
pub fn policy() -> &'static str {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let hash = digest::digest(&digest::SHA256, SCRIPT.as_bytes());
        let hash = base64(hash.as_ref());
        format!(
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hash}'; \
             base-uri 'none'; form-action 'self'"
        )
    });
    &POLICY
}

/// Writes the path of the directory. Every directory on the way is a link, so that one click leads up any number of
/// levels.
fn breadcrumb(path: &[u8], page: &mut String) {
    page.push_str("<nav aria-label=\"Breadcrumb\"><ol>");
    let segments: Vec<_> = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()).collect();
    let mut href = String::from("/");
    for depth in 0..=segments.len() {
        if depth > 0 {
            let _ = write!(href, "{}/", path::encode_segment(segments[depth - 1]));
        }
        let current = if depth == segments.len() { " aria-current=\"page\"" } else { "" };
        let _ = write!(page, "<li><a href=\"{href}\"{current}>");
        match depth.checked_sub(1) {
            None => page.push_str(HOME),
            Some(index) => escape(segments[index], page),
        }
        page.push_str("</a></li>");
    }
    page.push_str("</ol></nav>\n");
}

fn table_head(path: &[u8], order: Option<Order>, page: &mut String) {
    page.push_str("<table role=\"table\">\n<thead role=\"rowgroup\"><tr role=\"row\">");
    for (key, label, class) in
        [(Key::Name, "Name", "name"), (Key::Size, "Size", "size"), (Key::Modified, "Modified", "date")]
    {
        column_head(order, key, label, class, page);
    }
    page.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
    if !path.is_empty() {
        page.push_str(PARENT_ROW);
    }
}

/// Writes the head cell of a column. It asks for the order that clicking it should give, and says the present one to
/// readers. It is a form and no link, as programs that mirror follow links.
fn column_head(order: Option<Order>, key: Key, label: &str, class: &str, page: &mut String) {
    let Some(order) = order else {
        let _ = write!(page, "<th scope=\"col\" role=\"columnheader\" class=\"{class}\">{label}</th>");
        return;
    };
    let active = order.key == key;
    let next = if active && !order.descending { DESCENDING } else { "" };
    let sorted = match (active, order.descending) {
        (false, _) => "",
        (true, false) => " aria-sort=\"ascending\"",
        (true, true) => " aria-sort=\"descending\"",
    };
    let key = key.name();
    let _ = write!(
        page,
        "<th scope=\"col\" role=\"columnheader\" class=\"{class}\"{sorted}><form>{next}<button name=\"sort\" value=\"{key}\">{label}</button></form></th>"
    );
}

fn summary(totals: ListingTotals, page: &mut String) {
    let ListingTotals { directories, files, bytes } = totals;
    page.push_str("<p class=\"summary\" role=\"status\">");
    if totals.entries() == 0 {
        page.push_str("This directory is empty.");
    } else {
        let _ = write!(
            page,
            "{directories} {}, {files} {}, ",
            if directories == 1 { "directory" } else { "directories" },
            if files == 1 { "file" } else { "files" }
        );
        size(bytes, page);
        page.push_str(". Times are UTC.");
    }
    page.push_str("</p>\n");
}

/// Writes a size in binary units with three digits: `9.8 KiB`, `120 MiB`.
fn size(bytes: u64, page: &mut String) {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        let _ = write!(page, "{bytes} B");
        return;
    }
    let mut unit = 0;
    let mut tenths = (u128::from(bytes) * 10).div_ceil(1024);
    while tenths >= 10_240 {
        tenths = tenths.div_ceil(1024);
        unit += 1;
    }
    let _ = match tenths {
        0..1000 => write!(page, "{}.{} {}", tenths / 10, tenths % 10, UNITS[unit]),
        _ => write!(page, "{} {}", tenths / 10, UNITS[unit]),
    };
}

fn icon(name: &[u8]) -> &'static str {
    let media_type = crate::mime::of_name(name);
    match media_type.split('/').next().unwrap_or_default() {
        "image" => "image",
        "audio" | "video" => "media",
        "text" => "text",
        _ if ["zip", "gzip", "tar", "zstd", "x-xz", "x-7z", "x-bzip", "x-rar", "x-brotli"]
            .iter()
            .any(|archive| media_type.contains(archive)) =>
        {
            "archive"
        }
        _ if media_type.contains("json") || media_type.contains("xml") || media_type.contains("toml") => {
            "text"
        }
        _ => "file",
    }
}

/// Writes text content or the value of an attribute. Control characters are shown as U+FFFD: HTML has no way to write
/// most of them, and a line break or a direction override in a file name is there to mislead.
fn escape(text: &[u8], page: &mut String) {
    for character in String::from_utf8_lossy(text).chars() {
        match character {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                page.push('\u{fffd}')
            }
            other if other.is_control() => page.push('\u{fffd}'),
            other => page.push(other),
        }
    }
}

/// Encodes in base64 (RFC 4648 4), for the one hash in the policy.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word =
            group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for position in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * position)) as usize & 63];
            text.push(if position <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

const STYLE: &str = include_str!("listing.css");
const SCRIPT: &str = include_str!("listing.js");
const ICONS: &str = include_str!("icons.css");
const HOME: &str = "<svg aria-hidden=\"true\" viewBox=\"0 0 24 24\"><path d=\"M3 11l9-8 9 8M5 10v10h5v-6h4v6h5V10\"/></svg>root";
const DESCENDING: &str = "<input type=\"hidden\" name=\"order\" value=\"desc\">";
const FILTER_BOX: &str = "<input id=\"filter\" type=\"search\" hidden aria-label=\"Filter by name\" \
    placeholder=\"Filter (press /)\" autocomplete=\"off\" spellcheck=\"false\">\n";
const PARENT_ROW: &str = "<tr role=\"row\"><td class=\"name\" role=\"cell\"><a href=\"../\" class=\"up\">Parent directory</a>\
    </td><td class=\"size\" role=\"cell\"></td><td class=\"date\" role=\"cell\"></td></tr>\n";
/// Rows that are laid out together: about what a screen shows twice. `listing.css` holds their height.
const GROUP_ROWS: usize = 64;
