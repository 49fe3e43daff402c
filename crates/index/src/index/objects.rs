//! Records of objects: their numbers and versions.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use redb::{Database, ReadableDatabase};

use super::{Index, IndexShared, IndexState, OpenVolume};
use crate::journal::{Journal, RecoveredFiles};
use crate::journal_layout::Slot;
use crate::object::Changing;
use crate::object::{ObjectEntry, check_lengths};
use crate::pending::ObjectChange;
use crate::tables::{IDENTITIES, OBJECTS};
use crate::{
    Error, FileStamp, FirstUse, Kind, Known, Listed, ListedAs, Loaded, Number, ObjectRecord, Place, PlaceRef,
    Timestamp, Version, VolumeId,
};

impl Index {
    /// Returns the record of a file at its first use, with the next version where `seen` does not confirm the
    /// recorded one. An unknown file gets a number. May wait for the disk.
    ///
    /// # Errors
    /// [`Error::Full`] when too much is not committed, or the numbers at hand are used up: call [`Index::flush`] and
    /// [`Index::next_mark`], then again. What the storage says.
    pub fn load(&self, volume: VolumeId, of: FirstUse<'_>) -> Result<Loaded, Error> {
        let read = self.entry(volume, of.identity)?;
        // Another may have loaded or changed it while the file was read.
        self.load_from(volume, of, |told| Some(told.unwrap_or(read))).expect("it was read")
    }

    /// Loads a record without the disk ([`Index::load`]); `None` where the disk must be read.
    ///
    /// # Errors
    /// As [`Index::load`].
    pub fn try_load(&self, volume: VolumeId, of: FirstUse<'_>) -> Option<Result<Loaded, Error>> {
        self.load_from(volume, of, |told| told)
    }

    /// Loads a record from uncommitted changes, or from what `known` makes of them.
    fn load_from(
        &self,
        volume: VolumeId,
        of: FirstUse<'_>,
        known: impl FnOnce(Option<Option<ObjectEntry>>) -> Option<Option<ObjectEntry>>,
    ) -> Option<Result<Loaded, Error>> {
        let place = of.place.map(PlaceRef::to_place).unwrap_or_default();
        if let Err(error) = check_lengths(of.identity, &place) {
            return Some(Err(error));
        }
        let shared = self.shared();
        let mut state = shared.state();
        if let Some(number) = state.begun_as(volume, of.identity) {
            // Its maker tells the index of it.
            let version = state.open_one(volume).map(|open| open.first);
            let object = version.map(|version| ObjectRecord { number, version, seen: of.seen, place });
            return Some(object.map(|object| Loaded { object, is_new: false }));
        }
        let known = known(state.pending_change(volume, of.identity))?;
        let loaded = state.load(volume, of, place, known, self.is_full());
        shared.count(&state);
        Some(loaded)
    }

    /// Gives a new number to a file that was just made. The number is the file's from now on, whichever lane
    /// finds the file, until it is [recorded](Index::record) or [given up](Index::give_up). `None` where
    /// another lane has found the file before: [`Index::load`] returns the number it got. Never waits.
    ///
    /// # Errors
    /// [`Error::Full`] when the numbers at hand are used up: [`Index::next_mark`], then again.
    pub fn begin(&self, volume: VolumeId, identity: &[u8], kind: Kind) -> Result<Option<Number>, Error> {
        let mut state = self.shared().state();
        if state.begun_as(volume, identity).is_some() || state.pending_change(volume, identity).is_some() {
            return Ok(None);
        }
        let number = state.take_number(volume, kind)?;
        state.begun.entry(volume).or_default().insert(identity.into(), number);
        Ok(Some(number))
    }

    /// Reserves room for one more record, of a file that is about to change. Before the first change of each
    /// file, the changing lane checks whether the index [is full](Index::is_full). Changes noted in the slot
    /// outlive a kill.
    pub fn reserve(&self, volume: VolumeId, of: Changing<'_>) -> Slot {
        self.shared().reserved.fetch_add(1, Ordering::Relaxed);
        self.journal().map_or(Slot::NONE, |journal| journal.take(volume, of, None))
    }

    /// Returns a reserved slot that is not needed.
    pub fn give_back(&self, slot: Slot) {
        self.end_reservation();
        self.journal().into_iter().for_each(|journal| journal.free(slot));
    }

