//! Recovery of the journal that a killed server has left.

use std::collections::HashMap;

use crate::journal_layout::{
    ALIVE_AT, BEGUN_AT, BYTES, DONE_AT, FORMAT, FORMAT_AT, FROM, GONE, HEADER_LEN, LACKING_AT, NOTE_AT,
    PARENT, PLACE, SERIAL, SLOT_LEN, Slot, TO, UNIQUIFIER, VERSION, VNODE, halves,
};
use crate::mark::checksum_words;
use crate::object::{IDENTITY_MAX, ObjectEntry, ObjectRecord, TICK_MAX, Window};
use crate::{CleanShutdownMarker, FileStamp, Number, Place, Version, VolumeId};

/// Words of a journal whose server is gone.
#[derive(Debug)]
pub struct RecoveredJournal(Vec<u64>);

/// State of a file as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecoveredFile {
    pub(crate) number: Number,
    pub(crate) version: Version,
    /// Change times that confirm the version; `None` where none does.
    pub(crate) looks: Option<Window>,
    pub(crate) place: Option<Place>,
    serial: u64,
}

/// Key of a recovered file: volume and identity.
type RecoveredKey = (VolumeId, Box<[u8]>);
pub(crate) type RecoveredFiles = HashMap<RecoveredKey, RecoveredFile>;

impl RecoveredJournal {
    /// Takes any words, to be checked later.
    pub fn of(words: Vec<u64>) -> Self {
        Self(words)
    }

    /// Returns the files to take over into the index at commit number `commits` with this marker. `None` for
    /// a journal of another index, where index or tree may have been set back since, and for an incomplete or
    /// damaged one.
    pub(crate) fn read(&self, marker: &CleanShutdownMarker, commits: u64) -> Option<RecoveredFiles> {
        let words = &*self.0;
        let header = words.get(..HEADER_LEN)?;
        let is_of_it = header[FORMAT_AT] == FORMAT
            && (header[NOTE_AT], header[NOTE_AT + 1]) == halves(marker)
            && (header[DONE_AT]..=header[BEGUN_AT]).contains(&commits)
            && header[LACKING_AT] == 0;
        if !is_of_it {
            return None;
        }
        let slots = || words[HEADER_LEN..].chunks_exact(SLOT_LEN).filter(|slot| slot[0] != 0);
        // A sign of life is each change that was over.
        let signs = slots().map(|slot| slot[TO].cast_signed());
        let alive = signs.fold(header[ALIVE_AT].cast_signed(), i64::max);
        let tick = TICK_MAX.as_nanos() as i64;
        let mut files = RecoveredFiles::new();
        for slot in slots() {
            let (key, file) = read_slot(slot, alive - tick)?;
            let known = files.entry(key).or_insert_with(|| file.clone());
            if known.serial < file.serial {
                *known = file;
            }
        }
        Some(files)
    }
}

impl RecoveredFile {
    /// Returns whether the file was removed.
    pub(crate) fn is_gone(&self) -> bool {
        self.version == Version::from(GONE)
    }

    /// Makes the entry for an index whose volume was last opened with this generation.
    pub(crate) fn into_entry(self, identity: Box<[u8]>, generation: u32) -> ObjectEntry {
        let keeps_place = self.place.is_none();
        let place = self.place.unwrap_or_default();
        let object =
            ObjectRecord { number: self.number, version: self.version, seen: FileStamp::NOTHING, place };
        let (looks, slot) = (self.looks, Slot::NONE);
        ObjectEntry { object, recorded: generation, settled: false, keeps_place, looks, slot, identity }
    }
}

/// Reads a slot; a change after the server's end has a later time than `settled_at`.
fn read_slot(slot: &[u64], settled_at: i64) -> Option<(RecoveredKey, RecoveredFile)> {
    let (volume, vnode) = parts(slot[VNODE]);
    let (uniquifier, identity_len) = parts(slot[UNIQUIFIER]);
    let identity_len = usize::try_from(identity_len).ok().filter(|len| *len <= IDENTITY_MAX)?;
    let name_at = BYTES + identity_len.div_ceil(8);
    if slot[0] != checksum_words(slot[SERIAL..=UNIQUIFIER].iter().chain(&slot[BYTES..name_at]).copied()) {
        return None;
    }
    let identity = bytes_of(&slot[BYTES..name_at], identity_len);
    let (from, to) = (slot[FROM].cast_signed(), slot[TO].cast_signed().min(settled_at));
    let file = RecoveredFile {
        number: Number { vnode, uniquifier },
        version: Version::from(slot[VERSION]),
        looks: (from <= to).then_some(Window { from, to }),
        place: place_of(slot, name_at),
        serial: slot[SERIAL],
    };
    Some(((VolumeId(volume), identity.into()), file))
}

/// Returns the place in a slot; `None` for one that was being written.
fn place_of(slot: &[u64], name_at: usize) -> Option<Place> {
    let (parent, len) = parts(slot[PARENT]);
    let len = usize::try_from(len).ok().filter(|len| *len <= (SLOT_LEN - name_at) * 8)?;
    let name = &slot[name_at..name_at + len.div_ceil(8)];
    let sum = checksum_words(std::iter::once(slot[PARENT]).chain(name.iter().copied()));
    (slot[PLACE] != 0 && slot[PLACE] == sum).then(|| Place { parent, name: bytes_of(name, len) })
}

fn parts(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

fn bytes_of(words: &[u64], len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}
