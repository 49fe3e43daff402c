//! Directories that have access lists or descriptors of their own.

use redb::ReadableDatabase;

use super::{Index, IndexState};
use crate::lists::{self, LayerEntry, ListRecord, Lists, NOWHERE, RecordedList};
use crate::{Error, VolumeId};

impl Index {
    /// The directory of this path has a list or descriptor of its own, or has none: `None`. Never waits.
    pub fn record_list(&self, volume: VolumeId, path: &[u8], record: Option<ListRecord>) {
        self.record_lists(|lists| lists.put(volume, path, record));
    }

    /// Moves what was recorded at and beneath `from` to `to`, in place of what was there; the disk may not
    /// have these names yet. Never waits.
    pub fn move_lists(&self, volume: VolumeId, from: &[u8], to: &[u8]) {
        self.record_lists(|lists| lists.rename(volume, from, to));
    }

    /// Two paths, of which neither lies beneath the other, have changed places. Never waits.
    pub fn exchange_lists(&self, volume: VolumeId, one: &[u8], other: &[u8]) {
        self.record_lists(|lists| {
            lists.rename(volume, one, NOWHERE);
            lists.rename(volume, other, one);
            lists.rename(volume, NOWHERE, other);
        });
    }

    /// Forgets what is recorded at this path and beneath: what is put there next has lost no list. Where anything was it is safe when this
    /// returns, however the server ends then. May wait for the disk.
    ///
    /// # Errors
    /// As [`Index::flush`].
    pub fn forget_lists(&self, volume: VolumeId, path: &[u8]) -> Result<(), Error> {
        let is_told = {
            let state = self.shared().state();
            let mut told = std::iter::once(&state.pending).chain(state.underway.as_deref());
            told.any(|told| told.lists.concern(volume, path))
        };
        let is_there = is_told
            || self
                .shared()
                .with_database(|database| lists::has_any(&database.begin_read()?, volume, path))?;
        if is_there {
            self.record_lists(|lists| lists.clear(volume, path));
            self.flush()?;
        }
        Ok(())
    }

    /// Records of which the disk may have no list yet, the first `most` behind a path, in the order of paths. Commits what was told before.
    ///
    /// # Errors
    /// As [`Index::flush`].
    pub fn unsynced_lists(
        &self,
        volume: VolumeId,
        behind: Option<&[u8]>,
        most: usize,
    ) -> Result<Vec<RecordedList>, Error> {
        self.flush()?;
        let (shared, boot) = (self.shared(), self.shared().options.boot);
        shared.with_database(|database| lists::unsynced(&database.begin_read()?, volume, behind, boot, most))
    }

    /// The disk has the list that is recorded of this path, and its name, if that is still `record`. May wait for the disk.
    ///
    /// # Errors
    /// What the storage says.
    pub fn note_synced_list(&self, volume: VolumeId, path: &[u8], record: ListRecord) -> Result<(), Error> {
        for _ in 0..SYNCED_ATTEMPTS {
            let told = self.shared().state().lists_told;
            if !self.list_at(volume, path)?.is_some_and(|found| found.is_of_same(&record)) {
                return Ok(());
            }
            let mut state = self.shared().state();
            if state.lists_told == told {
                let synced = ListRecord { is_synced: true, ..record };
                self.record_lists_in(&mut state, |lists| lists.put(volume, path, Some(synced)));
                return Ok(());
            }
        }
        // Others tell more meanwhile: it is noted another time.
        Ok(())
    }

    fn record_lists(&self, tell: impl FnOnce(&mut Lists)) {
        self.record_lists_in(&mut self.shared().state(), tell);
    }

    fn record_lists_in(&self, state: &mut IndexState, tell: impl FnOnce(&mut Lists)) {
        let shared = self.shared();
        let is_first = state.pending.lists.is_empty();
        tell(&mut state.pending.lists);
        state.lists_told += 1;
        state.tell();
        shared.count(state);
        if is_first {
            shared.bell.notify_all();
        }
    }

    /// Returns what is recorded of the directory of this path: not what an earlier boot of the machine has
    /// told that the disk may not have had when the power went. May wait for the disk.
    ///
    /// # Errors
    /// What the storage says.
    pub fn list_at(&self, volume: VolumeId, path: &[u8]) -> Result<Option<ListRecord>, Error> {
        let said = {
            let state = self.shared().state();
            let mut said = LayerEntry::Beneath(path.into());
            for told in std::iter::once(&state.pending).chain(state.underway.as_deref()) {
                if let LayerEntry::Beneath(path) = &said {
                    said = told.lists.at(volume, path);
                }
            }
            said
        };
        match said {
            LayerEntry::Record(record) => Ok(record),
            // What is committed meanwhile was told before.
            LayerEntry::Beneath(path) => {
                let boot = self.shared().options.boot;
                self.shared()
                    .with_database(|database| lists::read(&database.begin_read()?, volume, &path, boot))
            }
        }
    }
}

/// Number of times that it is tried while others tell more.
const SYNCED_ATTEMPTS: u32 = 4;
