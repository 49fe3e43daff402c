//! Codes by which calls end whose client cannot be found.

use afs_wire::code;
use rx_lane::AbortCode;

/// RX_CALL_DEAD: what stock servers say to a client that they cannot call. It takes the server for out of reach, as it
/// is for a client whose callbacks cannot be broken.
pub(super) const UNREACHABLE: AbortCode = AbortCode(rx::abort::CALL_DEAD);
/// Clients wait and ask again.
pub(super) const BUSY: AbortCode = AbortCode(code::VBUSY);
