//! What has been told and is not committed yet. It counts before what the file says.

use std::collections::HashMap;

use crate::object::Entry;
use crate::{HostRecord, VolumeId, VolumeRecord};

/// How much waits to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// Records of objects.
    pub objects: usize,
    /// As many as may wait.
    pub max: usize,
}

/// Changes, the latest of each thing.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    objects: HashMap<(VolumeId, Box<[u8]>), Change>,
    /// The way from a number to its identity.
    vnodes: HashMap<(VolumeId, u32), Box<[u8]>>,
    /// `None` for one that goes with all of its objects.
    pub(crate) volumes: HashMap<VolumeId, Option<VolumeRecord>>,
    pub(crate) hosts: HashMap<[u8; 16], Option<HostRecord>>,
    /// Numbers of volumes from here on are free.
    pub(crate) next_volume: Option<u32>,
}

/// Of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Recorded(Entry),
    /// The file that had this vnode is gone.
    Forgotten(u32),
}

impl Pending {
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
            && self.volumes.is_empty()
            && self.hosts.is_empty()
            && self.next_volume.is_none()
    }

    pub(crate) fn of(&self, volume: VolumeId, identity: &[u8]) -> Option<&Change> {
        // A look-up by parts of a key that owns its bytes would need a table of its own; this copy is of some 20 bytes.
        self.objects.get(&(volume, identity.into()))
    }

    /// What has this vnode; `Some(None)` when it is known to be gone.
    pub(crate) fn numbered(&self, volume: VolumeId, vnode: u32) -> Option<Option<&Entry>> {
        let identity = self.vnodes.get(&(volume, vnode))?;
        match self.of(volume, identity) {
            Some(Change::Recorded(entry)) if entry.object.number.vnode == vnode => Some(Some(entry)),
            _ => Some(None),
        }
    }

    pub(crate) fn knows(&self, volume: VolumeId, identity: &[u8]) -> bool {
        self.of(volume, identity).is_some()
    }

    pub(crate) fn put(&mut self, volume: VolumeId, identity: Box<[u8]>, change: Change) {
        let vnode = match &change {
            Change::Recorded(entry) => entry.object.number.vnode,
            Change::Forgotten(vnode) => *vnode,
        };
        self.vnodes.insert((volume, vnode), identity.clone());
        self.objects.insert((volume, identity), change);
    }

    /// What is told of a volume that goes is not written.
    pub(crate) fn drop_volume(&mut self, volume: VolumeId) {
        self.objects.retain(|(of, _), _| *of != volume);
        self.vnodes.retain(|(of, _), _| *of != volume);
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (VolumeId, &[u8], &Change)> {
        self.objects.iter().map(|((volume, identity), change)| (*volume, &**identity, change))
    }

    /// Takes back what could not be committed; what was told since is newer.
    pub(crate) fn put_back(&mut self, older: Self) {
        let Self { objects, vnodes, volumes, hosts, next_volume } = older;
        let gone = |pending: &Self, volume: VolumeId| matches!(pending.volumes.get(&volume), Some(None));
        for (key, change) in objects {
            if !gone(self, key.0) {
                self.objects.entry(key).or_insert(change);
            }
        }
        for (key, identity) in vnodes {
            if !gone(self, key.0) {
                self.vnodes.entry(key).or_insert(identity);
            }
        }
        for (volume, record) in volumes {
            self.volumes.entry(volume).or_insert(record);
        }
        for (host, record) in hosts {
            self.hosts.entry(host).or_insert(record);
        }
        self.next_volume = self.next_volume.max(next_volume);
    }
}
