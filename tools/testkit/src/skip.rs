//! Skips of tests that cannot run where they are: listed by `cargo xtask test`, and failures where nothing
//! may be skipped.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::panic::Location;
use std::path::Path;

/// Environment variable that names the file to which every skip adds a line. `cargo xtask test` sets it.
pub const LIST_VARIABLE: &str = "LINERATE_SKIPPED";

/// Reports that the calling test cannot run here, and why; the test returns then.
///
/// # Panics
/// When `CI` is `true`: there everything that a test needs is to be had.
#[track_caller]
pub fn skip(reason: impl Display) {
    let line = line(std::thread::current().name(), Location::caller(), &reason.to_string());
    if let Some(list) = std::env::var_os(LIST_VARIABLE) {
        record(Path::new(&list), &line);
    }
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "CI skips nothing: {line}");
    eprintln!("SKIPPED {line}");
}

/// Formats the line of a skip, with the test's name from its thread, as libtest names a thread after its
/// test.
fn line(test: Option<&str>, place: &Location<'_>, reason: &str) -> String {
    let reason = reason.replace('\n', " ");
    format!("{} ({}:{}): {reason}", test.unwrap_or("a test"), place.file(), place.line())
}

/// Appends a line to the list in one write, as tests run side by side in several processes.
fn record(list: &Path, line: &str) {
    let written = File::options().create(true).append(true).open(list);
    let written = written.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write to {}: {error}", list.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_skip_is_one_line_with_test_place_and_reason() {
        let list = std::env::temp_dir().join(format!("testkit-skips-{}", std::process::id()));
        let place = Location::caller();
        for reason in ["no root", "two\nlines"] {
            record(&list, &line(Some("suite::case"), place, reason));
        }
        let text = std::fs::read_to_string(&list).unwrap();
        std::fs::remove_file(&list).unwrap();
        let place = format!("({}:{})", place.file(), place.line());
        assert_eq!(text, format!("suite::case {place}: no root\nsuite::case {place}: two lines\n"));
    }
}
