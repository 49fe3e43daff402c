//! Why a call comes to nothing.

use rx_lane::{AbortCode, CallError};
use xdr::rpc::Failure;

use crate::code;

/// A call is aborted, or is dead.
#[derive(Debug)]
pub(super) enum Refused {
    /// With this code.
    Code(i32),
    /// Its stream ended.
    Stream(CallError),
}

impl From<i32> for Refused {
    fn from(code: i32) -> Self {
        Self::Code(code)
    }
}

impl From<AbortCode> for Refused {
    fn from(code: AbortCode) -> Self {
        Self::Code(code.0)
    }
}

impl From<vfs::Error> for Refused {
    fn from(error: vfs::Error) -> Self {
        Self::Code(code::of(&error))
    }
}

impl From<vfs::NameError> for Refused {
    fn from(error: vfs::NameError) -> Self {
        vfs::Error::from(error).into()
    }
}

impl From<CallError> for Refused {
    fn from(error: CallError) -> Self {
        Self::Stream(error)
    }
}

impl From<Refused> for Failure<CallError> {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Code(code) => Self::Refused(code),
            Refused::Stream(error) => Self::Stream(error),
        }
    }
}
