//! Failures of calls and connections as the application sees them.

use rx::DeadReason;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// The call ended well.
    Finished,
    /// The call was aborted with this code, the peer's or ours.
    Aborted(i32),
    /// The call ended by a time limit.
    Dead(DeadReason),
}

/// Reason why a call cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The peer aborted the call with this code, or the call broke a rule.
    #[error("the call was aborted with code {0}")]
    Aborted(i32),
    /// The call ended by a time limit.
    #[error("the call is dead: {}", reason(*.0))]
    Dead(DeadReason),
    /// The call has ended well, or its writing half has: no more can be written.
    #[error("the call has ended")]
    Ended,
    /// The peer's stream ended before all bytes had come.
    #[error("the peer's stream ended early")]
    Short,
    /// The reader holds the whole window: some packets must be dropped first.
    #[error("the reader holds the whole window")]
    Held,
    /// Rooms of the call are lent out: commit or drop them first.
    #[error("payload rooms of the call are lent out")]
    Lent,
    /// The call's connection has no call numbers left: open another.
    #[error("the connection's call numbers are used up")]
    UsedUp,
    /// The call's connection does not exist any more.
    #[error("the connection is gone")]
    Gone,
}

impl From<CallEnd> for CallError {
    fn from(end: CallEnd) -> Self {
        match end {
            CallEnd::Finished => Self::Ended,
            CallEnd::Aborted(code) => Self::Aborted(code),
            CallEnd::Dead(reason) => Self::Dead(reason),
        }
    }
}

fn reason(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::Silent => "the peer does not answer",
        DeadReason::Unreachable => "the network says that the peer cannot be reached",
        DeadReason::PortClosed => "nobody has the peer's port",
        DeadReason::Idle => "no data moved for too long",
        DeadReason::HardLimit => "its time limit passed",
        DeadReason::Replaced => "its channel was taken over or its connection closed",
    }
}

/// Reason why a driver did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket could not be opened.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// Address that the socket was to have.
        address: std::net::SocketAddr,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A socket of another origin could not be adopted.
    #[error("the lane cannot take over its socket: {source}")]
    Adopt {
        /// Error of the system.
        source: std::io::Error,
    },
    /// The system gave no random numbers for epochs and keys.
    #[error("the system gives no random numbers: {0}")]
    Random(std::io::Error),
}
