//! What the protocol asks of the objects and volumes of its user.

use lane::mesh::Member;

use super::{GatedVolume, LaneBits, LockedObject};

/// An object that lanes and clients cache: a file or directory, one in the process.
pub trait CachedObject: LockedObject<Volume: CachedVolume> {
    /// A lease break on its way to the lane of the lease's holder. Dropping it counts as sending it.
    type LeaseBreak: Send;

    /// Returns the lanes that have given callbacks on the object: each change is sent to them.
    fn callback_lanes(&self) -> &LaneBits;

    /// Returns the lanes that cache something of the object themselves, and of the names in it those that their
    /// [snoop filter](super::SnoopFilter) has. `None` where no lane ever did.
    fn sharers(&self) -> Option<&LaneBits>;

    /// Sets the lane's presence bit, as it is about to cache something of the object.
    fn add_sharer(&self, lane: Member);

    /// Clears the lane's presence bit.
    fn remove_sharer(&self, lane: Member) {
        self.sharers().into_iter().for_each(|sharers| sharers.clear(lane));
    }
}

/// A volume of objects, whose callbacks can be broken together.
pub trait CachedVolume: GatedVolume {
    /// Returns the lanes that have given callbacks on objects of the volume.
    fn callback_lanes(&self) -> &LaneBits;
}
