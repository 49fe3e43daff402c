//! Figures for people: units that fit, tables that line up.

use std::fmt::{self, Arguments, Write as _};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};
use transfer::is_deceptive;

/// Writes a line to standard output. A reader that has left wants no more, which is no failure: `linerate
/// doctor | head`, and a server whose starter has closed its output.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::write_line(format_args!($($text)*))
    };
}

pub use say;

/// Writes a line to standard error, which may be closed or full: nothing can be reported then.
#[macro_export]
macro_rules! complain {
    ($($text:tt)*) => {
        $crate::output::write_complaint(format_args!($($text)*))
    };
}

pub use complain;

/// Writes a line for [`say!`]. Other failures, such as a full disk, are reported on standard error, once, and by
/// [`finish`].
pub fn write_line(text: Arguments<'_>) {
    keep(writeln!(io::stdout(), "{}", Harmless(text)));
}

/// Writes these bytes to standard output, as [`say!`] writes a line.
pub fn write_bytes(bytes: &[u8]) {
    keep(io::stdout().write_all(bytes));
}

/// Writes a line for [`complain!`].
pub fn write_complaint(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", Harmless(text));
}

/// Writes these bytes to standard error, styles and all.
pub fn write_error_bytes(bytes: &[u8]) {
    let _ = io::stderr().write_all(bytes);
}

/// Returns the text as [`complain!`] writes it.
pub fn harmless(text: &str) -> String {
    Harmless(format_args!("{text}")).to_string()
}

/// Text in which nothing acts on a terminal but the ends of lines: names of others are in it. It is escaped as JSON has it, so that JSON
/// stays what it is.
struct Harmless<'a>(Arguments<'a>);

impl fmt::Display for Harmless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let acts = |char| is_deceptive(char) && !matches!(char, '\n' | '\t');
        let mut rest = text;
        while let Some((at, char)) = rest.char_indices().find(|(_, char)| acts(*char)) {
            self.0.write_str(&rest[..at])?;
            write_json_escape(self.0, char)?;
            rest = &rest[at + char.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Writes out what is left. Whether all that was said has come to where it was to go, or to a reader that wants no more.
pub fn finish() -> bool {
    keep(io::stdout().flush());
    !LOST.load(Ordering::Relaxed)
}

fn keep(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
        && !LOST.swap(true, Ordering::Relaxed)
    {
        complain!("linerate: cannot write to standard output: {error}");
    }
}

/// Something that was said is lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// Columns of the terminal that standard output is, if it is one.
pub fn columns() -> Option<u16> {
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(columns_wished().unwrap_or(columns))
}

/// Returns the columns that `COLUMNS` asks for (POSIX, Environment Variables).
pub fn columns_wished() -> Option<u16> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0)
}

/// Creates a table without lines, whose listed columns are right-aligned.
pub fn table<const N: usize>(headers: [&str; N], right: &[usize]) -> Table {
    table_within(columns(), headers, right)
}

/// Formats a table ([`table`]) with lines of at most so many columns: longer cells go on below.
pub fn table_within<const N: usize>(columns: Option<u16>, headers: [&str; N], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headers);
    if let Some(columns) = columns {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    }
    for &index in right {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Has the column of names, once all rows are there, keep room for them, two fifths of a line if they need it: figures beside them
/// go on below before names do.
pub fn keep_names(table: &mut Table, index: usize) {
    let Some(columns) = table.width() else { return };
    let longest = table.column_max_content_widths().get(index).copied().unwrap_or_default();
    if let Some(column) = table.column_mut(index) {
        // What a column is wide includes what stands on its sides.
        let least = longest.min(columns / 5 * 2) + PADDING;
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
    }
}

/// Returns a text in lines of at most so many columns, of which those after the first begin with so many spaces. A word
/// that is longer has a line of its own.
pub fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let (mut out, mut used) = (String::new(), 0);
    for (at, word) in text.split(' ').enumerate() {
        let len = word.chars().count();
        if at > 0 && used + 1 + len > columns {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if at > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += len;
    }
    out
}

/// Returns text of others for a terminal. What would move its cursor, change the order of characters, or not be seen,
/// is escaped; what is no UTF-8 is a replacement character.
pub fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    if !text.contains(is_deceptive) {
        return text.into_owned();
    }
    let escaped =
        |char: char| if is_deceptive(char) { char.escape_default().to_string() } else { char.into() };
    text.chars().map(escaped).collect()
}

/// Returns a line of JSON in which no character acts on a terminal: those are escaped as JSON has it, which reads the
/// same.
pub fn json_line(value: &impl std::fmt::Display) -> String {
    let mut line = String::new();
    for char in value.to_string().chars() {
        match char {
            // They are within strings, as the syntax has none of them.
            char if is_deceptive(char) => {
                write_json_escape(&mut line, char).expect("a string takes every text")
            }
            char => line.push(char),
        }
    }
    line
}

/// Writes a character as JSON escapes it: in UTF-16 (RFC 8259 7).
fn write_json_escape(out: &mut impl fmt::Write, char: char) -> fmt::Result {
    char.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
}

