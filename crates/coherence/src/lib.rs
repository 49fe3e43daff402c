//! Directory-based coherence of what lanes and clients cache of objects that they share: which lanes share an
//! object, which clients hold callbacks on it, and how both are invalidated before it changes.
//!
//! *Between lanes.* A lane sets its presence bit in the object, then looks. A change takes the object's
//! [change lock](ChangeLock) first, then reads the bits, and leaves each lane that shares the object an
//! [`InvalidateRequest`] in its [queue](InvalidationQueues). Dropping the request acknowledges it. Of names in a
//! directory each lane has a [snoop filter](SnoopFilter), so that only lanes that may cache a name are asked.
//!
//! *To clients.* What a client is told of an object it may cache until it is told otherwise. The lane that told
//! it has the callback in its [table](CallbackTable), and is asked by its bit. What a client has to be told waits
//! in the client's [record](Client), which all lanes share, and is sent on its home lane.
//!
//! *Changes.* A change passes the [gate](Gate) of its volume, takes the change locks of all that it changes
//! ([`ChangeLockSet`]), has it invalidated, waits for the [acknowledgements](Acks), and is made.
//!
//! Nothing here opens a file or a socket, or knows what an object is: it is generic over [`CachedObject`], and its
//! user passes the time. Of the lane it uses the mailboxes' doorbells and, for the handoff of change locks, a timer.

pub use self::acks::{Ack, Acks};
pub use self::change_lock::{ChangeLock, LockQueueFull, LockSharer, LockedObject, SharedChangeLock};
pub use self::client::{Client, NextStep, Notice};
pub use self::gate::{Closed, Gate, GatePass, GatePause, GateRefusal, GatedVolume};
pub use self::in_flight::{InFlightReplies, InFlightReply};
pub use self::invalidation::{ChangeKind, Holder, Invalidation};
pub use self::lane_bits::LaneBits;
pub use self::lock_set::ChangeLockSet;
pub use self::object::{CachedObject, CachedVolume};
pub use self::options::CallbackOptions;
pub use self::orphaned::EndedLane;
pub use self::queues::{InvalidateRequest, InvalidationCounts, InvalidationQueues};
pub use self::snoop_filter::{FilterSlot, PresenceToken, SnoopFilter};
pub use self::table::{
    BreakScope, CallbackRef, CallbackTable, CallbackTableFull, Observation, PendingBreak, SharerGuard,
};

mod acks;
mod change_lock;
mod client;
mod client_callbacks;
mod gate;
mod in_flight;
mod invalidation;
mod lane_bits;
mod lock_set;
mod object;
mod options;
mod orphaned;
mod queues;
mod slab;
mod snoop_filter;
mod table;
#[cfg(test)]
mod tests;

/// Spreads the bits of a number over all of a hash.
pub fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
