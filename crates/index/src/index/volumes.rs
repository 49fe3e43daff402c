//! Volumes: creation, opening with their mark, removal.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{Index, IndexState, OpenVolume};
use crate::range::Ranges;
use crate::{Error, Mark, OpenedVolume, Quota, Standing, Tree, Usage, VolumeId, VolumeRecord};

impl Index {
    /// Returns all volumes, ordered by number.
    pub fn volumes(&self) -> Vec<(VolumeId, VolumeRecord)> {
        self.shared().state().volumes.iter().map(|(volume, record)| (*volume, record.clone())).collect()
    }

    /// Returns the volume of this name.
    pub fn volume(&self, name: &str) -> Option<(VolumeId, VolumeRecord)> {
        self.shared().state().named(name).map(|(volume, record)| (volume, record.clone()))
    }

    /// Returns the record of a volume.
    pub fn volume_of(&self, volume: VolumeId) -> Option<VolumeRecord> {
        self.shared().state().volumes.get(&volume).cloned()
    }

    /// Opens the volume of this tree, and makes it where neither index nor mark knows it. Its generation is
    /// committed on return. Waits for the disk.
    ///
    /// # Errors
    /// [`Error::OtherTree`] and [`Error::BadMark`] (`docs/design/index.md`, "The volume's mark").
    pub fn open_volume(&self, tree: Tree<'_>, now: SystemTime) -> Result<OpenedVolume, Error> {
        let Tree { name, path, .. } = tree;
        if name.len() > NAME_MAX || path.len() > PATH_MAX {
            let (what, max) = if name.len() > NAME_MAX {
                ("a volume's name", NAME_MAX)
            } else {
                ("a volume's path", PATH_MAX)
            };
            return Err(Error::TooLong { what, max });
        }
        let mark = match tree.mark {
            None => None,
            Some(bytes) => Some(Mark::parse(bytes).ok_or_else(|| Error::BadMark(name.to_owned()))?),
        };
        let opened = {
            let mut state = self.shared().state();
            let (volume, mut record, index_was_behind) = state.settle(&tree, mark, now)?;
            let seconds = u32::try_from(since_1970(now)).unwrap_or(u32::MAX);
            let generation_before = record.generation;
            record.generation = seconds.max(record.generation.saturating_add(1));
            let is_settled = record.usage_is_settled && !record.distrust_all && !index_was_behind;
            if record.distrust_all || index_was_behind {
                record.distrusts_before = record.generation;
                record.distrust_all = false;
            }
            // What the file system gives out again it may give to other files than then.
            let tree_was_behind = mark.is_some_and(|mark| record.is_ahead_of(&mark));
            if tree_was_behind {
                let slots = state.pending.drop_objects(volume);
                state.free(slots);
                state.pending.cleared.push(volume);
            }
            if record.counts_from == 0 || index_was_behind || tree_was_behind {
                record.counts_from = record.generation;
            }
            let usage = (is_settled && !tree_was_behind).then_some(record.usage);
            record.usage_is_settled = false;
            let mut ranges = Ranges::after(record.directories_to, record.files_to);
            (record.directories_to, record.files_to) = ranges.wanted();
            ranges.extend(record.directories_to, record.files_to);
            let (mark, first) = (record.mark(volume), record.first());
            let distrusts_before = record.distrusts_before;
            state.open.insert(volume, OpenVolume { ranges, first, is_marked: false });
            state.put_volume(volume, record);
            let is_remembered = !index_was_behind && !tree_was_behind;
            let generation_before = is_remembered.then_some(generation_before);
            OpenedVolume {
                volume,
                mark,
                first,
                index_was_behind,
                tree_was_behind,
                usage,
                distrusts_before,
                generation_before,
            }
        };
        if let Err(error) = self.flush() {
            self.close_volume(opened.volume);
            return Err(error);
        }
        Ok(opened)
    }

    /// Notes that the root has `mark`, synced: numbers below the mark's counters may be given out.
    pub fn marked(&self, volume: VolumeId, mark: &Mark) {
        let mut state = self.shared().state();
        if let Some(open) = state.open.get_mut(&volume) {
            open.is_marked = true;
            open.ranges.extend(mark.directories_to, mark.files_to);
        }
        if let Some(mut record) =
            state.volumes.get(&volume).filter(|known| known.marked < mark.generation).cloned()
        {
            record.marked = mark.generation;
            state.put_volume(volume, record);
        }
    }

    /// Records whether access lists or descriptors lie in the volume, so that their loss is noticed.
    pub fn note_rights(&self, volume: VolumeId, has_rights: bool) {
        let mut state = self.shared().state();
        if let Some(mut record) =
            state.volumes.get(&volume).filter(|known| known.has_rights != has_rights).cloned()
        {
            record.has_rights = has_rights;
            state.put_volume(volume, record);
        }
    }

