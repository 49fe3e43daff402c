//! Objects: their numbers and versions.

use std::sync::atomic::Ordering;

use redb::ReadableDatabase;

use super::{Index, Shared, State};
use crate::object::{Entry, check_lengths};
use crate::pending::Change;
use crate::tables::{IDENTITIES, OBJECTS};
use crate::{
    Error, FirstUse, Kind, Known, Listed, ListedAs, Loaded, Number, ObjectRecord, Place, PlaceRef, Seen,
    Version, VolumeId,
};

impl Index {
    /// What is known of a file as it is used for the first time: its record, where what is `seen` bears it out, with the
    /// next version where it does not. A file that was not known gets a number. May wait for the disk.
    ///
    /// # Errors
    /// [`Error::Full`] when too much is not committed, or the numbers at hand are used up: call [`Index::flush`] and
    /// [`Index::next_mark`], then again. What the storage says.
    pub fn load(&self, volume: VolumeId, of: FirstUse<'_>) -> Result<Loaded, Error> {
        let read = self.entry(volume, of.identity)?;
        // Another may have loaded or changed it while the file was read.
        self.load_from(volume, of, |told| Some(told.unwrap_or(read))).expect("it was read")
    }

    /// As [`Index::load`] where the disk need not be asked; `None` where it must be.
    ///
    /// # Errors
    /// As [`Index::load`].
    pub fn try_load(&self, volume: VolumeId, of: FirstUse<'_>) -> Option<Result<Loaded, Error>> {
        self.load_from(volume, of, |told| told)
    }

    /// Loads by what is told of the file and not committed yet, or what `known` makes of that.
    fn load_from(
        &self,
        volume: VolumeId,
        of: FirstUse<'_>,
        known: impl FnOnce(Option<Option<Entry>>) -> Option<Option<Entry>>,
    ) -> Option<Result<Loaded, Error>> {
        let place = of.place.map(PlaceRef::to_place).unwrap_or_default();
        if let Err(error) = check_lengths(of.identity, &place) {
            return Some(Err(error));
        }
        let shared = self.shared();
        let mut state = shared.state();
        let known = known(state.told_of(volume, of.identity))?;
        let loaded = state.load(volume, of, place, known, self.is_full());
        shared.count(&state);
        Some(loaded)
    }

    /// A number that nothing ever had, for a file that is about to be made and cannot be known. Waits for nobody.
    ///
    /// # Errors
    /// [`Error::Full`] when the numbers at hand are used up: [`Index::next_mark`], then again.
    pub fn new_number(&self, volume: VolumeId, kind: Kind) -> Result<Number, Error> {
        self.shared().state().take_number(volume, kind)
    }

    /// Whether somebody has told of this file lately, so that it is not committed yet. Waits for nobody.
    pub fn was_told_of(&self, volume: VolumeId, identity: &[u8]) -> bool {
        self.shared().state().pending.knows(volume, identity)
    }

    /// One record more is to come: of a file that is about to change. Before the first change of each, who changes files
    /// looks whether the index [is full](Index::is_full).
    pub fn reserve(&self) {
        self.shared().reserved.fetch_add(1, Ordering::Relaxed);
    }

