//! Objects without files, and a model of the whole protocol over them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lane::mesh::Member;

use crate::{CachedObject, CachedVolume, ChangeLock, Gate, GatedVolume, LaneBits, LockedObject};

mod model;

/// An object that has a version and nothing else.
pub(crate) struct Object {
    number: u32,
    version: AtomicU64,
    change_lock: ChangeLock,
    callback_lanes: LaneBits,
    sharers: LaneBits,
    volume: Arc<Volume>,
}

pub(crate) struct Volume {
    callback_lanes: LaneBits,
    gate: Gate,
}

/// Makes objects of one volume.
pub(crate) fn objects(count: u32) -> Vec<Arc<Object>> {
    let volume = Arc::new(Volume { callback_lanes: LaneBits::default(), gate: Gate::new(LANES_MAX) });
    let object = |number| Object {
        number,
        version: AtomicU64::new(1),
        change_lock: ChangeLock::default(),
        callback_lanes: LaneBits::default(),
        sharers: LaneBits::default(),
        volume: Arc::clone(&volume),
    };
    (0..count).map(|number| Arc::new(object(number))).collect()
}

impl Object {
    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn raise_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl LockedObject for Object {
    type Identity = u32;
    type Volume = Volume;

    fn identity(&self) -> &u32 {
        &self.number
    }

    fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    fn change_lock(&self) -> &ChangeLock {
        &self.change_lock
    }
}

impl CachedObject for Object {
    type LeaseBreak = ();

    fn callback_lanes(&self) -> &LaneBits {
        &self.callback_lanes
    }

    fn sharers(&self) -> Option<&LaneBits> {
        Some(&self.sharers)
    }

    fn add_sharer(&self, lane: Member) {
        self.sharers.set(lane);
    }
}

impl GatedVolume for Volume {
    fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl CachedVolume for Volume {
    fn callback_lanes(&self) -> &LaneBits {
        &self.callback_lanes
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "object {}", self.number)
    }
}

const LANES_MAX: usize = 4;
