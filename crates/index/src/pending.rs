//! Changes that are not committed yet, which count before those in the file. It counts before what the file
//! says.

use std::collections::{HashMap, hash_map};

use crate::journal_layout::Slot;
use crate::lists::Lists;
use crate::object::ObjectEntry;
use crate::run_state::RunState;
use crate::{HostRecord, Number, VolumeId, VolumeRecord};

/// Amount of uncommitted changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Number of uncommitted object records.
    pub objects: usize,
    /// Number of records with a reserved place ([`crate::Index::reserve`]).
    pub reserved: usize,
    /// Bound of both together.
    pub max: usize,
    /// Number of files with changes in the journal, which a kill would leave; 0 without one.
    pub journaled: usize,
    /// Number of files that found no room in the journal: while not 0 a kill makes every volume begin a
    /// generation.
    pub lacking: usize,
}

/// Uncommitted changes, the latest of each object, volume and host.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    objects: HashMap<VolumeId, PendingObjects>,
    /// Number of object changes, over all volumes.
    count: usize,
    /// Records of volumes; `None` for one that is removed with all of its objects.
    pub(crate) volumes: HashMap<VolumeId, Option<VolumeRecord>>,
    /// Volumes whose earlier objects are all removed.
    pub(crate) cleared: Vec<VolumeId>,
    pub(crate) hosts: HashMap<[u8; 16], Option<HostRecord>>,
    /// Changes of directories that have lists of their own.
    pub(crate) lists: Lists,
    /// Volume number from which on all are free.
    pub(crate) next_volume: Option<u32>,
    /// State of this run, when it changed.
    pub(crate) run: Option<RunState>,
}

/// Changes of one volume's objects.
#[derive(Debug, Default)]
struct PendingObjects {
    objects: HashMap<Box<[u8]>, ObjectChange>,
    /// Identities by vnode.
    vnodes: HashMap<u32, Box<[u8]>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObjectChange {
    Recorded(ObjectEntry),
    /// The file is gone, with its number.
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

    /// Returns the pending entry of a vnode; `Some(None)` when the file is gone.
    pub(crate) fn numbered(&self, volume: VolumeId, vnode: u32) -> Option<Option<&ObjectEntry>> {
        let told = self.objects.get(&volume)?;
        match told.objects.get(told.vnodes.get(&vnode)?) {
            Some(ObjectChange::Recorded(entry)) if entry.object.number.vnode == vnode => Some(Some(entry)),
            _ => Some(None),
        }
    }

    /// Returns whether the committed objects of the volume are all removed.
    pub(crate) fn is_cleared(&self, volume: VolumeId) -> bool {
        self.cleared.contains(&volume)
    }

    pub(crate) fn knows(&self, volume: VolumeId, identity: &[u8]) -> bool {
        self.of(volume, identity).is_some()
    }

    /// Adds a change of an object, and returns the slot of an earlier one.
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

    /// Drops the changes of a volume that is removed, and returns their slots.
    pub(crate) fn drop_volume(&mut self, volume: VolumeId) -> Vec<Slot> {
        self.lists.drop_volume(volume);
        self.drop_objects(volume)
    }

    /// Drops the changes of a volume's objects ([`Pending::drop_volume`]).
    pub(crate) fn drop_objects(&mut self, volume: VolumeId) -> Vec<Slot> {
        let Some(told) = self.objects.remove(&volume) else { return Vec::new() };
        debug_assert!(told.objects.len() <= self.count, "the changes of a volume are among all");
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

    /// Takes back older changes that could not be committed, beneath those since, and returns the slots of
    /// the ones replaced.
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
