//! Errors of the index, with their remedies.

use std::io;
use std::path::PathBuf;

/// Reason why the index did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server has the index open.
    #[error("the index is in use by another process: stop that server first")]
    InUse,
    /// The index has the format of a later Linerate.
    #[error("the index has format {found}, this program knows {known}: use the Linerate that wrote it")]
    Format {
        /// Format of the file.
        found: u32,
        /// Format that this program writes.
        known: u32,
    },
    /// The file has the format of a later redb.
    #[error(
        "the index is a file of redb's format {found}, this program reads {known}: use the Linerate that wrote it"
    )]
    FileFormat {
        /// Format number in the file's header.
        found: u8,
        /// Format number that this program reads and writes.
        known: u8,
    },
    /// The file cannot be understood.
    #[error("the index is damaged: {0}")]
    Damaged(String),
    /// The index could not be set aside.
    #[error("cannot put the index aside as {}: {error}", path.display())]
    Aside {
        /// Path that the index was to get.
        path: PathBuf,
        /// Error of the file system.
        error: io::Error,
    },
    /// The index was to be replaced, but is not damaged.
    #[error("the index can be opened: it is not replaced")]
    Sound,
    /// Reading or writing failed. The data to write is kept, and tried again. What was to be written is kept,
    /// and tried again.
    #[error("the index cannot be read or written: {0}")]
    Storage(String),
    /// The volume does not exist.
    #[error("the index knows no volume {0}")]
    NoVolume(String),
    /// A volume with this name or id exists.
    #[error("there is a volume {0} already")]
    VolumeExists(String),
    /// The directory has another volume's mark, or none though the volume has been served.
    #[error(
        "its directory is not the one that volume {volume} was served from before: {why}; mount the right one, or have the volume begin \
         with this one by `linerate volume remove {volume}`"
    )]
    OtherTree {
        /// Name of the volume.
        volume: String,
        /// Difference between the directory and the volume.
        why: &'static str,
    },
    /// The root's mark has no known form. It is not overwritten.
    #[error(
        "the extended attribute on its directory, by which volume {0} is known again, is damaged or of a later format; it is left as it is"
    )]
    BadMark(String),
    /// The index has as many uncommitted records as it may: flush, then try again.
    #[error("the index has too much to write")]
    Full,
    /// An argument exceeds its limit.
    #[error("{what} takes at most {max} bytes")]
    TooLong {
        /// Description of the argument.
        what: &'static str,
        /// Limit of the argument in bytes or elements.
        max: usize,
    },
}

impl From<redb::DatabaseError> for Error {
    fn from(error: redb::DatabaseError) -> Self {
        match error {
            redb::DatabaseError::DatabaseAlreadyOpen | redb::DatabaseError::LockProtocolMismatch => {
                Self::InUse
            }
            redb::DatabaseError::Storage(error) => error.into(),
            redb::DatabaseError::UpgradeRequired(found) => Self::FileFormat { found, known: FILE_FORMAT },
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<redb::StorageError> for Error {
    fn from(error: redb::StorageError) -> Self {
        match error {
            redb::StorageError::Corrupted(what) => match later_file_format(&what) {
                Some(found) => Self::FileFormat { found, known: FILE_FORMAT },
                None => Self::Damaged(what),
            },
            // How redb says that a file is none of its own.
            redb::StorageError::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                Self::Damaged(error.to_string())
            }
            other => Self::Storage(other.to_string()),
        }
    }
}

impl From<redb::TableError> for Error {
    fn from(error: redb::TableError) -> Self {
        match error {
            redb::TableError::Storage(error) => error.into(),
            other => Self::Damaged(other.to_string()),
        }
    }
}

impl From<redb::TransactionError> for Error {
    fn from(error: redb::TransactionError) -> Self {
        match error {
            redb::TransactionError::Storage(error) => error.into(),
            other => Self::Storage(other.to_string()),
        }
    }
}

impl From<redb::CommitError> for Error {
    fn from(error: redb::CommitError) -> Self {
        match error {
            redb::CommitError::Storage(error) => error.into(),
            other => Self::Storage(other.to_string()),
        }
    }
}

/// Returns the format of a file that redb rejects as later, which redb tells only in its message.
fn later_file_format(what: &str) -> Option<u8> {
    what.strip_prefix(&format!("Expected file format version <= {FILE_FORMAT}, found "))?.parse().ok()
}

/// Format of redb's files that this program reads and writes.
const FILE_FORMAT: u8 = 3;