    /// What was reserved is not needed.
    pub fn give_back(&self) {
        self.shared().reserved.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether as much as may waits to be committed, or is to come: flush before more is changed. One atomic read.
    pub fn is_full(&self) -> bool {
        let shared = self.shared();
        let waiting = shared.waiting.load(Ordering::Relaxed);
        waiting + shared.reserved.load(Ordering::Relaxed) >= shared.options.pending_max
    }

    /// A file has this number, version and place from now on: what was [reserved](Index::reserve). Waits for nobody. `settled`
    /// says that what was seen of it was [settled](Seen::is_settled) when it was. Of a file whose place is not known now (its
    /// parent is 0) the one stays that was recorded before.
    ///
    /// # Errors
    /// [`Error::NoVolume`], [`Error::TooLong`]; nothing is reserved any more then either.
    pub fn record(
        &self,
        volume: VolumeId,
        identity: &[u8],
        object: ObjectRecord,
        settled: bool,
    ) -> Result<(), Error> {
        self.give_back();
        check_lengths(identity, &object.place)?;
        let mut state = self.shared().state();
        state.record_object(volume, identity, object, settled)?;
        self.shared().count(&state);
        Ok(())
    }

    /// The file is gone for ever, and its number with it.
    pub fn forget(&self, volume: VolumeId, identity: &[u8], number: Number) {
        let mut state = self.shared().state();
        state.pending.put(volume, identity.into(), Change::Forgotten(number.vnode));
        state.tell();
        self.shared().count(&state);
    }

    /// What has this number, and the words it is found by. May wait for the disk.
    ///
    /// # Errors
    /// What the storage says.
    pub fn find(&self, volume: VolumeId, number: Number) -> Result<Option<Known>, Error> {
        let known = self.find_vnode(volume, number.vnode)?;
        Ok(known.filter(|known| known.object.number == number))
    }

    /// As [`Index::find`], of whatever has this vnode now: what [`Place::parent`] names.
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

    /// The numbers of files, as a directory lists them: of each the one that it has, or a new one. Of versions that says nothing. May
    /// wait for the disk.
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
                files.iter().map(|file| state.told_of(volume, file.identity)).collect()
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

    /// The record of a file, whatever it looks like now; nothing comes of asking. May wait for the disk.
    ///
    /// # Errors
    /// What the storage says.
    pub fn look_up(&self, volume: VolumeId, identity: &[u8]) -> Result<Option<ObjectRecord>, Error> {
        Ok(self.entry(volume, identity)?.map(|entry| entry.object))
    }

    /// What is kept of a file: what was told last, else what is committed.
    pub(crate) fn entry(&self, volume: VolumeId, identity: &[u8]) -> Result<Option<Entry>, Error> {
        let told = self.shared().state().told_of(volume, identity);
        match told {
            Some(Some(told)) if told.keeps_place => {
                Ok(Some(told.over(self.shared().read_entry(volume, identity)?)))
            }
            Some(told) => Ok(told),
            None => self.shared().read_entry(volume, identity),
        }
    }

    /// Keeps this of a file from now on.
    pub(crate) fn put_entry(&self, volume: VolumeId, entry: Entry) {
        let mut state = self.shared().state();
        state.pending.put(volume, entry.identity.clone(), Change::Recorded(entry));
        state.tell();
        self.shared().count(&state);
    }
}

impl State {
    /// What waits to be committed says of it; `Some(None)`: that it is gone.
    fn told_of(&self, volume: VolumeId, identity: &[u8]) -> Option<Option<Entry>> {
        for told in std::iter::once(&self.pending).chain(self.underway.as_deref()) {
            match told.of(volume, identity) {
                Some(Change::Recorded(entry)) => return Some(Some(entry.clone())),
                Some(Change::Forgotten(_)) => return Some(None),
                None if told.is_cleared(volume) => return Some(None),
                None => {}
            }
        }
        None
    }

    fn numbered(&self, volume: VolumeId, vnode: u32) -> Option<Option<Entry>> {
        let underway = || self.underway.as_ref()?.numbered(volume, vnode);
        let told = self.pending.numbered(volume, vnode).or_else(underway)?;
        Some(told.cloned())
    }

    fn take_number(&mut self, volume: VolumeId, kind: Kind) -> Result<Number, Error> {
        let open = self.open.get_mut(&volume).filter(|open| open.is_marked);
        open.ok_or(Error::Full)?.ranges.take(kind).ok_or(Error::Full)
    }

    fn first_version(&self, volume: VolumeId) -> Result<Version, Error> {
        let open = self.open.get(&volume).ok_or_else(|| Error::NoVolume(volume.to_string()))?;
        Ok(Version { generation: open.generation, count: 0 })
    }

