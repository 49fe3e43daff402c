//! Status on the wire of a refusal of the tree.

use grants::Refused;
use smb_wire::Status;
use vfs::{Error, OpenError};

/// Returns the status of a failed command on what is open, or on a name that was looked up.
pub(crate) fn of(error: Error) -> Status {
    match error {
        Error::NotFound | Error::Hidden | Error::Unexpected => Status::OBJECT_NAME_NOT_FOUND,
        Error::AccessDenied
        | Error::Denied(_)
        | Error::InAnotherVolume
        | Error::Escapes
        | Error::SymlinkRefused
        | Error::NotServable
        | Error::Reserved => Status::ACCESS_DENIED,
        Error::NotADirectory => Status::NOT_A_DIRECTORY,
        Error::IsADirectory => Status::FILE_IS_A_DIRECTORY,
        Error::Name(_) | Error::NameTooLong | Error::VolumeName(_) => Status::OBJECT_NAME_INVALID,
        Error::TooManyOpen => Status::TOO_MANY_OPENED_FILES,
        Error::Overloaded | Error::TooLarge { .. } | Error::TooManyLinks | Error::Busy => {
            Status::INSUFFICIENT_RESOURCES
        }
        Error::Exists => Status::OBJECT_NAME_COLLISION,
        Error::NotEmpty => Status::DIRECTORY_NOT_EMPTY,
        Error::NoSpace | Error::Quota | Error::FileTooLarge => Status::DISK_FULL,
        Error::Closed(_) | Error::ReadOnly => Status::MEDIA_WRITE_PROTECTED,
        Error::CrossDevice => Status::NOT_SAME_DEVICE,
        Error::IntoItself => Status::INVALID_PARAMETER,
        Error::Stale => Status::FILE_DELETED,
        // A client tries again a moment later, as beside another's open.
        Error::Locked | Error::Unsettled => Status::SHARING_VIOLATION,
        Error::Changed | Error::Io(_) => Status::UNEXPECTED_IO_ERROR,
    }
}

/// Returns the status of a failure at a directory on the way to a name, which may have gone since it was found.
pub(crate) fn of_way(error: Error) -> Status {
    match error {
        //= MS-SMB2 3.3.5.9
        //# A path of which a component but the last is missing fails with STATUS_OBJECT_PATH_NOT_FOUND.
        Error::NotFound | Error::Hidden | Error::NotADirectory | Error::Stale => {
            Status::OBJECT_PATH_NOT_FOUND
        }
        error => of(error),
    }
}

/// Returns the status of a conflict with what others hold.
pub(crate) fn of_refused(refused: Refused) -> Status {
    match refused {
        Refused::Sharing => Status::SHARING_VIOLATION,
        Refused::DeletePending => Status::DELETE_PENDING,
        Refused::Locked => Status::LOCK_NOT_GRANTED,
        Refused::BadRange => Status::INVALID_LOCK_RANGE,
        Refused::NotLocked => Status::RANGE_NOT_LOCKED,
        Refused::Access => Status::ACCESS_DENIED,
        Refused::NotOpen => Status::FILE_CLOSED,
        Refused::TooMany => Status::INSUFFICIENT_RESOURCES,
    }
}

/// Returns the status of an open that failed.
pub(crate) fn of_open(error: OpenError) -> Status {
    match error {
        OpenError::Refused(refused) => of_refused(refused),
        //= MS-SMB2 3.3.5.9.8
        //# A lease key that is in use for another file fails the request with STATUS_INVALID_PARAMETER.
        OpenError::LeaseOfOtherFile(_) => Status::INVALID_PARAMETER,
        OpenError::Failed(error) => of(error),
    }
}