    fn end_reservation(&self) {
        let before = self.shared().reserved.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "what ends was reserved");
    }

    /// Gives up a file that was [begun](Index::begin) and is gone, with its reservation.
    pub fn give_up(&self, volume: VolumeId, identity: &[u8], slot: Slot) {
        self.shared().state().end(volume, identity);
        self.give_back(slot);
    }

    /// Notes that the file's content is about to change to `version`, or its change time to change: until
    /// [`Index::changed`] no stamp confirms its version.
    pub fn changing(&self, slot: Slot, version: Version, now: SystemTime) {
        self.journal().into_iter().for_each(|journal| journal.changing(slot, version, now));
    }

    /// Notes that the change under way has left the file in this version.
    pub fn fell_back(&self, slot: Slot, version: Version) {
        self.journal().into_iter().for_each(|journal| journal.fell_back(slot, version));
    }

    /// Notes that the change is over: later change times are not its own.
    pub fn changed(&self, slot: Slot, now: SystemTime) {
        let Some(journal) = self.journal() else { return };
        if journal.changed(slot, now) {
            self.shared().bell.notify_all();
        }
    }

    /// Notes the file's change time with its version; `None` where another program has changed the file.
    pub fn seen(&self, slot: Slot, changed: Option<Timestamp>) {
        self.journal().into_iter().for_each(|journal| journal.seen(slot, changed));
    }

    /// Notes the file's present place.
    pub fn placed(&self, slot: Slot, place: Option<PlaceRef<'_>>) {
        self.journal().into_iter().for_each(|journal| journal.placed(slot, place));
    }

    /// Notes that the server lives at this time: a change by another program after its end has a later one.
    /// To be called every [`BEAT`](crate::BEAT) or so while files change, as the
    /// [`Committer`](crate::Committer) does.
    pub fn beat(&self, now: SystemTime) {
        if let Some(journal) = self.journal() {
            journal.beat(now);
        }
    }

    fn journal(&self) -> Option<&Journal> {
        self.shared().journal.as_deref()
    }

    /// Returns whether uncommitted and reserved records have reached their bound: flush before further
    /// changes. One atomic read.
    pub fn is_full(&self) -> bool {
        let shared = self.shared();
        let waiting = shared.waiting.load(Ordering::Relaxed);
        waiting + shared.reserved.load(Ordering::Relaxed) >= shared.options.pending_max
    }

    /// Records the number, version and place of a file, as [reserved](Index::reserve). Never waits. `settled`
    /// says that the stamp was [settled](FileStamp::is_settled) when it was taken. A place with parent 0 is
    /// unknown, and keeps the recorded one.
    ///
    /// # Errors
    /// [`Error::NoVolume`], [`Error::TooLong`]; nothing is reserved any more then either.
    pub fn record(
        &self,
        volume: VolumeId,
        identity: &[u8],
        object: ObjectRecord,
        settled: bool,
        slot: Slot,
    ) -> Result<(), Error> {
        self.end_reservation();
        let mut state = self.shared().state();
        state.end(volume, identity);
        let recorded = check_lengths(identity, &object.place)
            .and_then(|()| state.record_object(volume, identity, object, settled, slot));
        if recorded.is_err() {
            state.free([slot]);
        }
        self.shared().count(&state);
        recorded
    }

    /// Notes that the file has lost its last name: a kill before [`Index::forget`] leaves it known as gone.
    pub fn going(&self, slot: Slot) {
        self.journal().into_iter().for_each(|journal| journal.gone(slot));
    }

    /// Forgets a file that is gone for ever, with its number and the slot [reserved](Index::reserve) for it.
    pub fn forget(&self, volume: VolumeId, identity: &[u8], number: Number, slot: Option<Slot>) {
        if slot.is_some() {
            self.end_reservation();
        }
        let mut state = self.shared().state();
        state.end(volume, identity);
        let gone = ObjectChange::Forgotten { number, slot: slot.unwrap_or_default() };
        state.put_pending(volume, identity.into(), gone);
        self.shared().count(&state);
    }

    /// Returns the file with this number, and its identity. May wait for the disk.
    ///
    /// # Errors
    /// What the storage says.
    pub fn find(&self, volume: VolumeId, number: Number) -> Result<Option<Known>, Error> {
        let known = self.find_vnode(volume, number.vnode)?;
        Ok(known.filter(|known| known.object.number == number))
    }

    /// Returns the file that has this vnode now ([`Index::find`]), as [`Place::parent`] names one.
    ///
    /// # Errors
    /// What the storage says.
    pub fn find_vnode(&self, volume: VolumeId, vnode: u32) -> Result<Option<Known>, Error> {
        let told = self.shared().state().numbered(volume, vnode);
        let entry = match told {
            Some(Some(told)) if told.keeps_place => {
                Some(told.over(self.shared().read_numbered(volume, vnode)?))
            }
            Some(told) => told,
            None => self.shared().read_numbered(volume, vnode)?,
        };
        Ok(entry.map(|entry| Known { identity: entry.identity, object: entry.object }))
    }

    /// Returns the numbers of files that a directory lists, and gives new ones to unknown files. Versions are
    /// not touched. May wait for the disk.
    ///
    /// # Errors
    /// As [`Index::load`]; those before it that were new have their numbers then.
    pub fn numbers(&self, volume: VolumeId, files: &[Listed<'_>]) -> Result<Vec<ListedAs>, Error> {
        let mut numbers = Vec::with_capacity(files.len());
        for files in files.chunks(AT_ONCE) {
            for file in files {
                check_lengths(file.identity, &file.place.to_place())?;
            }
            let told: Vec<_> = {
                let state = self.shared().state();
                files.iter().map(|file| state.pending_change(volume, file.identity)).collect()
            };
            let unknown = files.iter().zip(&told).filter(|(_, told)| told.is_none());
            let read = self.shared().read_entries(volume, unknown.map(|(file, _)| file.identity))?;
            let (mut read, mut state) = (read.into_iter(), self.shared().state());
            for (file, told) in files.iter().zip(told) {
                let known = told.unwrap_or_else(|| read.next().expect("what was not told was read"));
                numbers.push(state.number(volume, *file, known, self.is_full())?);
            }
            self.shared().count(&state);
        }
        Ok(numbers)
    }

    /// Returns the record of a file without checks or changes. May wait for the disk.
    ///
    /// # Errors
    /// What the storage says.
    pub fn look_up(&self, volume: VolumeId, identity: &[u8]) -> Result<Option<ObjectRecord>, Error> {
        Ok(self.entry(volume, identity)?.map(|entry| entry.object))
    }

    /// Returns the entry of a file: an uncommitted change, or else the committed one.
    pub(crate) fn entry(&self, volume: VolumeId, identity: &[u8]) -> Result<Option<ObjectEntry>, Error> {
        let told = self.shared().state().pending_change(volume, identity);
        match told {
            Some(Some(told)) if told.keeps_place => {
                Ok(Some(told.over(self.shared().read_entry(volume, identity)?)))
            }
            Some(told) => Ok(told),
            None => self.shared().read_entry(volume, identity),
        }
    }

    /// Sets the entry of a file.
    pub(crate) fn put_entry(&self, volume: VolumeId, entry: ObjectEntry) {
        let mut state = self.shared().state();
        state.put_pending(volume, entry.identity.clone(), ObjectChange::Recorded(entry));
        self.shared().count(&state);
    }
}

