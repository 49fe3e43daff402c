//! Callbacks on objects of the tree: look-ups under a callback, delivery of breaks to clients, and what finds the
//! callbacks on files that other programs replaced. Crate `coherence` has the tables and the protocol between
//! lanes; docs/design/vfs.md draws it.

pub use self::link_lookup::LinkWithCallback;
pub use self::lookup::{Confirmed, LookupWithCallback};
pub use self::notifier::{CallbackNotifier, GoneFuture, NotifyFuture, NotifyOutcome};
pub(crate) use self::notifier::{notifier_of, notify_client};
pub(crate) use self::observation::judge;
pub(crate) use self::replaced::{ReplacedFile, ReplacedNames};
use crate::object::Object;

mod basis;
mod link_lookup;
mod lookup;
#[cfg(test)]
mod memory;
mod notifier;
mod observation;
mod replaced;

/// A client that caches under callbacks: an AFS host, or the holder of a lease key.
pub type Client = coherence::Client<Object>;
/// Scope of a callback break.
pub type Notice = coherence::Notice<Object>;
/// An object that is about to change, and how.
pub type Invalidation = coherence::Invalidation<Object>;
/// Callbacks of one lane.
pub(crate) type CallbackTable = coherence::CallbackTable<Object>;
/// Invalidation queues of all lanes.
pub(crate) type InvalidationQueues = coherence::InvalidationQueues<Object>;
/// One invalidation for one lane.
pub(crate) type InvalidateRequest = coherence::InvalidateRequest<Object>;
/// A callback break that is to be sent to a client.
pub(crate) type PendingBreak = coherence::PendingBreak<Object>;
/// Guard that keeps a lane a sharer of an object.
pub(crate) type SharerGuard = coherence::SharerGuard<Object>;
