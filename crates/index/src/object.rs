//! Records of files and directories.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::codec::Fields;
use crate::journal::{Changing, Slot};
use crate::{Error, Kind, Number, Version, VolumeRecord};

/// A point in time as file systems stamp it, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds.
    pub secs: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// Stamp of a file as the file system shows it now; a record with another stamp is out of date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// The file's change time.
    pub changed: Timestamp,
    /// The file's length in bytes.
    pub size: u64,
}

/// Record of a file in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRecord {
    /// For ever its own.
    pub number: Number,
    /// Version of its content.
    pub version: Version,
    /// Stamp that was seen with that version.
    pub seen: FileStamp,
    /// Place where it was seen.
    pub place: Place,
}

/// A place of a file: by it a file is found where handles do not lead to one. It is a hint, which the tree has to bear out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The directory's vnode; 0 where it is not known.
    pub parent: u32,
    /// The name in it, at most 255 bytes; empty where it had one there and lost it.
    pub name: Vec<u8>,
}

/// A [`Place`] that borrows its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceRef<'a> {
    /// The directory's vnode.
    pub parent: u32,
    /// The name in it.
    pub name: &'a [u8],
}

impl PlaceRef<'_> {
    pub(crate) fn to_place(self) -> Place {
        Place { parent: self.parent, name: self.name.to_vec() }
    }
}

/// A file as it is used for the first time: what it is, how it looks, and where it was found.
#[derive(Clone, Copy, Debug)]
pub struct FirstUse<'a> {
    /// The words that it is found by.
    pub identity: &'a [u8],
    /// A number of which kind it has, or gets.
    pub kind: Kind,
    /// Stamp of the file now.
    pub seen: FileStamp,
    /// Place where it was found: kept with what is recorded now, where nothing else is known.
    pub place: Option<PlaceRef<'a>>,
    /// Clients may change its content, and must not find with a change of theirs that it begins a generation: what has a version of
    /// an earlier one begins it now.
    pub is_to_change: bool,
    /// The time of day.
    pub now: SystemTime,
}

/// A file as a directory lists it.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The words that it is found by.
    pub identity: &'a [u8],
    /// A number of which kind it has, or gets.
    pub kind: Kind,
    /// Place where it is listed.
    pub place: PlaceRef<'a>,
}

/// A file that a directory lists, as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedAs {
    /// The file's number, which may be new.
    pub number: Number,
    /// The file is recorded in another directory: it has moved unseen, or has names in several. A listing may
    /// have been overtaken, so it stays recorded there.
    pub is_elsewhere: bool,
}

/// The answer to [`crate::Index::load`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The record as it is now.
    pub object: ObjectRecord,
    /// The file was not known before.
    pub is_new: bool,
}

/// A file that was found by its number, or in passing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The words that it is found by.
    pub identity: Box<[u8]>,
    /// The file's record.
    pub object: ObjectRecord,
}

/// A record as it lies in memory and in the table, with the words that the file is found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectEntry {
    pub(crate) object: ObjectRecord,
    /// The generation that its volume was opened with when this was recorded.
    pub(crate) recorded: u32,
    /// The change time was old when this was recorded: a change since would have another.
    pub(crate) settled: bool,
    /// The place was not known when this was recorded: the one that is committed stays. In memory alone.
    pub(crate) keeps_place: bool,
    /// The file was changed and not looked at since, as what is taken over after a kill: it has its version
    /// if its change time lies in here.
    pub(crate) looks: Option<Window>,
    /// The file's part of the journal until it is committed. In memory alone.
    pub(crate) slot: Slot,
    pub(crate) identity: Box<[u8]>,
}

/// Change times, in nanoseconds since 1970: from this one to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: i64,
    pub(crate) to: i64,
}

impl Window {
    pub(crate) fn at(time: Timestamp) -> Self {
        let time = time.nanoseconds();
        Self { from: time, to: time }
    }

    /// A time of whole seconds may be a coarse file system's, and proves nothing.
    fn has(&self, time: Timestamp) -> bool {
        time.nanos != 0 && (self.from..=self.to).contains(&time.nanoseconds())
    }
}

impl Timestamp {
    /// Since 1970, as far as the years go that clocks show.
    fn nanoseconds(self) -> i64 {
        self.secs.saturating_mul(NANOS).saturating_add(self.nanos.into())
    }
}

impl FileStamp {
    /// Seen of what is not known to be as it was left: no file looks like that, so its record is never borne out.
    pub const NOTHING: Self = Self { changed: Timestamp { secs: i64::MIN, nanos: u32::MAX }, size: u64::MAX };

    /// Returns whether the kernel's clock for stamps has gone on since the change: another change would have
    /// another time. A stamp of whole seconds may come from a file system that keeps no finer ones (ext4 with
    /// small inodes, FAT).
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let Ok(secs) = u64::try_from(self.changed.secs) else { return true };
        let tick = if self.changed.nanos == 0 { COARSE_TICK_MAX } else { TICK_MAX };
        let changed = UNIX_EPOCH.checked_add(Duration::new(secs, self.changed.nanos));
        changed.and_then(|changed| now.duration_since(changed).ok()).is_some_and(|age| age > tick)
    }
}

