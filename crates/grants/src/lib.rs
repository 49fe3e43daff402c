//! Grants of clients on one file or directory: share modes, leases and oplocks, byte-range locks, deletion on
//! close (MS-SMB2 3.3, MS-FSA 2.1) and AFS's whole-file locks.
//!
//! Plain and synchronous: nothing here knows lanes, files, sockets or a clock. An [`Object`] is the state of
//! one file; its owner passes a request and the time, and gets a [`GrantResult`]: granted, refused with a
//! reason, or to wait for what others have been asked to give back. What there is to be told (breaks,
//! wake-ups) comes out as [`Event`]s. Which cell of which table decides is in [`conflict`], and nowhere else.
//!
//! ```
//! use grants::{Access, GrantResult, Caching, Event, Holder, Home, Kind, Limits, StatOpen, Object, OpenId, Request, Share, CachingRequest};
//! use std::net::IpAddr;
//! use std::time::Instant;
//!
//! let (mut object, mut events, now) = (Object::<&str>::new(&Limits::DEFAULT), Vec::new(), Instant::now());
//! let open = |id, caching| Request {
//!     open: OpenId(id),
//!     consumer: IpAddr::from([192, 0, 2, id as u8]).into(),
//!     access: Access::READ | Access::WRITE,
//!     share: Share::ALL,
//!     looks: StatOpen::No,
//!     overwrites: false,
//!     is_directory: false,
//!     link: "page",
//!     parent: None,
//!     want: Some(CachingRequest { holder: Holder(id), kind: Kind::Lease { epoch: None }, caching, home: Home(0), key: None }),
//! };
//! let first = object.open(now, b"", open(1, Caching::RWH), None, &mut events);
//! assert!(matches!(first, GrantResult::Granted(opened) if opened.caching == Caching::RWH));
//! // The second must not look before the first has written back what it holds.
//! assert!(matches!(object.open(now, b"", open(2, Caching::R), None, &mut events), GrantResult::Wait(_)));
//! assert!(matches!(&events[..], [Event::Break(it)] if it.holder == Holder(1) && it.to == Caching::RH));
//! ```

mod caching;
mod caching_grant;
mod caching_request;
pub mod conflict;
mod deletion;
mod event;
mod grant;
mod leases;
mod limits;
mod object;
mod range;
mod share;
mod stream;
mod waiting;

pub use self::caching::{Caching, HeldCaching, Kind};
pub use self::caching_grant::BadAcknowledgement;
pub use self::caching_request::{CachingRequest, Opened};
pub use self::deletion::NameEnd;
pub use self::event::{Break, Event, GrantResult, Refused, Ticket, Wait};
pub use self::leases::{LeaseKey, LeaseOfOtherFile, LeaseRef, Leases};
pub use self::limits::Limits;
pub use self::object::{AdvisoryLock, Change, Closed, Lock, Object, Request};
pub use self::range::{Owner, Range, RangeLock};
pub use self::share::{Access, Share, StatOpen};

#[cfg(test)]
mod tests;

/// Holder of cached state: a lease, or the open that an oplock belongs to. Numbers are given out by
/// [`Leases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(pub u64);

/// Holder whose own lease or oplock an operation does not break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExemptHolder {
    /// Holder of this lease or oplock.
    Holder(Holder),
    /// Holders of leases with this key, of any client: the key of the lease of the directory that is changed
    /// (MS-FSA 2.1.4.12, ParentOplockKey).
    ParentKey([u8; 16]),
}

/// Number of an open of a stream, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

/// Lane that sends a holder its breaks: the lane of its connection. This crate only passes the number on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home(pub u16);
