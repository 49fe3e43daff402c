//! Promises: which lane relies on an object, which clients each lane lets rely on it, and what tells them before it changes.
//!
//! *Between lanes.* A lane sets its bit in the object, then looks. Who changes the object has its permit first, then reads the bits, and
//! leaves each such lane a [`Break`] in its desk. The bell of the mesh only says that there is something: what is to be
//! answered is in shared memory, and is answered when it is dropped, by whoever has it then.
//!
//! *To clients.* What a client is told of an object it may keep until it is told otherwise. The lane that told it has that on its
//! books ([`Promises`]), and is asked by its bit. What the client has to be told then waits in the client's own record
//! ([`Client`]), one for all lanes, and is told on its home lane by its service ([`Teller`]). docs/design/vfs.md draws it.

pub(crate) use self::answers::{Answer, Answers};
pub(crate) use self::arrivals::Arrivals;
pub use self::arrivals::OnItsWay;
pub use self::breaks::{Broken, Holder, What};
pub(crate) use self::client::Next;
pub use self::client::{Client, Notice};
pub(crate) use self::desk::{Break, Desks};
pub(crate) use self::marks::{Mark, Marks, Spot};
pub(crate) use self::mourning::{Ended, Mourning};
pub use self::options::PromiseOptions;
pub use self::promised::{Confirmed, Promised};
pub use self::promised_link::PromisedLink;
pub(crate) use self::promises::{Full, Leaving, Promise, Promises, Ticket};
pub(crate) use self::sought::{Displaced, Sought};
pub use self::teller::{Gone, Heard, TellOutcome, Teller};
pub(crate) use self::teller::{carry_on, tell, teller_of};

mod answers;
mod arrivals;
mod breaks;
mod client;
mod desk;
mod given;
mod marks;
#[cfg(test)]
mod memory;
mod mourning;
mod options;
mod promised;
mod promised_link;
mod promises;
mod sought;
mod standing;
mod store;
mod teller;

/// Spreads the bits of a number over all of a hash.
pub(crate) fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
