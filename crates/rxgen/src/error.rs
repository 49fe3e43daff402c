//! Errors of the generator, each with the location in the interface file.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// `core::result::Result` with this crate's [`Error`].
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Location in an interface file. Prints as `file:line:column`.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    /// Name of the file, as the caller or the `#include` gave it.
    pub file: Arc<str>,
    /// Line of the file, from 1.
    pub line: u32,
    /// Column of the line in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reason why an interface could not be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text breaks the grammar.
    #[error("{at}: expected {expected}, found {found}")]
    Syntax {
        /// Location of the token `found`.
        at: Location,
        /// Token that the grammar expects there.
        expected: String,
        /// Token that stands there.
        found: String,
    },
    /// The text is well-formed, but has no meaning or none that XDR can encode.
    #[error("{at}: {message}")]
    Meaning {
        /// Location of the offending name or construct.
        at: Location,
        /// Description of the error.
        message: String,
    },
    /// A file named on the command line or by an `#include` cannot be read.
    #[error("{}cannot read {path}: {source}", .included_at.as_ref().map(|at| format!("{at}: ")).unwrap_or_default())]
    Read {
        /// Location of the `#include`, if one named the file.
        included_at: Option<Location>,
        /// Name of the file.
        path: String,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// The generated file cannot be written.
    #[error("cannot write {path}: {source}", path = .path.display())]
    Write {
        /// Path of the generated file.
        path: PathBuf,
        /// Error of the file system.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn meaning(at: &Location, message: impl Into<String>) -> Self {
        Self::Meaning { at: at.clone(), message: message.into() }
    }

    /// Returns the location in the interface that the error is about, if there is one.
    pub const fn location(&self) -> Option<&Location> {
        match self {
            Self::Syntax { at, .. } | Self::Meaning { at, .. } => Some(at),
            Self::Read { included_at, .. } => included_at.as_ref(),
            Self::Write { .. } => None,
        }
    }
}
