//! Changes that have been told and are not committed yet. It counts before what the file says.

use std::collections::{HashMap, hash_map};

use crate::index::RunState;
use crate::journal::Slot;
use crate::lists::Lists;
use crate::object::ObjectEntry;
use crate::{HostRecord, Number, VolumeId, VolumeRecord};

/// Amount that waits to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Records of objects.
    pub objects: usize,
    /// Records that are promised a place ([`crate::Index::reserve`]).
    pub reserved: usize,
    /// As many as may wait, both together.
    pub max: usize,
    /// Files whose changes a kill would leave in the journal; 0 without one.
    pub journaled: usize,
    /// Files that found no room in it: while there are any a kill has every volume begin a generation.
    pub lacking: usize,
}

/// Changes, the latest of each thing.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    objects: HashMap<VolumeId, PendingObjects>,
    /// Of all volumes.
    count: usize,
    /// `None` for one that goes with all of its objects.
    pub(crate) volumes: HashMap<VolumeId, Option<VolumeRecord>>,
    /// Volumes whose objects were told before this all go.
    pub(crate) cleared: Vec<VolumeId>,
    pub(crate) hosts: HashMap<[u8; 16], Option<HostRecord>>,
    /// Of directories that have lists of their own.
    pub(crate) lists: Lists,
    /// Numbers of volumes from here on are free.
    pub(crate) next_volume: Option<u32>,
    /// State of this run.
    pub(crate) run: Option<RunState>,
}

/// Of the objects of one volume.
#[derive(Debug, Default)]
struct PendingObjects {
    objects: HashMap<Box<[u8]>, ObjectChange>,
    /// The way from a number to its identity.
    vnodes: HashMap<u32, Box<[u8]>>,
}

/// Of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectChange {
    Recorded(ObjectEntry),
    /// The file that had this number is gone.
    Forgotten {
        number: Number,
        slot: Slot,
    },
}

impl ObjectChange {
    fn slot(&self) -> Option<Slot> {
        match self {
            Self::Recorded(entry) => Some(entry.slot),
            Self::Forgotten { slot, .. } => Some(*slot),
        }
    }
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.count + self.lists.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
            && self.volumes.is_empty()
            && self.cleared.is_empty()
            && self.hosts.is_empty()
            && self.next_volume.is_none()
            && self.run.is_none()
    }

    pub(crate) fn of(&self, volume: VolumeId, identity: &[u8]) -> Option<&ObjectChange> {
        self.objects.get(&volume)?.objects.get(identity)
    }

    /// Returns what has this vnode; `Some(None)` when it is known to be gone.
    pub(crate) fn numbered(&self, volume: VolumeId, vnode: u32) -> Option<Option<&ObjectEntry>> {
        let told = self.objects.get(&volume)?;
        match told.objects.get(told.vnodes.get(&vnode)?) {
            Some(ObjectChange::Recorded(entry)) if entry.object.number.vnode == vnode => Some(Some(entry)),
            _ => Some(None),
        }
    }

    /// Returns whether nothing that is committed of the volume's objects counts any more.
    pub(crate) fn is_cleared(&self, volume: VolumeId) -> bool {
        self.cleared.contains(&volume)
    }

    pub(crate) fn knows(&self, volume: VolumeId, identity: &[u8]) -> bool {
        self.of(volume, identity).is_some()
    }

    /// Gives the slot of what was told of it before.
    pub(crate) fn put(
        &mut self,
        volume: VolumeId,
        identity: Box<[u8]>,
        change: ObjectChange,
    ) -> Option<Slot> {
        let vnode = match &change {
            ObjectChange::Recorded(entry) => entry.object.number.vnode,
            ObjectChange::Forgotten { number, .. } => number.vnode,
        };
        let told = self.objects.entry(volume).or_default();
        told.vnodes.insert(vnode, identity.clone());
        let before = told.objects.insert(identity, change);
        self.count += usize::from(before.is_none());
        before.as_ref().and_then(ObjectChange::slot)
    }

    /// Drops what was told of a volume that goes. Gives the slots of that.
    pub(crate) fn drop_volume(&mut self, volume: VolumeId) -> Vec<Slot> {
        self.lists.drop_volume(volume);
        self.drop_objects(volume)
    }

    /// Drops the objects of a volume ([`Pending::drop_volume`]).
    pub(crate) fn drop_objects(&mut self, volume: VolumeId) -> Vec<Slot> {
        let Some(told) = self.objects.remove(&volume) else { return Vec::new() };
        self.count -= told.objects.len();
        told.objects.values().filter_map(ObjectChange::slot).collect()
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.objects().filter_map(|(_, _, change)| change.slot())
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (VolumeId, &[u8], &ObjectChange)> {
        self.objects.iter().flat_map(|(volume, told)| {
            told.objects.iter().map(|(identity, change)| (*volume, &**identity, change))
        })
    }

    /// Takes back what could not be committed; what was told since is newer. Gives the slots of what counts no more.
    pub(crate) fn put_back(&mut self, older: Self) -> Vec<Slot> {
        let mut overtaken = Vec::new();
        let Self { objects, count: _, volumes, cleared, hosts, lists, next_volume, run } = older;
        for (volume, told) in objects {
            let is_gone = matches!(self.volumes.get(&volume), Some(None)) || self.is_cleared(volume);
            if is_gone {
                overtaken.extend(told.objects.values().filter_map(ObjectChange::slot));
            } else {
                let newer = self.objects.entry(volume).or_default();
                let before = newer.objects.len();
                for (identity, change) in told.objects {
                    match newer.objects.entry(identity) {
                        hash_map::Entry::Occupied(_) => overtaken.extend(change.slot()),
                        hash_map::Entry::Vacant(free) => drop(free.insert(change)),
                    }
                }
                for (vnode, identity) in told.vnodes {
                    newer.vnodes.entry(vnode).or_insert(identity);
                }
                self.count += newer.objects.len() - before;
            }
        }
        self.cleared.extend(cleared);
        self.lists.put_back(lists);
        for volume in self.volumes.iter().filter_map(|(volume, record)| record.is_none().then_some(*volume)) {
            self.lists.drop_volume(volume);
        }
        for (volume, record) in volumes {
            self.volumes.entry(volume).or_insert(record);
        }
        for (host, record) in hosts {
            self.hosts.entry(host).or_insert(record);
        }
        self.next_volume = self.next_volume.max(next_volume);
        self.run = self.run.or(run);
        overtaken
    }
}