/// Formats bits per second as Gb/s, Mb/s or kb/s.
pub fn bit_rate(bits_per_second: f64) -> String {
    match bits_per_second {
        r if r >= 1e9 => format!("{:.2} Gb/s", r / 1e9),
        r if r >= 1e6 => format!("{:.1} Mb/s", r / 1e6),
        r => format!("{:.1} kb/s", r / 1e3),
    }
}

/// Formats a count per second with a thousands suffix.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{:.2}M", r / 1e6),
        r if r >= 1e4 => format!("{:.1}k", r / 1e3),
        r => format!("{r:.0}"),
    }
}

/// Formats bytes with a binary suffix.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// Returns a number with its noun, which is `one` or `many`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A space on either side of a cell.
const PADDING: u16 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_escaped_in_text_and_in_json() {
        for (text, shown) in [
            ("a\u{1b}[31mb\n", "a\\u{1b}[31mb\\n"),
            ("\u{9b}2J", "\\u{9b}2J"),
            ("\u{202e}txt.exe", "\\u{202e}txt.exe"),
            ("\u{2066}a\u{2069}\u{200f}", "\\u{2066}a\\u{2069}\\u{200f}"),
            ("a\u{2028}b", "a\\u{2028}b"),
            ("a\u{200b}b\u{e0041}", "a\\u{200b}b\\u{e0041}"),
            ("Ökonomie – שלום", "Ökonomie – שלום"),
        ] {
            assert_eq!(printable(text.as_bytes()), shown);
            let line = json_line(&format!("{{\"name\":\"{text}\"}}"));
            assert!(!line.contains(is_deceptive), "{line}");
        }
        assert_eq!(json_line(&"\"\u{9b}\u{202e}\""), "\"\\u009b\\u202e\"");
        assert_eq!(json_line(&"\"\u{200b}\u{e0041}\""), "\"\\u200b\\udb40\\udc41\"");
    }

    #[test]
    fn nothing_that_is_written_acts_on_a_terminal_and_json_stays_json() {
        let name = "a\u{1b}[31m\u{9b}2J\r\u{202e}\u{7f}b\u{2066}";
        let line = Harmless(format_args!("{}\t{name}\n", "x")).to_string();
        assert_eq!(line, "x\ta\\u001b[31m\\u009b2J\\u000d\\u202e\\u007fb\\u2066\n");
        // C1 and directions stand in JSON as they are.
        let json = Harmless(format_args!("{{\"name\":\"\u{9b}\u{202e}\"}}")).to_string();
        assert_eq!(json, "{\"name\":\"\\u009b\\u202e\"}");
        let json = Harmless(format_args!("{{\"name\":\"\u{200b}\u{e0041}\"}}")).to_string();
        assert_eq!(json, "{\"name\":\"\\u200b\\udb40\\udc41\"}");
    }

    #[test]
    fn names_keep_their_share_of_a_narrow_line() {
        let names = ["a-name-of-thirty-characters-abc", "b"];
        for columns in [40, 60, 80, 132] {
            let headers = ["mode", "links", "owner", "size", "modified", "version", "name"];
            let mut table = table_within(Some(columns), headers, &[1, 2, 3, 5]);
            for name in names {
                let version = u64::MAX / 10;
                let figures = ["-rw-r--r--", "1", "1000", "123456789012", "2026-01-01 00:00:00"];
                let row =
                    figures.map(str::to_owned).into_iter().chain([version.to_string(), name.to_owned()]);
                table.add_row(row);
            }
            keep_names(&mut table, 6);
            let shown = table.to_string();
            assert!(shown.lines().all(|line| line.chars().count() <= columns.into()), "{columns}:\n{shown}");
            let share = (columns as usize / 5 * 2).min(names[0].len());
            assert!(shown.contains(&names[0][..share]), "{columns}:\n{shown}");
            // Short ones keep no room that they do not need.
            let mut short = table_within(Some(60), ["version", "name"], &[0]);
            short.add_row([&"1".repeat(50), "b"]);
            keep_names(&mut short, 1);
            assert!(short.to_string().contains(&"1".repeat(50)), "{short}");
        }
    }

    #[test]
    fn text_goes_on_below_before_a_line_is_too_long() {
        let text = "one two three /a/word/that/is/longer/than/a/line four";
        assert_eq!(wrapped(text, 12, 2), "one two\n  three\n  /a/word/that/is/longer/than/a/line\n  four");
        assert_eq!(wrapped(text, 200, 2), text);
        assert_eq!(wrapped("", 10, 2), "");
    }

    #[test]
    fn figures_keep_a_readable_width() {
        assert_eq!(bit_rate(12_345_000_000.0), "12.35 Gb/s");
        assert_eq!(bit_rate(950_000.0), "950.0 kb/s");
        assert_eq!(rate(130_460.0), "130.5k");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1 << 30), "1.0 GiB");
        let entries = [0, 1, 2].map(|count| counted(count, "entry", "entries"));
        assert_eq!(entries, ["0 entries", "1 entry", "2 entries"]);
    }
}
