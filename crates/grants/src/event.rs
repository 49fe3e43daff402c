//! Results of requests for grants, and the events that they cause.

use std::time::Instant;

use crate::caching::Caching;
use crate::{Holder, Home};

/// Number of a waiting request, unique in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Result of a request for a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantResult<T> {
    /// The request was granted.
    Granted(T),
    /// The request conflicts with holders that were sent breaks: repeat it, with the ticket, once woken or at
    /// the time given. A waiter that gives up, or has what it wanted, [leaves](crate::Object::leave).
    Wait(Wait),
    /// The request was refused, for this reason.
    Refused(Refused),
}

/// Wait for holders to give something back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Ticket of the request that waits.
    pub ticket: Ticket,
    /// Latest time at which something is given back.
    pub until: Instant,
}

/// Reason why an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A share mode does not allow the operation (STATUS_SHARING_VIOLATION).
    #[error("another has it open and does not share it")]
    Sharing,
    /// The file is about to be deleted (STATUS_DELETE_PENDING).
    #[error("it is being deleted")]
    DeletePending,
    /// The range is partly locked by another owner (STATUS_LOCK_NOT_GRANTED, STATUS_FILE_LOCK_CONFLICT).
    #[error("another has locked some of the range")]
    Locked,
    /// The range ends beyond 2^64 (STATUS_INVALID_LOCK_RANGE).
    #[error("the range ends beyond 2^64")]
    BadRange,
    /// The range is not locked by the unlocking owner (STATUS_RANGE_NOT_LOCKED).
    #[error("the range is not locked like this")]
    NotLocked,
    /// The open lacks the access that the operation needs (STATUS_ACCESS_DENIED).
    #[error("it was not opened for that")]
    Access,
    /// The open does not exist.
    #[error("there is no such open")]
    NotOpen,
    /// The limit of opens, ranges or waiters is reached (STATUS_INSUFFICIENT_RESOURCES).
    #[error("as many as there may be are held already")]
    TooMany,
}

/// Event that the caller delivers, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A holder is to be sent this break.
    Break(Break),
    /// A holder gave something back: the request with this ticket is made again.
    Wake(Ticket),
    /// A lock that waited is held now.
    Locked(Ticket),
    /// A lock that waited was cancelled, as its open was closed.
    Cancelled(Ticket),
    /// A holder did not answer in time and has no caching any more.
    Expired(Holder),
}

/// Break of a lease or oplock (MS-SMB2 2.2.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// Holder that the break is sent to.
    pub holder: Holder,
    /// Lane that sends the break.
    pub home: Home,
    /// Caching that the holder had before.
    pub from: Caching,
    /// Caching that the holder keeps.
    pub to: Caching,
    /// New epoch of a lease of version 2; 0 for all others.
    pub epoch: u16,
    /// Set if the holder has to acknowledge the break.
    pub acknowledge: bool,
    /// Set for a directory whose names change: no request waits for the holder.
    pub names: bool,
}

impl<T> GrantResult<T> {
    /// Converts the value of a granted request.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> GrantResult<U> {
        match self {
            Self::Granted(value) => GrantResult::Granted(with(value)),
            Self::Wait(wait) => GrantResult::Wait(wait),
            Self::Refused(refused) => GrantResult::Refused(refused),
        }
    }
}