impl IndexState {
    /// Returns the number of a file that was made and not yet recorded.
    fn begun_as(&self, volume: VolumeId, identity: &[u8]) -> Option<Number> {
        self.begun.get(&volume)?.get(identity).copied()
    }

    /// Removes a file from those begun, as its record has the number from now on.
    fn end(&mut self, volume: VolumeId, identity: &[u8]) {
        self.begun.get_mut(&volume).and_then(|begun| begun.remove(identity));
    }

    /// Returns the pending change of an object; `Some(None)` where it is removed.
    fn pending_change(&self, volume: VolumeId, identity: &[u8]) -> Option<Option<ObjectEntry>> {
        for told in std::iter::once(&self.pending).chain(self.underway.as_deref()) {
            match told.of(volume, identity) {
                // What comes of it has a slot of its own.
                Some(ObjectChange::Recorded(entry)) => {
                    return Some(Some(ObjectEntry { slot: Slot::NONE, ..entry.clone() }));
                }
                Some(ObjectChange::Forgotten { .. }) => return Some(None),
                None if told.is_cleared(volume) => return Some(None),
                None => {}
            }
        }
        None
    }

    fn numbered(&self, volume: VolumeId, vnode: u32) -> Option<Option<ObjectEntry>> {
        let underway = || self.underway.as_ref()?.numbered(volume, vnode);
        let told = self.pending.numbered(volume, vnode).or_else(underway)?;
        Some(told.cloned())
    }

    fn take_number(&mut self, volume: VolumeId, kind: Kind) -> Result<Number, Error> {
        let open = self.open.get_mut(&volume).filter(|open| open.is_marked);
        open.ok_or(Error::Full)?.ranges.take(kind).ok_or(Error::Full)
    }

