//! Errors of names, files and listings, in terms every protocol can answer with.

use std::io;

use coherence::{Closed, LockQueueFull};
use identity::Rights;

use crate::name::NameError;
use crate::spec::VolumeNameError;

/// A look-up, read or listing failed. Nothing a client sends leads to anything else.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing has that name.
    #[error("no such file or directory")]
    NotFound,
    /// A name that begins with a dot, on a volume that does not serve them. Answer as for [`Error::NotFound`], or the
    /// refusal reveals that it exists.
    #[error("names that begin with a dot are not served")]
    Hidden,
    /// The process may not open it.
    #[error("permission denied: the server's user must be able to read the file and search its directories")]
    AccessDenied,
    /// The caller lacks these rights there.
    #[error("permission denied: it takes the rights {0:?}")]
    Denied(Rights),
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
        /// Number that the caller could use.
        max: usize,
    },
    /// The content changed while it was being served: what was sent is of no single version.
    #[error("the file changed while it was being read")]
    Changed,
    /// Something has the name already.
    #[error("the name is taken")]
    Exists,
    /// A directory that holds names.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The file system is full.
    #[error("no space left on the file system")]
    NoSpace,
    /// The quota of this user, group or volume is used up.
    #[error("the quota is used up")]
    Quota,
    /// The file would be longer than the file system takes, or than the process may make it.
    #[error("the file system takes no file this large")]
    FileTooLarge,
    /// The file has as many names as the file system gives one file.
    #[error("the file has as many names as it can have")]
    TooManyLinks,
    /// The volume could be written to, and cannot now.
    #[error("{0}")]
    Closed(Closed),
    /// The volume is not served for writing, or its file system is not mounted for it.
    #[error("the volume is read-only")]
    ReadOnly,
    /// The two ends lie in different volumes or file systems.
    #[error("the names lie in different volumes or file systems")]
    CrossDevice,
    /// The move would put a directory into itself or beneath itself.
    #[error("a directory cannot move into itself")]
    IntoItself,
    /// The name is one of the server's own.
    #[error("the name is one of the server's own")]
    Reserved,
    /// The name's target is not what the caller made its change depend on.
    #[error("the name leads to something else than was expected")]
    Unexpected,
    /// The file is gone, or can no longer be reached inside its volume.
    #[error("the file is gone, or no longer in the volume")]
    Stale,
    /// There is no room for what the server would have to remember, or too many wait already. Try again later.
    #[error("there is no room for one more that waits, or is remembered")]
    Busy,
    /// The object changed or moved again at each of many attempts. Try again later.
    #[error("others changed it again at each attempt")]
    Unsettled,
    /// The file has a share mode or a lock that its holder keeps.
    #[error("somebody has the file locked")]
    Locked,
    /// The file is in another volume too, by a hard link or a mount, and is in use there: a file is served in one
    /// volume.
    #[error("the file is in another volume too, and is in use there")]
    InAnotherVolume,
    /// Anything else the file system says.
    #[error("file system: {0}")]
    Io(#[source] io::Error),
}

impl Error {
    /// Converts the error of a refused write.
    pub(crate) fn of_write(error: io::Error) -> Self {
        match error.raw_os_error() {
            // The descriptor is there; it is its file that is not for writing.
            Some(libc::EBADF) => Self::ReadOnly,
            _ => error.into(),
        }
    }

    /// Converts the error of a refused change: one that has no name to look up does not lead out of the
    /// volume.
    pub(crate) fn of_change(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EXDEV) => Self::CrossDevice,
            Some(libc::EINVAL) => Self::IntoItself,
            _ => error.into(),
        }
    }
}

impl From<Closed> for Error {
    fn from(why: Closed) -> Self {
        match why {
            Closed::ReadOnly => Self::ReadOnly,
            Closed::Frozen | Closed::Moved | Closed::Offline => Self::Closed(why),
        }
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
            Some(libc::EEXIST) => Self::Exists,
            Some(libc::ENOTEMPTY) => Self::NotEmpty,
            Some(libc::ENOSPC) => Self::NoSpace,
            Some(libc::EDQUOT) => Self::Quota,
            Some(libc::EFBIG) => Self::FileTooLarge,
            Some(libc::EMLINK) => Self::TooManyLinks,
            Some(libc::EROFS) => Self::ReadOnly,
            Some(libc::ESTALE) => Self::Stale,
            Some(libc::EBUSY | libc::ETXTBSY) => Self::Busy,
            _ => Self::Io(error),
        }
    }
}

impl From<LockQueueFull> for Error {
    fn from(LockQueueFull: LockQueueFull) -> Self {
        Self::Busy
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
        assert!(matches!(of(libc::EIO), Error::Io(_)));
    }
}