    /// Records whether files of the volume may have extended attributes that count as usage. Never waits.
    pub fn note_attributes(&self, volume: VolumeId, has_attributes: bool) {
        let mut state = self.shared().state();
        if let Some(mut record) =
            state.volumes.get(&volume).filter(|known| known.has_attributes != has_attributes).cloned()
        {
            record.has_attributes = has_attributes;
            state.put_volume(volume, record);
        }
    }

    /// Returns whether a volume of this name, or one at this path, has had access lists or descriptors.
    pub fn had_rights(&self, name: &str, path: &str) -> bool {
        let state = self.shared().state();
        state.volumes.values().any(|record| record.has_rights && (record.name == name || record.path == path))
    }

    /// Returns whether [`Index::next_mark`] is due. Never waits.
    pub fn wants_mark(&self, volume: VolumeId) -> bool {
        self.shared().state().open.get(&volume).is_some_and(|open| open.ranges.is_low())
    }

    /// Returns a mark with more numbers when half of them are used: the caller writes and syncs it, then
    /// calls [`Index::marked`]. Waits for the disk.
    ///
    /// # Errors
    /// When the index could not be written.
    pub fn next_mark(&self, volume: VolumeId) -> Result<Option<Mark>, Error> {
        let mark = {
            let mut state = self.shared().state();
            let Some(open) = state.open.get(&volume).filter(|open| open.ranges.is_low()) else {
                return Ok(None);
            };
            let wanted = open.ranges.wanted();
            let mut record = state.record(volume)?.clone();
            (record.directories_to, record.files_to) = wanted;
            let mark = record.mark(volume);
            state.put_volume(volume, record);
            mark
        };
        self.flush()?;
        Ok(Some(mark))
    }

    /// Gives a volume another name; one that has that name gets the old one. It lasts with the next write.
    pub fn rename_volume(&self, volume: VolumeId, name: &str) {
        let mut state = self.shared().state();
        let Some(mut record) = state.volumes.get(&volume).filter(|known| known.name != name).cloned() else {
            return;
        };
        if let Some((other, of_other)) = state.named(name) {
            let (other, of_other) = (other, VolumeRecord { name: record.name.clone(), ..of_other.clone() });
            state.put_volume(other, of_other);
        }
        record.name = name.to_owned();
        state.put_volume(volume, record);
    }

    /// Closes a volume that is no longer served; it may be opened again.
    pub fn close_volume(&self, volume: VolumeId) {
        self.shared().state().open.remove(&volume);
    }

    /// Removes a volume with all its numbers and versions from the index; the tree and its mark stay. Waits
    /// for the disk.
    ///
    /// # Errors
    /// [`Error::NoVolume`], and when the index could not be written.
    pub fn remove_volume(&self, name: &str) -> Result<VolumeId, Error> {
        let volume = {
            let mut state = self.shared().state();
            let (volume, _) = state.named(name).ok_or_else(|| Error::NoVolume(name.to_owned()))?;
            state.open.remove(&volume);
            state.volumes.remove(&volume);
            state.begun.remove(&volume);
            let slots = state.pending.drop_volume(volume);
            state.free(slots);
            state.pending.volumes.insert(volume, None);
            state.tell();
            volume
        };
        self.flush()?;
        Ok(volume)
    }

    /// Sets the quota of the volume.
    ///
    /// # Errors
    /// [`Error::NoVolume`].
    pub fn set_quota(&self, volume: VolumeId, quota: Quota) -> Result<(), Error> {
        self.change_volume(volume, |record| record.quota = quota)
    }

    /// Records the volume's usage as its owner has counted it. `is_settled` says that no lane changes the
    /// volume any more: the next opening gets the usage ([`OpenedVolume::usage`]), if all changes are
    /// committed.
    ///
    /// # Errors
    /// [`Error::NoVolume`].
    pub fn record_usage(&self, volume: VolumeId, usage: Usage, is_settled: bool) -> Result<(), Error> {
        let known =
            |state: &IndexState| state.record(volume).map(|known| (known.usage, known.usage_is_settled));
        if known(&self.shared().state())? == (usage, is_settled) {
            return Ok(());
        }
        self.change_volume(volume, |record| (record.usage, record.usage_is_settled) = (usage, is_settled))
    }

    /// Compares the record of a volume that is not open with the mark on its root.
    ///
    /// # Errors
    /// [`Error::NoVolume`].
    pub fn standing(&self, volume: VolumeId, mark: &Mark) -> Result<Standing, Error> {
        let state = self.shared().state();
        let record = state.record(volume)?;
        Ok(match () {
            () if (mark.volume, mark.uuid) != (volume, record.uuid) => Standing::Another,
            () if record.is_behind(mark) => Standing::IndexBehind,
            () if record.is_ahead_of(mark) => Standing::TreeBehind,
            () => Standing::Agrees,
        })
    }

