//! Coherence of what lanes and clients cache: which lanes share an object, which clients hold callbacks, and how both
//! are invalidated before a change.
//!
//! *Between lanes.* A lane sets its bit in the object, then looks. A change of the object takes its change
//! lock first, then reads the bits, and leaves each such lane a [`InvalidateRequest`] in its desk. The bell
//! of the mesh only says that there is something: what is to be answered is in shared memory, and is answered
//! when it is dropped, by its holder.
//!
//! *To clients.* What a client is told of an object it may keep until it is told otherwise. The lane that told it has that on its
//! books ([`CallbackTable`]), and is asked by its bit. What the client has to be told then waits in the client's own record
//! ([`Client`]), one for all lanes, and is told on its home lane by its service ([`CallbackNotifier`]). docs/design/vfs.md draws it.

pub(crate) use self::acks::{Ack, Acks};
pub(crate) use self::client::NextStep;
pub use self::client::{Client, Notice};
pub(crate) use self::in_flight::InFlightReplies;
pub use self::in_flight::InFlightReply;
pub use self::invalidation::{ChangeKind, Holder, Invalidation};
pub use self::link_lookup::LinkWithCallback;
pub use self::lookup::{Confirmed, LookupWithCallback};
pub use self::notifier::{CallbackNotifier, GoneFuture, NotifyFuture, NotifyOutcome};
pub(crate) use self::notifier::{notifier_of, notify_client, notify_next};
pub use self::options::CallbackOptions;
pub(crate) use self::orphaned::{EndedLane, OrphanedCallbacks};
pub(crate) use self::queues::{InvalidateRequest, InvalidationQueues};
pub(crate) use self::replaced::{ReplacedFile, ReplacedNames};
pub(crate) use self::snoop_filter::{FilterSlot, PresenceToken, SnoopFilter};
pub(crate) use self::table::{CallbackRef, CallbackTable, CallbackTableFull, PendingBreak, SharerGuard};

mod acks;
mod basis;
mod client;
mod client_callbacks;
mod in_flight;
mod invalidation;
mod link_lookup;
mod lookup;
#[cfg(test)]
mod memory;
mod notifier;
mod options;
mod orphaned;
mod queues;
mod replaced;
mod slab;
mod snoop_filter;
mod table;

/// Spreads the bits of a number over all of a hash.
pub(crate) fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}
