//! The results of requests for grants, and the events that they cause.

use std::time::Instant;

use crate::caching::Caching;
use crate::waiting::Ticket;
use crate::{Holder, Home};

/// The result of a request for a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantResult<T> {
    /// The request was granted.
    Granted(T),
    /// Others have been asked to give back what is in the way: ask again, with the ticket, when it is woken
    /// or at the time given. A waiter that gives up, or has what it wanted, [leaves](crate::Object::leave).
    Wait(Wait),
    /// The request was refused.
    Refused(Refused),
}

/// Time for which to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The request that waits.
    pub ticket: Ticket,
    /// Time when something is given back at the latest.
    pub until: Instant,
}

/// The reason why an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A share mode is in the way (STATUS_SHARING_VIOLATION).
    #[error("another has it open and does not share it")]
    Sharing,
    /// The file is about to be deleted (STATUS_DELETE_PENDING).
    #[error("it is being deleted")]
    DeletePending,
    /// Another owner has locked some of the range (STATUS_LOCK_NOT_GRANTED, STATUS_FILE_LOCK_CONFLICT).
    #[error("another has locked some of the range")]
    Locked,
    /// The range ends beyond 2^64 (STATUS_INVALID_LOCK_RANGE).
    #[error("the range ends beyond 2^64")]
    BadRange,
    /// This range is not locked by the unlocking owner (STATUS_RANGE_NOT_LOCKED).
    #[error("the range is not locked like this")]
    NotLocked,
    /// The open does not have the access for it (STATUS_ACCESS_DENIED).
    #[error("it was not opened for that")]
    Access,
    /// The open does not exist.
    #[error("there is no such open")]
    NotOpen,
    /// The limit of opens, ranges or waiters is reached (STATUS_INSUFFICIENT_RESOURCES).
    #[error("as many as there may be are held already")]
    TooMany,
}

/// Event that has to be told, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A holder gives something back.
    Break(Break),
    /// Something was given back: the request with this ticket is made again.
    Wake(Ticket),
    /// A lock that waited is held now.
    Locked(Ticket),
    /// A lock that waited does so no more: its open was closed.
    Cancelled(Ticket),
    /// A holder did not answer in time; nothing is left to it.
    Expired(Holder),
}

/// A holder gives something back (MS-SMB2 2.2.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// The holder that is told.
    pub holder: Holder,
    /// Lane where the holder is told.
    pub home: Home,
    /// Caching that the holder has.
    pub from: Caching,
    /// Caching that is left to the holder.
    pub to: Caching,
    /// The new epoch of a lease of version 2; else 0.
    pub epoch: u16,
    /// The holder has to acknowledge the break.
    pub acknowledge: bool,
    /// The break is of a directory, because of names in it: no request waits for the holder.
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
