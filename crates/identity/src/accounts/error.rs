//! Reasons why accounts are refused.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::name::Id;

/// Reason why accounts could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The text breaks the format: the line's number and text.
    #[error("{0}")]
    Syntax(String),
    /// A value has the right form, but is not allowed.
    #[error("{key}: {problem}")]
    Invalid {
        /// Key of the value, such as `group.staff.members`.
        key: String,
        /// Description of the problem.
        problem: String,
    },
    /// The file has a version that only a later program can read.
    #[error("it is of version {0}, this program knows version 1")]
    Version(i64),
    /// Other users than the server's can read or change the file.
    #[error("{path}: {problem}")]
    Exposed {
        /// Path of the file.
        path: PathBuf,
        /// Users that can, and the remedy.
        problem: String,
    },
    /// A file has one of the errors above.
    #[error("{}: {}{problem}", path.display(), told(*line))]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Line of the value, where `problem` itself names none.
        line: Option<usize>,
        /// Error in the file.
        problem: Box<AccountsError>,
    },
    /// No user or group has this name.
    #[error("{0}")]
    NotFound(String),
    /// A user or group has this name already.
    #[error("{0}")]
    Exists(String),
    /// A system call failed.
    #[error("{what}: {cause}")]
    Io {
        /// Operation that failed, with the file.
        what: String,
        /// Error of the kernel.
        #[source]
        cause: std::io::Error,
    },
}

impl AccountsError {
    pub(crate) fn invalid(key: impl Into<String>, problem: impl fmt::Display) -> Self {
        Self::Invalid { key: key.into(), problem: problem.to_string() }
    }

    /// Makes the error for a user or group where the last number has been given.
    pub(crate) fn no_number(key: &str, kind: &str, id: Id) -> Self {
        let remedy = if kind == "user" { "; give one that is free by `--id`" } else { "" };
        Self::invalid(
            key,
            format!(
                "no number is left for a {kind}: {id} is the last that there is, and numbers are not given twice{remedy}"
            ),
        )
    }

    /// Returns the error of this `text` in a file, with the line of its key.
    pub(super) fn in_file(self, path: &Path, text: &str) -> Self {
        let line = match &self {
            Self::Invalid { key, .. } => toml_file::line_of(text, key),
            _ => None,
        };
        Self::File { path: path.to_owned(), line, problem: Box::new(self) }
    }
}

fn told(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: "))
}
