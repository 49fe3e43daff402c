//! Recovery of the journal that a killed server has left.

use std::collections::HashMap;

use super::{
    ALIVE_AT, BEGUN_AT, BYTES, DONE_AT, FORMAT, FORMAT_AT, FROM, GONE, HEADER_LEN, LACKING_AT, NOTE_AT,
    PARENT, PLACE, SERIAL, SLOT_LEN, Slot, TO, UNIQUIFIER, VERSION, VNODE, halves,
};
use crate::mark::checksum_words;
use crate::object::{IDENTITY_MAX, ObjectEntry, ObjectRecord, TICK_MAX, Window};
use crate::{CleanShutdownMarker, FileStamp, Number, Place, Version, VolumeId};

/// The words of a journal whose server is gone.
#[derive(Debug)]
pub struct RecoveredJournal(Vec<u64>);

/// A file's state as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecoveredFile {
    pub(crate) number: Number,
    pub(crate) version: Version,
    /// The file has this version if its change time lies in here; `None` where that is not known of any.
    pub(crate) looks: Option<Window>,
    pub(crate) place: Option<Place>,
    serial: u64,
}

/// Volume and identity.
type RecoveredKey = (VolumeId, Box<[u8]>);
pub(crate) type RecoveredFiles = HashMap<RecoveredKey, RecoveredFile>;

impl RecoveredJournal {
    /// Of these words, whatever they are.
    pub fn of(words: Vec<u64>) -> Self {
        Self(words)
    }

    /// Returns what is to be taken over into the index that has come to `commits` with this note. `None`
    /// where it is another's, where index or tree may have been set back since, and where it is not all:
    /// there was no room, or its bytes are not as they were written.
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

    /// Makes the entry of an index whose volume was opened last in this generation.
    pub(crate) fn into_entry(self, identity: Box<[u8]>, generation: u32) -> ObjectEntry {
        let keeps_place = self.place.is_none();
        let place = self.place.unwrap_or_default();
        let object =
            ObjectRecord { number: self.number, version: self.version, seen: FileStamp::NOTHING, place };
        let (looks, slot) = (self.looks, Slot::NONE);
        ObjectEntry { object, recorded: generation, settled: false, keeps_place, looks, slot, identity }
    }
}

/// `settled_at`: a change after the server's end has a later time than this.
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

/// Returns where it was; a place that was just being written is not known.
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
