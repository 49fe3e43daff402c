//! What clients hold of one file or directory, and what it takes to act beside them: share modes, leases and oplocks,
//! byte-range locks, deletion on close (MS-SMB2 3.3, MS-FSA 2.1), whole-file locks of AFS, and what a change by
//! somebody without an open asks of all these.
//!
//! Plain and synchronous: nothing here knows lanes, files, sockets or a clock. An [`Object`] is the state of one file; whoever
//! has it says what is asked and what time it is, and gets an [`Asked`]: granted, refused with a reason, or to wait for
//! what others have been asked to give back. What there is to be told (breaks, wake-ups) comes out as [`Event`]s.
//! Which cell of which table decides is in [`conflict`], and nowhere else.
//!
//! ```
//! use grants::{Access, Asked, Caching, Event, Holder, Home, Kind, Limits, Looks, Object, OpenId, Request, Share, Want};
//! use std::net::IpAddr;
//! use std::time::Instant;
//!
//! let (mut object, mut events, now) = (Object::<&str>::new(&Limits::DEFAULT), Vec::new(), Instant::now());
//! let open = |id, caching| Request {
//!     open: OpenId(id),
//!     consumer: IpAddr::from([192, 0, 2, id as u8]).into(),
//!     access: Access::READ | Access::WRITE,
//!     share: Share::ALL,
//!     looks: Looks::Not,
//!     overwrites: false,
//!     is_directory: false,
//!     link: "page",
//!     parent: None,
//!     want: Some(Want { holder: Holder(id), kind: Kind::Lease { epoch: None }, caching, home: Home(0), key: None }),
//! };
//! let first = object.open(now, b"", open(1, Caching::RWH), None, &mut events);
//! assert!(matches!(first, Asked::Granted(opened) if opened.caching == Caching::RWH));
//! // The second must not look before the first has written back what it holds.
//! assert!(matches!(object.open(now, b"", open(2, Caching::R), None, &mut events), Asked::Wait(_)));
//! assert!(matches!(&events[..], [Event::Break(it)] if it.holder == Holder(1) && it.to == Caching::RH));
//! ```

mod caching;
pub mod conflict;
mod deletion;
mod event;
mod grant;
mod holding;
mod leases;
mod limits;
mod object;
mod range;
mod share;
mod stream;
mod waiting;

pub use self::caching::{Caching, Held, Kind};
pub use self::event::{Asked, Break, Event, Refused, Wait};
pub use self::holding::BadAcknowledgement;
pub use self::leases::{LeaseKey, Leases, Named, NotHere};
pub use self::limits::Limits;
pub use self::object::{Advisory, Change, Closed, Lock, Object, Opened, Request, Want};
pub use self::range::{Owner, Range, RangeLock};
pub use self::share::{Access, Looks, Share};
pub use self::waiting::Ticket;

#[cfg(test)]
mod tests;

/// Who caches: a lease, or the open that an oplock belongs to. Numbers are given out by [`Leases`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder(pub u64);

/// Who acts, as far as what he holds himself is spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Whose lease or oplock this is.
    Holder(Holder),
    /// Who names this key as that of the lease of the directory he changes something in: whichever client's lease has it, as
    /// the keys are compared alone there (MS-FSA 2.1.4.12, ParentOplockKey).
    ParentKey([u8; 16]),
}

/// One open of one stream, process-wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenId(pub u64);

/// Where a holder is told: the lane of its connection. It means nothing here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home(pub u16);
