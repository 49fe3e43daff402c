//! Abort codes of Rx itself (OpenAFS `rx.h`); a service may send any other 32-bit code.

/// The peer did not answer, or its channel was taken over by a newer call.
pub const CALL_DEAD: i32 = -1;
/// RX_INVALID_OPERATION: the port has no such service.
pub const INVALID_OPERATION: i32 = -2;
/// A time limit of the call ran out.
pub const CALL_TIMEOUT: i32 = -3;
/// The stream ended early.
pub const EOF: i32 = -4;
/// The peer broke the protocol.
pub const PROTOCOL_ERROR: i32 = -5;
/// The application gave up.
pub const USER_ABORT: i32 = -6;
/// The address is in use.
pub const ADDRESS_IN_USE: i32 = -7;
/// A message is too large.
pub const MESSAGE_SIZE: i32 = -8;
/// The server is restarting.
pub const RESTARTING: i32 = -100;
