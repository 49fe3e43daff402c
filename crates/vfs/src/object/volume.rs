//! What lanes share of a writable volume: one for each, process-wide, whichever of them has it open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use index::VolumeId;

use super::Objects;
use super::gate::Gate;
use crate::attributes::FileId;
use crate::spec::VolumeName;

/// A writable volume that some lane has open. All lanes that open the same directory under the same name have the same one,
/// also over a reload, and so have all of its [`Object`](super::Object)s.
pub struct SharedVolume {
    id: VolumeId,
    name: VolumeName,
    /// Its directory. As long as this lives a lane has that open, so the number names no other.
    root: FileId,
    pub(super) gate: Gate,
    is_swept: AtomicBool,
    objects: Objects,
}

/// The volumes of a process that are open.
#[derive(Default)]
pub(super) struct Volumes {
    open: Vec<Weak<SharedVolume>>,
    next: u32,
}

impl Volumes {
    /// The volume of this name and directory: the one that is open, or a new one.
    pub(super) fn get(&mut self, objects: &Objects, name: &VolumeName, root: FileId) -> Arc<SharedVolume> {
        self.open.retain(|volume| volume.strong_count() > 0);
        let mut known = self.open.iter().filter_map(Weak::upgrade);
        if let Some(volume) = known.find(|volume| volume.name == *name && volume.root == root) {
            return volume;
        }
        self.next += 1;
        let (id, name, objects) = (VolumeId(self.next), name.clone(), objects.clone());
        let gate = Gate::new(objects.options().lanes_max);
        let volume =
            Arc::new(SharedVolume { id, name, root, gate, is_swept: AtomicBool::new(false), objects });
        self.open.push(Arc::downgrade(&volume));
        volume
    }

    pub(super) fn open(&self) -> Vec<Arc<SharedVolume>> {
        self.open.iter().filter_map(Weak::upgrade).collect()
    }
}

impl SharedVolume {
    /// Its number, which it keeps for ever.
    pub fn id(&self) -> VolumeId {
        self.id
    }

    /// Whether nobody has begun to look through it for what a crash left.
    pub(crate) fn begin_sweep(&self) -> bool {
        !self.is_swept.swap(true, Ordering::Relaxed)
    }

    /// Its directory.
    pub fn root(&self) -> FileId {
        self.root
    }

    /// How clients name it.
    pub fn name(&self) -> &VolumeName {
        &self.name
    }

    /// The objects of its process.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }
}

impl std::fmt::Debug for SharedVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedVolume").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
