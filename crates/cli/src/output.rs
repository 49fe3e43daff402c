//! Figures for people: units that fit, tables that line up.

use std::fmt::Arguments;
use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

/// Writes a line to standard output. A reader that has left wants no more, which is no failure: `linerate
/// doctor | head`, and a server whose starter has closed its output.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::write_line(format_args!($($text)*))
    };
}

pub use say;

/// What [`say!`] does. Other failures, such as a full disk, are told on standard error.
pub fn write_line(text: Arguments<'_>) {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("linerate: cannot write to standard output: {error}");
        }
        _ => {}
    }
}

/// A table without lines, whose listed columns are right-aligned.
pub fn table<const N: usize>(headers: [&str; N], right: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headers);
    for &index in right {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Bits per second as Gb/s, Mb/s or kb/s.
pub fn bit_rate(bits_per_second: f64) -> String {
    match bits_per_second {
        r if r >= 1e9 => format!("{:.2} Gb/s", r / 1e9),
        r if r >= 1e6 => format!("{:.1} Mb/s", r / 1e6),
        r => format!("{:.1} kb/s", r / 1e3),
    }
}

/// A count per second with a thousands suffix.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e6 => format!("{:.2}M", r / 1e6),
        r if r >= 1e4 => format!("{:.1}k", r / 1e3),
        r => format!("{r:.0}"),
    }
}

/// Bytes with a binary suffix.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_a_readable_width() {
        assert_eq!(bit_rate(12_345_000_000.0), "12.35 Gb/s");
        assert_eq!(bit_rate(950_000.0), "950.0 kb/s");
        assert_eq!(rate(130_460.0), "130.5k");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1 << 30), "1.0 GiB");
    }
}