    fn open_one(&self, volume: VolumeId) -> Result<&OpenVolume, Error> {
        self.open.get(&volume).ok_or_else(|| Error::NoVolume(volume.to_string()))
    }

    fn load(
        &mut self,
        volume: VolumeId,
        of: FirstUse<'_>,
        place: Place,
        known: Option<ObjectEntry>,
        is_full: bool,
    ) -> Result<Loaded, Error> {
        let FirstUse { identity, kind, seen, now, .. } = of;
        let first = self.open_one(volume)?.first;
        let keeps_place = known.as_ref().is_some_and(|entry| entry.keeps_place);
        let (object, is_new) = match known {
            Some(entry)
                if entry.is_sound(&seen, self.record(volume)?)
                    && (entry.object.version >= first || !of.is_to_change) =>
            {
                return Ok(Loaded { object: entry.object, is_new: false });
            }
            _ if is_full && !self.pending.knows(volume, identity) => return Err(Error::Full),
            Some(entry) => {
                let version = entry.object.version.next().max(first);
                // The look may have been overtaken by a rename: it is told when the file has been found there
                // for certain.
                let recorded = entry.object.place;
                let is_placed = recorded.parent != 0 && !recorded.name.is_empty();
                let place = if of.place.is_none() || is_placed { recorded } else { place };
                (ObjectRecord { version, seen, place, number: entry.object.number }, false)
            }
            None => {
                let number = self.take_number(volume, kind)?;
                (ObjectRecord { number, version: first, seen, place }, true)
            }
        };
        if let Some(journal) = &self.journal {
            journal.lives(now);
        }
        // A place that is committed is in the way of one that was only looked at.
        let is_settled = seen.is_settled(now);
        self.put(volume, identity, object.clone(), is_settled, keeps_place, Slot::NONE)?;
        Ok(Loaded { object, is_new })
    }

    fn number(
        &mut self,
        volume: VolumeId,
        file: Listed<'_>,
        known: Option<ObjectEntry>,
        is_full: bool,
    ) -> Result<ListedAs, Error> {
        if let Some(number) = self.begun_as(volume, file.identity) {
            return Ok(ListedAs { number, is_elsewhere: false });
        }
        // A name listed twice is one file, and another may have loaded it while it was read.
        let known = self.pending_change(volume, file.identity).unwrap_or(known);
        if let Some(entry) = known {
            let is_elsewhere = entry.object.place.parent != file.place.parent;
            return Ok(ListedAs { number: entry.object.number, is_elsewhere });
        }
        if is_full {
            return Err(Error::Full);
        }
        let number = self.take_number(volume, file.kind)?;
        let (version, seen, place) =
            (self.open_one(volume)?.first, FileStamp::NOTHING, file.place.to_place());
        self.put(
            volume,
            file.identity,
            ObjectRecord { number, version, seen, place },
            false,
            false,
            Slot::NONE,
        )?;
        Ok(ListedAs { number, is_elsewhere: false })
    }

    /// Records an object with its place, or without a known one.
    fn record_object(
        &mut self,
        volume: VolumeId,
        identity: &[u8],
        mut object: ObjectRecord,
        settled: bool,
        slot: Slot,
    ) -> Result<(), Error> {
        let keeps_place = object.place.parent == 0
            && match self.pending_change(volume, identity) {
                Some(Some(told)) if !told.keeps_place && told.object.number == object.number => {
                    object.place = told.object.place;
                    false
                }
                // It was forgotten: what is committed is another's.
                Some(None) => false,
                _ => true,
            };
        self.put(volume, identity, object, settled, keeps_place, slot)
    }

    /// Adds the record of a file to the pending changes; `keeps_place` leaves a committed place as it is.
    fn put(
        &mut self,
        volume: VolumeId,
        identity: &[u8],
        object: ObjectRecord,
        settled: bool,
        keeps_place: bool,
        slot: Slot,
    ) -> Result<(), Error> {
        let recorded = self.record(volume)?.generation;
        let identity: Box<[u8]> = identity.into();
        let entry = ObjectEntry {
            object,
            recorded,
            settled,
            keeps_place,
            looks: None,
            slot,
            identity: identity.clone(),
        };
        self.put_pending(volume, identity, ObjectChange::Recorded(entry));
        Ok(())
    }

