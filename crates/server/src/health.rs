//! Troubles that `/health` shows beside "ok": no client is kept from being served, but an administrator
//! should act.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::SystemTime;

use service::datetime::DateTime;

/// Troubles by their subject, written by the control thread and shown at the admin address.
#[derive(Debug, Default)]
pub(crate) struct Health {
    troubles: Mutex<BTreeMap<String, String>>,
}

impl Health {
    /// Notes a trouble with `subject`, in place of an older one.
    pub(crate) fn note(&self, subject: &str, trouble: impl Into<String>) {
        self.troubles().insert(subject.to_owned(), trouble.into());
    }

    /// Clears the trouble with `subject`.
    pub(crate) fn clear(&self, subject: &str) {
        self.troubles().remove(subject);
    }

    /// Returns a line for each trouble.
    pub(crate) fn lines(&self) -> String {
        let mut lines = String::new();
        for (subject, trouble) in &*self.troubles() {
            // One line each, whatever a path holds. A string takes every text.
            let _ = write!(lines, "{subject}: ");
            for char in trouble.chars() {
                match char {
                    '\'' | '"' => lines.push(char),
                    other => lines.extend(other.escape_debug()),
                }
            }
            lines.push('\n');
        }
        lines
    }

    fn troubles(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.troubles.lock().expect("nothing panics while it holds the troubles")
    }
}

/// Formats a time in UTC, to the second.
pub(crate) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let DateTime { year, month, day, hour, minute, second, .. } = DateTime::from_unix(seconds.cast_signed());
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_one_line_until_it_is_well_again() {
        let health = Health::default();
        health.note("reload", "refused\nonce");
        health.note("volume files", "gone");
        health.note("reload", "refused\ntwice");
        assert_eq!(health.lines(), "reload: refused\\ntwice\nvolume files: gone\n");
        health.note("reload", "by \"this\" machine's clock \\ \u{7f}");
        assert_eq!(health.lines(), "reload: by \"this\" machine's clock \\\\ \\u{7f}\nvolume files: gone\n");
        health.clear("reload");
        health.clear("volume files");
        assert_eq!(health.lines(), "");
    }
}
