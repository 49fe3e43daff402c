//! Errors of moving files, and names on both sides.

use std::ffi::CString;
use std::io;

use smb_wire::{Status, spelling};
use transfer::{EndsAll, Progress};

use crate::error::Error;

/// Reason why files were not moved.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The server.
    #[error("{0}: {1}")]
    Server(String, Error),
    /// A local file.
    #[error("{0}: {1}")]
    Local(String, io::Error),
    /// Something has the name already.
    #[error("{0} is there already; --overwrite replaces it")]
    Taken(String),
    /// A directory where a file was needed.
    #[error("{0}: is a directory")]
    IsADirectory(String),
    /// A file where a directory was needed.
    #[error("{0}: not a directory")]
    NotADirectory(String),
    /// A name that the other side cannot have.
    #[error("{0:?} cannot be a name there")]
    Name(String),
    /// The file was changed by another client meanwhile.
    #[error("{0} changed meanwhile; try again")]
    Changed(String),
    /// The transfer was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl EndsAll for TransferError {
    /// Returns whether the whole transfer ends: it was interrupted, or the connection or the session is gone.
    fn ends_all(&self) -> bool {
        match self {
            Self::Interrupted => true,
            Self::Server(_, error @ Error::Status { .. }) => matches!(
                error.status(),
                Some(
                    Status::USER_SESSION_DELETED
                        | Status::NETWORK_NAME_DELETED
                        | Status::NETWORK_SESSION_EXPIRED
                )
            ),
            // A server that takes fewer bytes than it was sent has no room for them.
            Self::Server(_, error) => !matches!(error, Error::Unexpected(_) | Error::TooLarge),
            _ => false,
        }
    }
}

/// Fails once the word to stop was given.
pub(crate) fn check_stop(progress: &Progress) -> Result<(), TransferError> {
    if progress.is_stopped() { Err(TransferError::Interrupted) } else { Ok(()) }
}

/// Adds its name to the error of a local file.
pub(crate) fn of<T>(name: &CString, result: io::Result<T>) -> Result<T, TransferError> {
    result.map_err(|error| TransferError::Local(name.to_string_lossy().into_owned(), error))
}

/// Adds the name to an error of the server's.
pub(crate) fn remote_error<T>(name: &str, result: Result<T, Error>) -> Result<T, TransferError> {
    result.map_err(|error| TransferError::Server(name.to_owned(), error))
}

/// Returns the local name of one that a server tells: a plain one, whatever the server says. What is
/// [spelled](spelling) has the bytes that it stands for.
///
/// # Errors
/// [`TransferError::Name`].
pub fn local_name(name: &str) -> Result<CString, TransferError> {
    let bytes = spelling::to_stored(name).unwrap_or_else(|| name.as_bytes().to_vec());
    let told = if is_plain(&bytes) { CString::new(bytes).ok() } else { None };
    told.ok_or_else(|| TransferError::Name(name.to_owned()))
}

/// Returns the name that a server gets for a local one, [spelled](spelling) where it is no UTF-8, or holds what no name
/// in SMB may.
///
/// # Errors
/// [`TransferError::Name`] for what is no name.
pub fn remote_name(name: &[u8]) -> Result<String, TransferError> {
    match is_plain(name) {
        true => Ok(spelling::to_wire(name).into_owned()),
        false => Err(TransferError::Name(String::from_utf8_lossy(name).into_owned())),
    }
}

fn is_plain(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Returns a name of a directory of the share, from its root on.
pub fn joined(directory: &str, name: &str) -> String {
    let slash = if directory.is_empty() { "" } else { "\\" };
    format!("{directory}{slash}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_either_side_lead_nowhere_else() {
        assert_eq!(local_name("a b\\c").unwrap().as_bytes(), b"a b\\c");
        // A name that stands for one that leads elsewhere is no better.
        for wrong in ["", ".", "..", "a/b", "/", "../x", "a\0", "\u{f029}", ".\u{f029}", "\u{f029}\u{f029}"] {
            assert!(matches!(local_name(wrong), Err(TransferError::Name(_))), "{wrong:?}");
        }
        for wrong in [&b""[..], b".", b"..", b"a/b"] {
            assert!(matches!(remote_name(wrong), Err(TransferError::Name(_))), "{wrong:?}");
        }
        for (local, remote) in [
            ("größe".as_bytes(), "größe"),
            (b"a:b", "a\u{f022}b"),
            (b"a\\b", "a\u{f026}b"),
            (b"end.", "end\u{f029}"),
            (b"\x01", "\u{f001}"),
            (b"caf\xe9", "caf\u{efe9}"),
            (b"\xff", "\u{efff}"),
            ("\u{f022}".as_bytes(), "\u{efef}\u{ef80}\u{efa2}"),
        ] {
            assert_eq!(remote_name(local).unwrap(), remote);
            assert_eq!(local_name(remote).unwrap().as_bytes(), local);
        }
        // Another server's name that ours would not spell so stays what it is.
        assert_eq!(local_name("\u{efc3}\u{efa9}").unwrap().as_bytes(), "\u{efc3}\u{efa9}".as_bytes());
        assert_eq!((joined("", "a"), joined("a\\b", "c")), ("a".to_owned(), "a\\b\\c".to_owned()));
    }
}