    fn load(
        &mut self,
        volume: VolumeId,
        of: FirstUse<'_>,
        place: Place,
        known: Option<Entry>,
        is_full: bool,
    ) -> Result<Loaded, Error> {
        let FirstUse { identity, kind, seen, now, .. } = of;
        let distrusts_before = self.record(volume)?.distrusts_before;
        let first = self.first_version(volume)?;
        let keeps_place = known.as_ref().is_some_and(|entry| entry.keeps_place);
        let (object, is_new) = match known {
            Some(entry) if entry.is_sound(&seen, first.generation, distrusts_before) => {
                return Ok(Loaded { object: entry.object, is_new: false });
            }
            _ if is_full && !self.pending.knows(volume, identity) => return Err(Error::Full),
            Some(entry) => {
                let version = entry.object.version.next().max(first);
                // Who looked may have been overtaken by a rename: it is told when the file has been found there for certain.
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
        // A place that is committed is in the way of one that was only looked at.
        let is_settled = seen.is_settled(now);
        self.put(volume, identity, object.clone(), is_settled, keeps_place)?;
        Ok(Loaded { object, is_new })
    }

    fn number(
        &mut self,
        volume: VolumeId,
        file: Listed<'_>,
        known: Option<Entry>,
        is_full: bool,
    ) -> Result<ListedAs, Error> {
        // A name listed twice is one file, and another may have loaded it while it was read.
        let known = self.told_of(volume, file.identity).unwrap_or(known);
        if let Some(entry) = known {
            let is_elsewhere = entry.object.place.parent != file.place.parent;
            return Ok(ListedAs { number: entry.object.number, is_elsewhere });
        }
        if is_full {
            return Err(Error::Full);
        }
        let number = self.take_number(volume, file.kind)?;
        let (version, seen, place) = (self.first_version(volume)?, Seen::NOTHING, file.place.to_place());
        self.put(volume, file.identity, ObjectRecord { number, version, seen, place }, false, false)?;
        Ok(ListedAs { number, is_elsewhere: false })
    }

    /// As it was told: where it lies, or that this is not known.
    fn record_object(
        &mut self,
        volume: VolumeId,
        identity: &[u8],
        mut object: ObjectRecord,
        settled: bool,
    ) -> Result<(), Error> {
        let keeps_place = object.place.parent == 0
            && match self.told_of(volume, identity) {
                Some(Some(told)) if !told.keeps_place && told.object.number == object.number => {
                    object.place = told.object.place;
                    false
                }
                // It was forgotten: what is committed is another's.
                Some(None) => false,
                _ => true,
            };
        self.put(volume, identity, object, settled, keeps_place)
    }

    /// `keeps_place`: where one is committed it stays the object's place.
    fn put(
        &mut self,
        volume: VolumeId,
        identity: &[u8],
        object: ObjectRecord,
        settled: bool,
        keeps_place: bool,
    ) -> Result<(), Error> {
        let recorded = self.record(volume)?.generation;
        let entry = Entry { object, recorded, settled, keeps_place, identity: identity.into() };
        self.pending.put(volume, identity.into(), Change::Recorded(entry));
        self.tell();
        Ok(())
    }
}

impl Shared {
    /// More waits, or less. Has the committer begin when half of what may does.
    pub(crate) fn count(&self, state: &State) {
        self.waiting.store(state.waiting(), Ordering::Relaxed);
        if state.pending.len() * 2 >= self.options.pending_max {
            self.bell.notify_all();
        }
    }

    fn read_entry(&self, volume: VolumeId, identity: &[u8]) -> Result<Option<Entry>, Error> {
        Ok(self.read_entries(volume, std::iter::once(identity))?.pop().flatten())
    }

    /// One for each identity, in their order.
    fn read_entries<'a>(
        &self,
        volume: VolumeId,
        all: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<Option<Entry>>, Error> {
        self.with_database(|database| {
            let read = database.begin_read()?;
            let (identities, objects) = (read.open_table(IDENTITIES)?, read.open_table(OBJECTS)?);
            let one = |identity: &[u8]| {
                let Some(vnode) = identities.get((volume.0, identity))? else { return Ok(None) };
                let vnode = vnode.value();
                let record = objects.get((volume.0, vnode))?;
                let record = record.ok_or_else(|| Error::Damaged(format!("object {vnode} is missing")))?;
                // A volume's own directory may be another file by now, with the same number.
                Ok(Some(Entry::decode(vnode, record.value())?).filter(|entry| *entry.identity == *identity))
            };
            all.map(one).collect()
        })
    }

    fn read_numbered(&self, volume: VolumeId, vnode: u32) -> Result<Option<Entry>, Error> {
        self.with_database(|database| {
            let read = database.begin_read()?;
            let record = read.open_table(OBJECTS)?.get((volume.0, vnode))?;
            record.map(|record| Entry::decode(vnode, record.value())).transpose()
        })
    }
}

/// Files whose numbers are looked up at once, between which others have their turn.
const AT_ONCE: usize = 256;
