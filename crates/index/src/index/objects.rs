//! Objects: their numbers and versions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redb::ReadableDatabase;

use super::{Index, Shared, State};
use crate::object::{Entry, check_lengths};
use crate::pending::Change;
use crate::tables::{IDENTITIES, OBJECTS};
use crate::{Error, Kind, Known, Loaded, Number, ObjectRecord, Place, Seen, Version, VolumeId};

impl Index {
    /// What is known of a file as it is used for the first time: its record, where what is `seen` bears it out, with the
    /// next version where it does not. A file that was not known gets a number. May wait for the disk.
    ///
    /// # Errors
    /// [`Error::Full`] when too much is not committed, or the numbers at hand are used up: call [`Index::flush`] and
    /// [`Index::next_mark`], then again. What the storage says.
    pub fn load(
        &self,
        volume: VolumeId,
        identity: &[u8],
        kind: Kind,
        seen: Seen,
        now: SystemTime,
    ) -> Result<Loaded, Error> {
        check_lengths(identity, &Place::default())?;
        let shared = self.shared();
        let told = shared.state().told_of(volume, identity);
        let known = match told {
            Some(told) => told,
            None => shared.read_entry(volume, identity)?,
        };
        let mut state = shared.state();
        // Another may have loaded or changed it while the file was read.
        let known = state.told_of(volume, identity).unwrap_or(known);
        let distrusts_before = state.record(volume)?.distrusts_before;
        let generation = state.record(volume)?.generation;
        let first = Version { generation, count: 0 };
        let object = match known {
            Some(entry) => {
                let is_of_this_run = entry.recorded == generation;
                let is_sound = is_of_this_run || (entry.settled && entry.recorded >= distrusts_before);
                if entry.object.seen == seen && is_sound {
                    return Ok(Loaded { object: entry.object, is_new: false });
                }
                let version = entry.object.version.next().max(first);
                (ObjectRecord { version, seen, ..entry.object }, false)
            }
            None => {
                shared.check_room(&state)?;
                let number = state.take_number(volume, kind)?;
                (ObjectRecord { number, version: first, seen, place: Place::default() }, true)
            }
        };
        let (object, is_new) = object;
        state.put(volume, identity, object.clone(), now)?;
        Ok(Loaded { object, is_new })
    }

    /// A file has this number, version and place from now on. Waits for nobody.
    ///
    /// # Errors
    /// [`Error::Full`]: flush, then again. [`Error::NoVolume`], [`Error::TooLong`].
    pub fn record(
        &self,
        volume: VolumeId,
        identity: &[u8],
        object: ObjectRecord,
        now: SystemTime,
    ) -> Result<(), Error> {
        check_lengths(identity, &object.place)?;
        let mut state = self.shared().state();
        if !state.pending.knows(volume, identity) {
            self.shared().check_room(&state)?;
        }
        state.put(volume, identity, object, now)?;
        let is_half_full = state.pending.len() * 2 >= self.shared().options.pending_max;
        if is_half_full {
            self.shared().bell.notify_all();
        }
        Ok(())
    }

    /// The file is gone for ever, and its number with it.
    pub fn forget(&self, volume: VolumeId, identity: &[u8], number: Number) {
        let mut state = self.shared().state();
        state.pending.put(volume, identity.into(), Change::Forgotten(number.vnode));
        state.tell();
    }

    /// What has this number, and the words it is found by. May wait for the disk.
    ///
    /// # Errors
    /// What the storage says.
    pub fn find(&self, volume: VolumeId, number: Number) -> Result<Option<Known>, Error> {
        let told = self.shared().state().numbered(volume, number.vnode);
        let entry = match told {
            Some(told) => told,
            None => self.shared().read_numbered(volume, number.vnode)?,
        };
        let entry = entry.filter(|entry| entry.object.number == number);
        Ok(entry.map(|entry| Known { identity: entry.identity, object: entry.object }))
    }

    /// A number that nothing ever had, for a file that is about to be made.
    ///
    /// # Errors
    /// [`Error::Full`] when the numbers at hand are used up: [`Index::next_mark`], then again.
    pub fn new_number(&self, volume: VolumeId, kind: Kind) -> Result<Number, Error> {
        self.shared().state().take_number(volume, kind)
    }
}

impl State {
    /// What waits to be committed says of it; `Some(None)`: that it is gone.
    fn told_of(&self, volume: VolumeId, identity: &[u8]) -> Option<Option<Entry>> {
        let underway = || self.underway.as_ref()?.of(volume, identity);
        let change = self.pending.of(volume, identity).or_else(underway)?;
        Some(match change {
            Change::Recorded(entry) => Some(entry.clone()),
            Change::Forgotten(_) => None,
        })
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

    fn put(
        &mut self,
        volume: VolumeId,
        identity: &[u8],
        object: ObjectRecord,
        now: SystemTime,
    ) -> Result<(), Error> {
        let recorded = self.record(volume)?.generation;
        let settled = is_settled(&object.seen, now);
        let entry = Entry { object, recorded, settled, identity: identity.into() };
        self.pending.put(volume, identity.into(), Change::Recorded(entry));
        self.tell();
        Ok(())
    }
}

impl Shared {
    fn check_room(&self, state: &State) -> Result<(), Error> {
        let underway = state.underway.as_ref().map_or(0, |pending| pending.len());
        if state.pending.len() + underway < self.options.pending_max {
            return Ok(());
        }
        self.bell.notify_all();
        Err(Error::Full)
    }

    fn read_entry(&self, volume: VolumeId, identity: &[u8]) -> Result<Option<Entry>, Error> {
        self.with_database(|database| {
            let read = database.begin_read()?;
            let Some(vnode) = read.open_table(IDENTITIES)?.get((volume.0, identity))? else {
                return Ok(None);
            };
            let vnode = vnode.value();
            let record = read.open_table(OBJECTS)?.get((volume.0, vnode))?;
            let record = record.ok_or_else(|| Error::Damaged(format!("object {vnode} is missing")))?;
            Entry::decode(vnode, record.value()).map(Some)
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

/// The kernel's clock for stamps has gone on since: another change would have another time.
fn is_settled(seen: &Seen, now: SystemTime) -> bool {
    let Ok(secs) = u64::try_from(seen.changed.secs) else { return true };
    let changed = UNIX_EPOCH + Duration::new(secs, seen.changed.nanos);
    now.duration_since(changed).is_ok_and(|age| age > TICK_MAX)
}

/// Longer than a tick of any kernel (10 ms at 100 Hz).
const TICK_MAX: Duration = Duration::from_millis(20);
