//! Payloads that cannot be used.

/// Reason why a DEBUG payload could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DebugError {
    /// The payload is too short for what it should be.
    #[error("debug payload of {got} bytes, at least {need} expected")]
    Short {
        /// Smallest acceptable length.
        need: usize,
        /// Length seen.
        got: usize,
    },
    /// The server answered [`BAD_TYPE`].
    #[error("the server does not know this debug request")]
    Unsupported,
}

/// Refuses the two-word answer to an unknown request, which could otherwise pass for data.
pub(crate) fn refuse_bad_type(payload: &[u8]) -> Result<(), DebugError> {
    match payload {
        [a @ .., _, _, _, _] if *a == BAD_TYPE.to_be_bytes() => Err(DebugError::Unsupported),
        _ => Ok(()),
    }
}

/// Answer to an unknown request type (`RX_DEBUGI_BADTYPE`).
pub const BAD_TYPE: i32 = -8;
