//! Why a name, file or listing could not be had, in terms every protocol can answer with.

use std::io;

use crate::name::NameError;
use crate::spec::VolumeNameError;

/// A look-up, read or listing failed. Nothing a client sends leads to anything else.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing has that name.
    #[error("no such file or directory")]
    NotFound,
    /// A name that begins with a dot, on a volume that does not serve them. Answer as for
    /// [`Error::NotFound`], or the refusal tells that it exists.
    #[error("names that begin with a dot are not served")]
    Hidden,
    /// The process may not open it.
    #[error("permission denied: the server's user must be able to read the file and search its directories")]
    AccessDenied,
    /// A directory was needed, or a file stands where the path goes on.
    #[error("not a directory")]
    NotADirectory,
    /// A file was needed.
    #[error("is a directory")]
    IsADirectory,
    /// A symbolic link leads out of the volume.
    #[error("a symbolic link leads out of the volume")]
    Escapes,
    /// A symbolic link on a volume that follows none, or links in a circle.
    #[error("symbolic links are not followed here, or go in a circle")]
    SymlinkRefused,
    /// A device, pipe or socket.
    #[error("neither a file nor a directory")]
    NotServable,
    /// The bytes are no name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Longer than the file system takes.
    #[error("the file system takes no name this long")]
    NameTooLong,
    /// A volume's name in the configuration.
    #[error(transparent)]
    VolumeName(#[from] VolumeNameError),
    /// The process or the system is out of descriptors. Cached files have been let go; try again later.
    #[error("too many open files: raise the limit (RLIMIT_NOFILE) or lower `open_files_max`")]
    TooManyOpen,
    /// The helper threads' queue is full. Try again later.
    #[error("too many file system calls are waiting")]
    Overloaded,
    /// A directory has more entries than the caller can use.
    #[error("the directory has more than {max} entries")]
    TooLarge {
        /// What the caller could use.
        max: usize,
    },
    /// The content changed while it was being served: what was sent is of no single version.
    #[error("the file changed while it was being read")]
    Changed,
    /// Anything else the file system says.
    #[error("file system: {0}")]
    Io(#[source] io::Error),
}

impl Error {
    /// Whether the same call may well succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::TooManyOpen | Self::Overloaded | Self::Changed)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOENT) => Self::NotFound,
            Some(libc::EACCES | libc::EPERM) => Self::AccessDenied,
            Some(libc::ENOTDIR) => Self::NotADirectory,
            Some(libc::EISDIR) => Self::IsADirectory,
            Some(libc::EXDEV) => Self::Escapes,
            Some(libc::ELOOP) => Self::SymlinkRefused,
            Some(libc::ENXIO | libc::ENODEV) => Self::NotServable,
            Some(libc::ENAMETOOLONG) => Self::NameTooLong,
            Some(libc::EMFILE | libc::ENFILE) => Self::TooManyOpen,
            Some(libc::EAGAIN) => Self::Overloaded,
            _ => Self::Io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_descriptors_is_told_apart_from_disk_errors() {
        let of = |errno| Error::from(io::Error::from_raw_os_error(errno));
        assert!(matches!(of(libc::EMFILE), Error::TooManyOpen));
        assert!(matches!(of(libc::ENFILE), Error::TooManyOpen));
        assert!(of(libc::EMFILE).is_transient());
        assert!(matches!(of(libc::EIO), Error::Io(_)));
        assert!(!of(libc::EIO).is_transient());
    }
}