    /// Adds a change of a file to the pending ones, and to the journal, so that it outlives a kill.
    fn put_pending(&mut self, volume: VolumeId, identity: Box<[u8]>, mut change: ObjectChange) {
        match (&mut change, &self.journal) {
            (_, None) => {}
            (ObjectChange::Recorded(entry), Some(journal)) => match entry.slot {
                Slot::NONE => entry.slot = journal.take(volume, entry.changing(), entry.window()),
                slot if entry.object.seen != FileStamp::NOTHING => {
                    journal.seen(slot, Some(entry.object.seen.changed));
                }
                // Changed, and not looked at since.
                slot => entry.looks = journal.looks(slot),
            },
            (ObjectChange::Forgotten { number, slot }, Some(journal)) => {
                if *slot == Slot::NONE {
                    let (number, identity) = (*number, &*identity);
                    let of = Changing { identity, number, version: Version::from(0), place: None };
                    *slot = journal.take(volume, of, None);
                }
                journal.gone(*slot);
            }
        }
        let before = self.pending.put(volume, identity, change);
        self.free(before);
        self.tell();
    }

    /// Frees the slots of records that no longer count.
    pub(super) fn free(&self, slots: impl IntoIterator<Item = Slot>) {
        if let Some(journal) = &self.journal {
            slots.into_iter().for_each(|slot| journal.free(slot));
        }
    }

    /// Takes over the journal of a killed server, except where newer records are committed.
    pub(super) fn take_over(&mut self, database: &Database, files: RecoveredFiles) -> Result<(), Error> {
        let read = database.begin_read()?;
        let objects = read.open_table(OBJECTS)?;
        for ((volume, identity), file) in files {
            let Some(generation) = self.volumes.get(&volume).map(|volume| volume.generation) else {
                continue;
            };
            let committed = objects.get((volume.0, file.number.vnode))?;
            let committed =
                committed.map(|record| ObjectEntry::decode(file.number.vnode, record.value())).transpose()?;
            let committed = committed.filter(|entry| entry.identity == identity);
            if file.is_gone() {
                if committed.is_some() {
                    let gone = ObjectChange::Forgotten { number: file.number, slot: Slot::NONE };
                    self.pending.put(volume, identity, gone);
                }
                continue;
            }
            if committed.is_some_and(|committed| committed.object.version > file.version) {
                continue;
            }
            let entry = file.into_entry(identity.clone(), generation);
            self.pending.put(volume, identity, ObjectChange::Recorded(entry));
        }
        Ok(())
    }
}

impl IndexShared {
    /// Updates the count of uncommitted records, and wakes the committer when half of the bound is reached.
    /// Has the committer begin when half of what may does.
    pub(crate) fn count(&self, state: &IndexState) {
        self.waiting.store(state.waiting(), Ordering::Relaxed);
        if self.is_half_full(state) {
            self.bell.notify_all();
        }
    }

    pub(crate) fn is_half_full(&self, state: &IndexState) -> bool {
        state.pending.len() * 2 >= self.options.pending_max
    }

    fn read_entry(&self, volume: VolumeId, identity: &[u8]) -> Result<Option<ObjectEntry>, Error> {
        Ok(self.read_entries(volume, std::iter::once(identity))?.pop().flatten())
    }

    /// Reads the entry of each identity, in order.
    fn read_entries<'a>(
        &self,
        volume: VolumeId,
        all: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<Option<ObjectEntry>>, Error> {
        self.with_database(|database| {
            let read = database.begin_read()?;
            let (identities, objects) = (read.open_table(IDENTITIES)?, read.open_table(OBJECTS)?);
            let one = |identity: &[u8]| {
                let Some(vnode) = identities.get((volume.0, identity))? else { return Ok(None) };
                let vnode = vnode.value();
                let record = objects.get((volume.0, vnode))?;
                let record = record.ok_or_else(|| Error::Damaged(format!("object {vnode} is missing")))?;
                // A volume's own directory may be another file by now, with the same number.
                Ok(Some(ObjectEntry::decode(vnode, record.value())?)
                    .filter(|entry| *entry.identity == *identity))
            };
            all.map(one).collect()
        })
    }

    fn read_numbered(&self, volume: VolumeId, vnode: u32) -> Result<Option<ObjectEntry>, Error> {
        self.with_database(|database| {
            let read = database.begin_read()?;
            let record = read.open_table(OBJECTS)?.get((volume.0, vnode))?;
            record.map(|record| ObjectEntry::decode(vnode, record.value())).transpose()
        })
    }
}

/// Most files whose numbers are looked up at once, between which other lanes get the lock.
const AT_ONCE: usize = 256;
