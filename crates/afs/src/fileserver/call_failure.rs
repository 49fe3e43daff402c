//! Failures of calls.

use rx_lane::{AbortCode, CallError};
use xdr::rpc::Failure;

use crate::code;

/// A call is aborted, or is dead.
#[derive(Debug)]
pub(super) enum CallFailure {
    /// The call is aborted with this code.
    Code(i32),
    /// The call's stream ended.
    Stream(CallError),
}

impl From<i32> for CallFailure {
    fn from(code: i32) -> Self {
        Self::Code(code)
    }
}

impl From<AbortCode> for CallFailure {
    fn from(code: AbortCode) -> Self {
        Self::Code(code.0)
    }
}

impl From<vfs::Error> for CallFailure {
    fn from(error: vfs::Error) -> Self {
        Self::Code(code::of(&error))
    }
}

impl From<vfs::NameError> for CallFailure {
    fn from(error: vfs::NameError) -> Self {
        vfs::Error::from(error).into()
    }
}

impl From<CallError> for CallFailure {
    fn from(error: CallError) -> Self {
        Self::Stream(error)
    }
}

impl From<CallFailure> for Failure<CallError> {
    fn from(refused: CallFailure) -> Self {
        match refused {
            CallFailure::Code(code) => Self::Refused(code),
            CallFailure::Stream(error) => Self::Stream(error),
        }
    }
}