    /// Returns the mark that the volume's root should have, as of its last opening.
    ///
    /// # Errors
    /// [`Error::NoVolume`].
    pub fn mark_of(&self, volume: VolumeId) -> Result<Mark, Error> {
        self.shared().state().record(volume).map(|record| record.mark(volume))
    }

    /// Returns the generation that the volume was last opened with.
    pub(crate) fn generation(&self, volume: VolumeId) -> Result<u32, Error> {
        self.shared().state().record(volume).map(|record| record.generation)
    }

    /// Returns the counters of directories and files below which numbers may have been given out.
    pub(crate) fn reserved(&self, volume: VolumeId) -> Result<(u64, u64), Error> {
        self.shared().state().record(volume).map(|record| (record.directories_to, record.files_to))
    }

    fn change_volume(&self, volume: VolumeId, change: impl FnOnce(&mut VolumeRecord)) -> Result<(), Error> {
        let mut state = self.shared().state();
        let mut record = state.record(volume)?.clone();
        change(&mut record);
        state.put_volume(volume, record);
        Ok(())
    }
}

impl IndexState {
    pub(super) fn record(&self, volume: VolumeId) -> Result<&VolumeRecord, Error> {
        self.volumes.get(&volume).ok_or_else(|| Error::NoVolume(volume.to_string()))
    }

    fn named(&self, name: &str) -> Option<(VolumeId, &VolumeRecord)> {
        self.volumes.iter().find(|(_, record)| record.name == name).map(|(volume, record)| (*volume, record))
    }

    fn put_volume(&mut self, volume: VolumeId, record: VolumeRecord) {
        self.pending.volumes.insert(volume, Some(record.clone()));
        self.volumes.insert(volume, record);
        self.tell();
    }

    /// Returns the volume of a tree with its record, and whether the mark is ahead of the index.
    fn settle(
        &mut self,
        tree: &Tree<'_>,
        mark: Option<Mark>,
        now: SystemTime,
    ) -> Result<(VolumeId, VolumeRecord, bool), Error> {
        let Tree { name, path, uuid_if_new, .. } = *tree;
        let other = |why| Error::OtherTree { volume: name.to_owned(), why };
        let named = self.named(name).map(|(volume, record)| (volume, record.clone()));
        let Some(mark) = mark else {
            return match named {
                // It was made, and its maker was gone before the root bore its mark.
                Some((volume, record)) if record.marked == 0 && record.path == path => {
                    Ok((volume, record, false))
                }
                Some((_, record)) if record.path == path => {
                    Err(other("the extended attribute that identifies it is gone"))
                }
                Some(_) => Err(other("it is another directory, which was not served before")),
                None => Ok((self.next_number(), new_record(name, path, uuid_if_new, now), false)),
            };
        };
        if named.is_some_and(|(volume, record)| (volume, record.uuid) != (mark.volume, mark.uuid)) {
            return Err(other("it is the directory of another volume"));
        }
        let (mut record, is_known) = match self.volumes.get(&mark.volume) {
            Some(record) if record.uuid == mark.uuid => (record.clone(), true),
            Some(_) => return Err(other("another volume has its number")),
            None => (new_record(name, path, mark.uuid, now), false),
        };
        if self.open.contains_key(&mark.volume) {
            return Err(other("another volume serves this directory, or one that it is a copy of"));
        }
        let is_ahead = record.is_behind(&mark);
        record.name = name.to_owned();
        record.path = path.to_owned();
        record.generation = record.generation.max(mark.generation);
        record.directories_to = record.directories_to.max(mark.directories_to);
        record.files_to = record.files_to.max(mark.files_to);
        self.number_is_taken(mark.volume);
        Ok((mark.volume, record, !is_known || is_ahead))
    }

    fn next_number(&mut self) -> VolumeId {
        let volume = VolumeId(self.next_volume);
        self.number_is_taken(volume);
        volume
    }

    /// Moves the next volume number above `volume`.
    fn number_is_taken(&mut self, volume: VolumeId) {
        let next = volume.0.saturating_add(NUMBERS_OF_A_VOLUME);
        if next > self.next_volume {
            self.next_volume = next;
            self.pending.next_volume = Some(next);
        }
    }
}

fn new_record(name: &str, path: &str, uuid: [u8; 16], now: SystemTime) -> VolumeRecord {
    VolumeRecord {
        uuid,
        name: name.to_owned(),
        path: path.to_owned(),
        created: since_1970(now).cast_signed(),
        generation: 0,
        usage: Usage::default(),
        usage_is_settled: false,
        quota: Quota::default(),
        has_rights: false,
        has_attributes: true,
        marked: 0,
        counts_from: 0,
        distrusts_before: 0,
        distrust_all: false,
        directories_to: 0,
        files_to: 0,
    }
}

fn since_1970(now: SystemTime) -> u64 {
    now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Numbers that a volume takes: the tree, its read-only and its backup copy.
const NUMBERS_OF_A_VOLUME: u32 = 3;
const NAME_MAX: usize = 80;
const PATH_MAX: usize = 4096;
