//! Bounds of the grants on one object.

use std::time::Duration;

/// Bounds of the grants on one object. Requests beyond them are refused; other objects are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most opens, of all streams together.
    pub opens: usize,
    /// Most streams in use.
    pub streams: usize,
    /// Most ranges locked by one open, or one owner of advisory locks.
    pub ranges_per_owner: usize,
    /// Most ranges locked in one stream.
    pub ranges: usize,
    /// Most locks of one open that wait.
    pub waiting_locks_per_owner: usize,
    /// Most locks of one stream that wait.
    pub waiting_locks: usize,
    /// Most requests that wait for a holder.
    pub waiting: usize,
    /// Time in which a holder has to acknowledge a break (MS-SMB2 3.3.2.1; Windows: 35 s).
    pub acknowledge: Duration,
}

impl Limits {
    /// Bounds that the server uses.
    pub const DEFAULT: Self = Self {
        //@ limit: opens with share modes of one file
        //@ section: Files and listings
        //@ unit: open
        //@ address: three times what is free
        //@ all: process: {}; {streams} streams in use
        //@ empty: STATUS_INSUFFICIENT_RESOURCES; others have a quarter of the places beside one address
        //@ counter: vfs_grants_refused{reason="limit"}
        //@ attack: smb-hoards
        opens: 4096,
        streams: 64,
        ranges_per_owner: 1024,
        //@ limit: locked ranges of one stream
        //@ section: Files and listings
        //@ unit: range
        //@ connection: {ranges_per_owner} of one open, {waiting_locks_per_owner} that wait
        //@ all: process: {}; {waiting_locks} that wait
        //@ empty: refused; others feel nothing while there is room
        //@ counter: vfs_grants_refused{reason="held"}
        //@ attack: smb-trees
        ranges: 4096,
        waiting_locks_per_owner: 64,
        waiting_locks: 256,
        //@ limit: requests that wait for leases of one file
        //@ section: Files and listings
        //@ unit: change or open
        //@ connection: one place for each
        //@ all: process: {} of one file; each lease {acknowledge}, a change or open 75 s
        //@ empty: refused; others are given nothing that they would have to give back
        //@ counter: vfs_grants_waited, vfs_grants_expired
        //@ attack: smb-pools
        waiting: 256,
        acknowledge: Duration::from_secs(35),
    };
}
