//! The NT status codes that are used here (MS-ERREF 2.3.1), by the names they have there.

use std::fmt;

/// Status of a response (NTSTATUS).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($name:ident = $value:literal,)*) => {
        impl Status {
            $(
                #[doc = concat!(" `STATUS_", stringify!($name), "`.")]
                pub const $name: Self = Self($value);
            )*

            /// Returns the status's name without `STATUS_`; `None` if it is not used here.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0x0000_0000,
    PENDING = 0x0000_0103,
    NOTIFY_CLEANUP = 0x0000_010b,
    NOTIFY_ENUM_DIR = 0x0000_010c,
    BUFFER_OVERFLOW = 0x8000_0005,
    NO_MORE_FILES = 0x8000_0006,
    STOPPED_ON_SYMLINK = 0x8000_002d,
    UNSUCCESSFUL = 0xc000_0001,
    INVALID_INFO_CLASS = 0xc000_0003,
    INFO_LENGTH_MISMATCH = 0xc000_0004,
    INVALID_HANDLE = 0xc000_0008,
    NO_MORE_EAS = 0x8000_0012,
    INVALID_EA_NAME = 0x8000_0013,
    INVALID_PARAMETER = 0xc000_000d,
    NO_SUCH_FILE = 0xc000_000f,
    INVALID_DEVICE_REQUEST = 0xc000_0010,
    END_OF_FILE = 0xc000_0011,
    MORE_PROCESSING_REQUIRED = 0xc000_0016,
    ACCESS_DENIED = 0xc000_0022,
    BUFFER_TOO_SMALL = 0xc000_0023,
    OBJECT_TYPE_MISMATCH = 0xc000_0024,
    OBJECT_NAME_INVALID = 0xc000_0033,
    OBJECT_NAME_NOT_FOUND = 0xc000_0034,
    OBJECT_NAME_COLLISION = 0xc000_0035,
    OBJECT_PATH_INVALID = 0xc000_0039,
    OBJECT_PATH_NOT_FOUND = 0xc000_003a,
    OBJECT_PATH_SYNTAX_BAD = 0xc000_003b,
    SHARING_VIOLATION = 0xc000_0043,
    EAS_NOT_SUPPORTED = 0xc000_004f,
    EA_TOO_LARGE = 0xc000_0050,
    NONEXISTENT_EA_ENTRY = 0xc000_0051,
    NO_EAS_ON_FILE = 0xc000_0052,
    EA_CORRUPT_ERROR = 0xc000_0053,
    FILE_LOCK_CONFLICT = 0xc000_0054,
    LOCK_NOT_GRANTED = 0xc000_0055,
    DELETE_PENDING = 0xc000_0056,
    INVALID_VIEW_SIZE = 0xc000_001f,
    PRIVILEGE_NOT_HELD = 0xc000_0061,
    LOGON_FAILURE = 0xc000_006d,
    ACCOUNT_RESTRICTION = 0xc000_006e,
    PASSWORD_EXPIRED = 0xc000_0071,
    ACCOUNT_DISABLED = 0xc000_0072,
    ACCOUNT_LOCKED_OUT = 0xc000_0234,
    RANGE_NOT_LOCKED = 0xc000_007e,
    INVALID_SID = 0xc000_0078,
    INVALID_SECURITY_DESCR = 0xc000_0079,
    DISK_FULL = 0xc000_007f,
    INSUFFICIENT_RESOURCES = 0xc000_009a,
    MEDIA_WRITE_PROTECTED = 0xc000_00a2,
    PIPE_NOT_AVAILABLE = 0xc000_00ac,
    PIPE_BUSY = 0xc000_00ae,
    PIPE_DISCONNECTED = 0xc000_00b0,
    FILE_FORCED_CLOSED = 0xc000_00b6,
    FILE_IS_A_DIRECTORY = 0xc000_00ba,
    NOT_SUPPORTED = 0xc000_00bb,
    NETWORK_NAME_DELETED = 0xc000_00c9,
    BAD_DEVICE_TYPE = 0xc000_00cb,
    BAD_NETWORK_NAME = 0xc000_00cc,
    BAD_IMPERSONATION_LEVEL = 0xc000_00a5,
    REQUEST_NOT_ACCEPTED = 0xc000_00d0,
    NOT_SAME_DEVICE = 0xc000_00d4,
    FILE_RENAMED = 0xc000_00d5,
    OPLOCK_NOT_GRANTED = 0xc000_00e2,
    INVALID_OPLOCK_PROTOCOL = 0xc000_00e3,
    INTERNAL_ERROR = 0xc000_00e5,
    UNEXPECTED_IO_ERROR = 0xc000_00e9,
    DIRECTORY_NOT_EMPTY = 0xc000_0101,
    NOT_A_DIRECTORY = 0xc000_0103,
    NAME_TOO_LONG = 0xc000_0106,
    TOO_MANY_OPENED_FILES = 0xc000_011f,
    CANCELLED = 0xc000_0120,
    CANNOT_DELETE = 0xc000_0121,
    FILE_DELETED = 0xc000_0123,
    FILE_CLOSED = 0xc000_0128,
    INVALID_LOCK_RANGE = 0xc000_01a1,
    INVALID_DEVICE_STATE = 0xc000_0184,
    IO_DEVICE_ERROR = 0xc000_0185,
    FS_DRIVER_REQUIRED = 0xc000_019c,
    NO_USER_SESSION_KEY = 0xc000_0202,
    USER_SESSION_DELETED = 0xc000_0203,
    NOT_FOUND = 0xc000_0225,
    PATH_NOT_COVERED = 0xc000_0257,
    DFS_UNAVAILABLE = 0xc000_026d,
    NOT_A_REPARSE_POINT = 0xc000_0275,
    IO_REPARSE_TAG_MISMATCH = 0xc000_0277,
    IO_REPARSE_DATA_INVALID = 0xc000_0278,
    IO_REPARSE_TAG_NOT_HANDLED = 0xc000_0279,
    OBJECTID_NOT_FOUND = 0xc000_02f0,
    DUPLICATE_OBJECTID = 0xc000_022a,
    NETWORK_SESSION_EXPIRED = 0xc000_035c,
    FILE_NOT_AVAILABLE = 0xc000_0467,
    REQUEST_OUT_OF_SEQUENCE = 0xc000_042a,
    INVALID_SIGNATURE = 0xc000_a000,
    HMAC_NOT_SUPPORTED = 0xc000_a001,
    SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP = 0xc05d_0000,
    SMB_BAD_CLUSTER_DIALECT = 0xc05d_0001,
}

impl Status {
    /// Returns whether an error response takes the place of the command's own (MS-SMB2 3.3.4.4): so it is
    /// with all but successes and the statuses that come with data.
    pub fn is_error(self) -> bool {
        self.0 >> 30 >= 2 && self != Self::BUFFER_OVERFLOW
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "STATUS_{name}"),
            None => write!(f, "status {:#010x}", self.0),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_answers_with_data() {
        assert!(Status::ACCESS_DENIED.is_error() && Status::NO_MORE_FILES.is_error());
        assert!(Status::INVALID_EA_NAME.is_error() && Status::STOPPED_ON_SYMLINK.is_error());
        assert!(Status::MORE_PROCESSING_REQUIRED.is_error(), "session set-up alone answers it with a body");
        for with_data in [Status::SUCCESS, Status::BUFFER_OVERFLOW, Status::NOTIFY_ENUM_DIR, Status::PENDING]
        {
            assert!(!with_data.is_error(), "{with_data}");
        }
        assert_eq!(Status::DISK_FULL.to_string(), "STATUS_DISK_FULL");
        assert_eq!(Status(0xc000_ffff).to_string(), "status 0xc000ffff");
    }
}
