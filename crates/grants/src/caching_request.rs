//! Request for caching, and what an open comes to with it.

use crate::caching::{Caching, Kind};
use crate::{Holder, Home};

/// Request for a lease or an oplock.
#[derive(Clone, Copy, Debug)]
pub struct CachingRequest {
    /// Number of the lease; for an oplock that of the open.
    pub holder: Holder,
    /// Kind of the caching, lease or oplock.
    pub kind: Kind,
    /// Caching that the client asks for.
    pub caching: Caching,
    /// Lane of the holder's connection.
    pub home: Home,
    /// Key of the lease, by which changes in a directory spare it.
    pub key: Option<[u8; 16]>,
}

/// Result of a granted open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Caching that the client has.
    pub caching: Caching,
    /// Epoch of a lease of version 2; 0 for all others.
    pub epoch: u16,
    /// Set while a break of the lease is under way (SMB2_LEASE_FLAG_BREAK_IN_PROGRESS).
    pub is_breaking: bool,
    /// Kind of the holder's grant, set by its first request. `None` without a grant. `None` where it has
    /// nothing.
    pub kind: Option<Kind>,
}
