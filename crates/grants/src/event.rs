//! The results of requests for grants, and the events that they cause.

use std::time::Instant;

use crate::caching::Caching;
use crate::waiting::Ticket;
use crate::{Holder, Home};

/// The result of a request for a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantResult<T> {
    /// It is so.
    Granted(T),
    /// Others have been asked to give back what is in the way: ask again, with the ticket, when it is woken or at the time
    /// given. Whoever gives up, or has what he wanted, [leaves](crate::Object::leave).
    Wait(Wait),
    /// It cannot be.
    Refused(Refused),
}

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Who waits.
    pub ticket: Ticket,
    /// When something is given back at the latest.
    pub until: Instant,
}

/// The reason why an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A share mode is in the way (STATUS_SHARING_VIOLATION).
    #[error("another has it open and does not share it")]
    Sharing,
    /// It is about to be deleted (STATUS_DELETE_PENDING).
    #[error("it is being deleted")]
    DeletePending,
    /// Another has locked some of the range (STATUS_LOCK_NOT_GRANTED, STATUS_FILE_LOCK_CONFLICT).
    #[error("another has locked some of the range")]
    Locked,
    /// The range ends beyond 2^64 (STATUS_INVALID_LOCK_RANGE).
    #[error("the range ends beyond 2^64")]
    BadRange,
    /// This range is not locked by who unlocks it (STATUS_RANGE_NOT_LOCKED).
    #[error("the range is not locked like this")]
    NotLocked,
    /// The open does not have the access for it (STATUS_ACCESS_DENIED).
    #[error("it was not opened for that")]
    Access,
    /// There is no such open.
    #[error("there is no such open")]
    NotOpen,
    /// As many as there may be: opens, ranges, or who waits (STATUS_INSUFFICIENT_RESOURCES).
    #[error("as many as there may be are held already")]
    TooMany,
}

/// What has to be told, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A holder gives something back.
    Break(Break),
    /// Something was given back: who has this ticket asks again.
    Wake(Ticket),
    /// A lock that waited is held now.
    Locked(Ticket),
    /// A lock that waited does so no more: its open was closed.
    Cancelled(Ticket),
    /// A holder did not answer in time; nothing is left to him.
    Expired(Holder),
}

/// A holder gives something back (MS-SMB2 2.2.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// Who.
    pub holder: Holder,
    /// Where he is told.
    pub home: Home,
    /// What he has.
    pub from: Caching,
    /// What is left to him.
    pub to: Caching,
    /// The new epoch of a lease of version 2; else 0.
    pub epoch: u16,
    /// He has to say that he has done so.
    pub acknowledge: bool,
    /// It is of a directory, because of names in it: nobody waits for him.
    pub names: bool,
}

impl<T> GrantResult<T> {
    /// The same with another value.
    pub fn map<U>(self, with: impl FnOnce(T) -> U) -> GrantResult<U> {
        match self {
            Self::Granted(value) => GrantResult::Granted(with(value)),
            Self::Wait(wait) => GrantResult::Wait(wait),
            Self::Refused(refused) => GrantResult::Refused(refused),
        }
    }
}
