//! Abort codes of calls that the tree refuses: the one place where errors of `vfs` become abort codes.

use afs_wire::code::{
    EACCES, EAGAIN, EEXIST, EFBIG, EINVAL, EIO, EISDIR, EMLINK, ENAMETOOLONG, ENOENT, ENOTDIR, ENOTEMPTY,
    EROFS, EXDEV, VBUSY, VDISKFULL, VMOVED, VNOVNODE, VOFFLINE, VOVERQUOTA,
};
use vfs::{Closed, Error, NameError};

/// Returns the abort code of an error. A client that may not see a name gets the same code whether it exists or not,
/// since `vfs` tells no more.
pub fn of(error: &Error) -> i32 {
    match error {
        Error::NotFound | Error::Hidden => ENOENT,
        Error::AccessDenied | Error::Denied(_) | Error::InAnotherVolume => EACCES,
        Error::NotADirectory => ENOTDIR,
        Error::IsADirectory => EISDIR,
        Error::Stale => VNOVNODE,
        // A link cannot be followed by clients either; what is neither file nor directory has no number to be asked by.
        Error::Escapes | Error::SymlinkRefused | Error::NotServable => EACCES,
        Error::Name(NameError::NameTooLong | NameError::PathTooLong) | Error::NameTooLong => ENAMETOOLONG,
        Error::Name(_) | Error::VolumeName(_) | Error::IntoItself => EINVAL,
        Error::Reserved => EACCES,
        // Clients wait and ask again.
        Error::TooManyOpen | Error::Overloaded | Error::Busy | Error::Unsettled => VBUSY,
        Error::TooLarge { .. } | Error::FileTooLarge => EFBIG,
        Error::Changed | Error::Unexpected => EAGAIN,
        Error::Exists => EEXIST,
        Error::NotEmpty => ENOTEMPTY,
        Error::NoSpace => VDISKFULL,
        Error::Quota => VOVERQUOTA,
        Error::TooManyLinks => EMLINK,
        Error::Closed(Closed::Frozen) => VBUSY,
        Error::Closed(Closed::Moved) => VMOVED,
        Error::Closed(Closed::Offline) => VOFFLINE,
        Error::Closed(Closed::ReadOnly) | Error::ReadOnly => EROFS,
        Error::CrossDevice => EXDEV,
        // Not VBUSY, on which clients wait for as long as it takes.
        Error::Locked => EACCES,
        Error::Io(_) => EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_and_the_quota_are_told_apart() {
        assert_eq!(of(&Error::NoSpace), VDISKFULL);
        assert_eq!(of(&Error::Quota), VOVERQUOTA);
        assert_eq!(of(&Error::Stale), VNOVNODE);
        assert_eq!(of(&Error::Closed(Closed::Moved)), VMOVED);
    }
}
