//! Records of files and directories.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::codec::Fields;
use crate::journal_layout::Slot;
use crate::{Error, Kind, Number, Version, VolumeRecord};

/// Time since 1970 as file systems stamp it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Whole seconds since 1970.
    pub secs: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// Stamp of a file as the file system shows it now; a record with another stamp is out of date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Change time of the file.
    pub changed: Timestamp,
    /// Length of the file in bytes.
    pub size: u64,
}

/// Record of a file in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRecord {
    /// Number of the file, for ever.
    pub number: Number,
    /// Version of the file's content.
    pub version: Version,
    /// Stamp that was seen with the version.
    pub seen: FileStamp,
    /// Place where the file was last seen.
    pub place: Place,
}

/// Place of a file, which finds it where handles cannot. A hint, which the tree has to confirm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Vnode of the directory; 0 where it is unknown.
    pub parent: u32,
    /// Name in the directory, at most 255 bytes; empty for a file that lost its name there.
    pub name: Vec<u8>,
}

/// Place that borrows its name ([`Place`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceRef<'a> {
    /// Vnode of the directory.
    pub parent: u32,
    /// Name in the directory.
    pub name: &'a [u8],
}

impl PlaceRef<'_> {
    pub(crate) fn to_place(self) -> Place {
        Place { parent: self.parent, name: self.name.to_vec() }
    }
}

/// File that is about to be changed for the first time since its stamp was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Changing<'a> {
    /// Identity of the file.
    pub identity: &'a [u8],
    /// Number of the file.
    pub number: Number,
    /// Version of the content so far.
    pub version: Version,
    /// Place of the file, as far as that is known.
    pub place: Option<PlaceRef<'a>>,
}

/// File at its first use: identity, kind, stamp and place.
#[derive(Clone, Copy, Debug)]
pub struct FirstUse<'a> {
    /// Identity of the file.
    pub identity: &'a [u8],
    /// Kind of number that the file has, or gets.
    pub kind: Kind,
    /// Stamp of the file now.
    pub seen: FileStamp,
    /// Place where the file was found, recorded unless another is known.
    pub place: Option<PlaceRef<'a>>,
    /// Set if clients may change the content, whose version of an earlier generation then begins the new
    /// one now, not with their change.
    pub is_to_change: bool,
    /// Time of day.
    pub now: SystemTime,
}

/// File as a directory lists it.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// Identity of the file.
    pub identity: &'a [u8],
    /// Kind of number that the file has, or gets.
    pub kind: Kind,
    /// Place where the file is listed.
    pub place: PlaceRef<'a>,
}

/// Listed file as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedAs {
    /// Number of the file, which may be new.
    pub number: Number,
    /// Set if the file is recorded in another directory: moved unseen, or with names in several. A listing
    /// may have been overtaken, so the recorded place stays.
    pub is_elsewhere: bool,
}

/// Answer of [`crate::Index::load`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Record of the file now.
    pub object: ObjectRecord,
    /// Set if the file was unknown before.
    pub is_new: bool,
}

/// File that was found by its number or in a listing of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Identity of the file.
    pub identity: Box<[u8]>,
    /// Record of the file.
    pub object: ObjectRecord,
}

/// Record with the file's identity, as in memory and in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectEntry {
    pub(crate) object: ObjectRecord,
    /// Generation of the volume when this was recorded.
    pub(crate) recorded: u32,
    /// Set if the change time was settled at recording: a change since would have another.
    pub(crate) settled: bool,
    /// Set if the place was unknown at recording: a committed one stays. In memory alone.
    pub(crate) keeps_place: bool,
    /// Change times that confirm the version of a file that was changed and not looked at since, as after a
    /// kill.
    pub(crate) looks: Option<Window>,
    /// Slot in the journal until the commit. In memory alone.
    pub(crate) slot: Slot,
    pub(crate) identity: Box<[u8]>,
}

/// Range of change times in nanoseconds since 1970, both ends included.
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

    /// Returns whether a time lies in the window. One of whole seconds may be a coarse file system's, and
    /// never does.
    fn has(&self, time: Timestamp) -> bool {
        time.nanos != 0 && (self.from..=self.to).contains(&time.nanoseconds())
    }
}

impl Timestamp {
    /// Converts to nanoseconds since 1970, saturating.
    fn nanoseconds(self) -> i64 {
        self.secs.saturating_mul(NANOS).saturating_add(self.nanos.into())
    }
}

impl FileStamp {
    /// Stamp that no file has, for a record whose version is never confirmed.
    pub const NOTHING: Self = Self { changed: Timestamp { secs: i64::MIN, nanos: u32::MAX }, size: u64::MAX };

    /// Returns whether the kernel's clock for stamps has advanced since the change: a further change would
    /// have another time. A stamp of whole seconds may come from a file system that keeps no finer ones (ext4
    /// with small inodes, FAT).
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let Ok(secs) = u64::try_from(self.changed.secs) else { return true };
        let tick = if self.changed.nanos == 0 { COARSE_TICK_MAX } else { TICK_MAX };
        let changed = UNIX_EPOCH.checked_add(Duration::new(secs, self.changed.nanos));
        changed.and_then(|changed| now.duration_since(changed).ok()).is_some_and(|age| age > tick)
    }
}

impl ObjectEntry {
    /// Returns the entry with the committed place of the same file, where that stays.
    pub(crate) fn over(mut self, committed: Option<Self>) -> Self {
        if self.keeps_place
            && let Some(committed) = committed
            && committed.object.number == self.object.number
        {
            self.object.place = committed.object.place;
        }
        self
    }

    /// Returns whether the version is still that of the content, whose stamp is `seen` now. A stop in order
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

    /// Returns the entry in the form that the journal takes.
    pub(crate) fn changing(&self) -> Changing<'_> {
        let ObjectRecord { number, version, place, .. } = &self.object;
        let is_placed = place.parent != 0 && !self.keeps_place;
        let place = is_placed.then_some(PlaceRef { parent: place.parent, name: &place.name });
        Changing { identity: &self.identity, number: *number, version: *version, place }
    }

    /// Returns the change times that confirm the version.
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

/// Checks the lengths of an identity and a name against their limits.
pub(crate) fn check_lengths(identity: &[u8], place: &Place) -> Result<(), Error> {
    if identity.len() > IDENTITY_MAX {
        return Err(Error::TooLong { what: "an identity", max: IDENTITY_MAX });
    }
    if place.name.len() > NAME_MAX {
        return Err(Error::TooLong { what: "a file's name", max: NAME_MAX });
    }
    Ok(())
}

/// Most bytes of an identity: device, type and the 128 bytes that a file handle may take.
pub(crate) const IDENTITY_MAX: usize = 160;
const NAME_MAX: usize = 255;
const NANOS: i64 = 1_000_000_000;
/// Age at which a change is [settled](FileStamp::is_settled), but for coarse file systems.
pub const SETTLES_IN: Duration = Duration::from_millis(25);
/// Upper bound of a tick of any kernel (10 ms at 100 Hz).
pub(crate) const TICK_MAX: Duration = Duration::from_millis(20);
/// Upper bound of a tick on file systems that stamp with whole seconds, or as FAT with every other one.
const COARSE_TICK_MAX: Duration = Duration::from_millis(2020);