impl ObjectEntry {
    /// With the place that `committed` has for the same file, where that stays.
    pub(crate) fn over(mut self, committed: Option<Self>) -> Self {
        if self.keeps_place
            && let Some(committed) = committed
            && committed.object.number == self.object.number
        {
            self.object.place = committed.object.place;
        }
        self
    }

    /// Returns whether the version is still that of the content, which shows as `seen` now. A stop in order
    /// gave the clock for stamps time to go on, unless they are whole seconds: a change after it has another
    /// time, whatever was settled then.
    pub(crate) fn is_sound(&self, seen: &FileStamp, volume: &VolumeRecord) -> bool {
        let is_of_now = self.recorded == volume.generation;
        let counts_on = self.recorded >= volume.counts_from && seen.changed.nanos != 0;
        let is_believed =
            is_of_now || counts_on || (self.settled && self.recorded >= volume.distrusts_before);
        let is_as_it_was = match self.looks {
            Some(looks) => looks.has(seen.changed),
            None => self.object.seen == *seen,
        };
        is_as_it_was && is_believed
    }

    /// Returns the entry as the journal takes it up.
    pub(crate) fn changing(&self) -> Changing<'_> {
        let ObjectRecord { number, version, place, .. } = &self.object;
        let is_placed = place.parent != 0 && !self.keeps_place;
        let place = is_placed.then_some(PlaceRef { parent: place.parent, name: &place.name });
        Changing { identity: &self.identity, number: *number, version: *version, place }
    }

    /// The change times by which it is borne out.
    pub(crate) fn window(&self) -> Option<Window> {
        let seen = (self.object.seen != FileStamp::NOTHING).then(|| Window::at(self.object.seen.changed));
        self.looks.or(seen)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let ObjectRecord { number, version, seen, place } = &self.object;
        let mut value = Vec::with_capacity(43 + self.identity.len() + place.name.len());
        value.extend(number.uniquifier.to_le_bytes());
        value.extend(u64::from(*version).to_le_bytes());
        let (secs, nanos, size) = match self.looks {
            // Both where no program that does not know them finds what any file looks like.
            Some(Window { from, to }) => (to, u32::MAX, from.cast_unsigned()),
            None => (seen.changed.secs, seen.changed.nanos, seen.size),
        };
        value.extend(secs.to_le_bytes());
        value.extend(nanos.to_le_bytes());
        value.extend(size.to_le_bytes());
        value.extend(self.recorded.to_le_bytes());
        value.push(u8::from(self.settled) | u8::from(self.looks.is_some()) << 1);
        value.extend(place.parent.to_le_bytes());
        let len = u16::try_from(self.identity.len()).expect("identities were checked when they came");
        value.extend(len.to_le_bytes());
        value.extend(&self.identity);
        value.extend(&place.name);
        value
    }

    pub(crate) fn decode(vnode: u32, value: &[u8]) -> Result<Self, Error> {
        let mut fields = Fields::of(value, "an object's record");
        let number = Number { vnode, uniquifier: fields.u32()? };
        let version = Version::from(fields.u64()?);
        let changed = Timestamp { secs: fields.i64()?, nanos: fields.u32()? };
        let seen = FileStamp { changed, size: fields.u64()? };
        let recorded = fields.u32()?;
        let flags = fields.u8()?;
        let settled = flags & 1 != 0;
        let looks = (flags & 2 != 0).then(|| Window { from: seen.size.cast_signed(), to: seen.changed.secs });
        let seen = if looks.is_some() { FileStamp::NOTHING } else { seen };
        let parent = fields.u32()?;
        let len = fields.u16()?;
        let identity = fields.bytes(len.into())?.into();
        let place = Place { parent, name: fields.rest().to_vec() };
        let object = ObjectRecord { number, version, seen, place };
        Ok(Self { object, recorded, settled, keeps_place: false, looks, slot: Slot::NONE, identity })
    }
}

/// Identities and names that are longer are refused when they come.
pub(crate) fn check_lengths(identity: &[u8], place: &Place) -> Result<(), Error> {
    if identity.len() > IDENTITY_MAX {
        return Err(Error::TooLong { what: "an identity", max: IDENTITY_MAX });
    }
    if place.name.len() > NAME_MAX {
        return Err(Error::TooLong { what: "a file's name", max: NAME_MAX });
    }
    Ok(())
}

/// Device, type and the 128 bytes that a file handle may take.
pub(crate) const IDENTITY_MAX: usize = 160;
const NAME_MAX: usize = 255;
const NANOS: i64 = 1_000_000_000;
/// Age at which a change is [settled](FileStamp::is_settled), but for coarse file systems.
pub const SETTLES_IN: Duration = Duration::from_millis(25);
/// Longer than a tick of any kernel (10 ms at 100 Hz).
pub(crate) const TICK_MAX: Duration = Duration::from_millis(20);
/// Of file systems that stamp with whole seconds, or as FAT with every other one.
const COARSE_TICK_MAX: Duration = Duration::from_millis(2020);
