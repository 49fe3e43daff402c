//! Invalidations: what lanes and clients that cache an object are told before it changes.

use std::sync::Arc;

/// An object that is about to change, and how. Lanes that cache it forget what the change makes untrue and break
/// their clients' callbacks.
pub struct Invalidation<O> {
    /// The object.
    pub object: Arc<O>,
    /// Part of the object that changes.
    pub what: ChangeKind,
    /// The holder that makes the change: its callbacks are kept, as it knows what it changes. But for what
    /// [is of a subtree](ChangeKind::is_of_subtree).
    pub spared: Option<Holder>,
}

/// Part of an object that is about to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Names in a directory: what they lead to, if anything. All that was looked up beneath them goes too.
    Names(Arc<[Box<[u8]>]>),
    /// Content or length.
    Content,
    /// Attributes alone.
    Attributes,
    /// A file, or something else that holds no names, moves.
    Place,
    /// The object is a directory that moves: with it the rights of all beneath. All callbacks in its volume
    /// are broken as one, and no client is spared.
    Subtree,
    /// The object loses a name, perhaps its last.
    Gone,
    /// The access list that counts there becomes another: as [`ChangeKind::Subtree`].
    Rights,
    /// Another program has changed the object, it is not known how.
    Unknown,
}

/// Identity of a client that holds callbacks or grants and makes changes: an AFS host, an SMB lease key, a
/// connection. Services assign the numbers and keep those of different protocols apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder(pub u64);

impl<O> Clone for Invalidation<O> {
    fn clone(&self) -> Self {
        Self { object: Arc::clone(&self.object), what: self.what.clone(), spared: self.spared }
    }
}

impl<O: std::fmt::Debug> std::fmt::Debug for Invalidation<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { object, what, spared } = self;
        f.debug_struct("Invalidation")
            .field("object", object)
            .field("what", what)
            .field("spared", spared)
            .finish()
    }
}

impl ChangeKind {
    /// Returns whether all that was found by way of it is found no more, or by others.
    pub fn is_of_place(&self) -> bool {
        matches!(self, Self::Place | Self::Subtree | Self::Gone | Self::Rights)
    }

    /// Returns whether the rights of all beneath change with it.
    pub fn is_of_subtree(&self) -> bool {
        matches!(self, Self::Subtree | Self::Rights)
    }

    /// Makes the kind of a change of one name.
    pub fn name(name: &[u8]) -> Self {
        Self::Names(Arc::from([Box::from(name)]))
    }
}
