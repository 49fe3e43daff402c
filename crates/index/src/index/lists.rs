//! Directories that have access lists or descriptors of their own.

use redb::ReadableDatabase;

use super::{Index, IndexState};
use crate::lists::{self, LayerEntry, ListRecord, Lists, NOWHERE, RecordedList};
use crate::{Error, VolumeId};

impl Index {
    /// Records that the directory of this path has a list or descriptor of its own, or has none (`None`).
    /// Never waits.
    pub fn record_list(&self, volume: VolumeId, path: &[u8], record: Option<ListRecord>) {
        self.record_lists(|lists| lists.put(volume, path, record));
    }

    /// Moves the records at and beneath `from` to `to`, where they replace others; the disk may not have
    /// these names yet. Never waits.
    pub fn move_lists(&self, volume: VolumeId, from: &[u8], to: &[u8]) {
        self.record_lists(|lists| lists.rename(volume, from, to));
    }

    /// Exchanges the records of two paths, neither of which lies beneath the other. Never waits.
    pub fn exchange_lists(&self, volume: VolumeId, one: &[u8], other: &[u8]) {
        self.record_lists(|lists| {
            lists.rename(volume, one, NOWHERE);
            lists.rename(volume, other, one);
            lists.rename(volume, NOWHERE, other);
        });
    }

    /// Forgets the records at this path and beneath, as a directory made there later has lost no list. If
    /// there were any, the removal is safe on return. May wait for the disk.
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

    /// Returns records of lists that the disk may not have yet: the first `most` behind a path, in the order of paths.
    /// Commits all earlier changes first.
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

    /// Notes that the disk has the list and the name of this path, if its record is still `record`. May wait
    /// for the disk.
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

    /// Returns the record of a directory by path, except one of an earlier boot that the disk may not have
    /// had when the power failed. May wait for the disk.
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

/// Most attempts while others change the lists.
const SYNCED_ATTEMPTS: u32 = 4;
