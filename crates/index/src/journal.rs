//! Journal of uncommitted changes, in memory that outlives a killed process: number, version and change times
//! of each changed file.
//!
//! `docs/design/index.md` has the layout ("Over a kill"). No change waits for it: it costs a few stores to
//! memory that no other task writes meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::boot_time::booted_ms_now;
use crate::journal_layout::{
    ALIVE_AT, BEGUN_AT, BOOTED_AT, BYTES, DONE_AT, FORMAT, FORMAT_AT, FROM, GONE, HEADER_LEN, LACKING_AT,
    NOTE_AT, PARENT, PLACE, SERIAL, SLOT_LEN, Slot, TO, UNIQUIFIER, VERSION, VNODE, Words, halves,
};
use crate::mark::checksum_words;
use crate::object::{Changing, TICK_MAX, Window};
use crate::{CleanShutdownMarker, PlaceRef, Timestamp, Version, VolumeId};

pub(crate) use self::recovered::RecoveredFiles;
pub use self::recovered::RecoveredJournal;

mod recovered;

/// Open journal of uncommitted changes.
pub(crate) struct Journal {
    words: Box<dyn Words>,
    slots_max: u32,
    free: Mutex<Free>,
    /// Set if a file has changed since the last beat.
    is_stirred: AtomicBool,
}

struct Free {
    slots: Vec<u32>,
    /// First slot that was never used.
    next: u32,
    /// Serial of the slot that was taken last: of two slots of one file the later counts.
    serial: u64,
    /// Slots that were committed since the last beat.
    committed: Vec<Slot>,
    /// Committed slots that are kept until a further change would have another time, each with the latest
    /// time of its commit.
    aging: VecDeque<(i64, Slot)>,
}

impl Journal {
    /// Begins an empty journal of an index at commit number `commits`, with this marker. `None` without
    /// memory. `None` where there is no memory.
    pub(crate) fn begin(
        words: Box<dyn Words>,
        marker: &CleanShutdownMarker,
        commits: u64,
        slots_max: usize,
    ) -> Option<Self> {
        let slots_max = u32::try_from(slots_max).unwrap_or(u32::MAX).min(Slot::LACKING.0);
        if !words.grow(HEADER_LEN + SLOT_LEN) {
            return None;
        }
        let free =
            Free { slots: Vec::new(), next: 0, serial: 0, committed: Vec::new(), aging: VecDeque::new() };
        let journal = Self { words, slots_max, free: Mutex::new(free), is_stirred: AtomicBool::new(false) };
        let (low, high) = halves(marker);
        let header = [
            (FORMAT_AT, FORMAT),
            (NOTE_AT, low),
            (NOTE_AT + 1, high),
            (BEGUN_AT, commits),
            (DONE_AT, commits),
            (LACKING_AT, 0),
        ];
        header.into_iter().for_each(|(at, word)| journal.store(at, word));
        journal.beat(UNIX_EPOCH);
        Some(journal)
    }

    /// Takes a slot for a file; kept until [freed](Self::free), or [committed](Self::committed).
    pub(crate) fn take(&self, volume: VolumeId, of: Changing<'_>, looks: Option<Window>) -> Slot {
        let (slot, serial) = {
            let mut free = self.spare();
            let Some(slot) = free.slots.pop().or_else(|| self.next(&mut free)) else {
                drop(free);
                self.word(LACKING_AT).fetch_add(1, Release);
                return Slot::LACKING;
            };
            free.serial += 1;
            (Slot(slot), free.serial)
        };
        let at = slot.at().expect("it is one of those that there are");
        let fixed =
            [serial, pair(volume.0, of.number.vnode), pair(of.number.uniquifier, of.identity.len() as u32)];
        self.store(at + SERIAL, fixed[0]);
        self.store(at + VNODE, fixed[1]);
        self.store(at + UNIQUIFIER, fixed[2]);
        let identity = words_of(of.identity);
        let sum = checksum_words(fixed.into_iter().chain(identity.clone()));
        identity.enumerate().for_each(|(n, word)| self.store(at + BYTES + n, word));
        self.store(at + VERSION, of.version.into());
        let Window { from, to } = looks.unwrap_or(UNSURE);
        self.store(at + FROM, from.cast_unsigned());
        self.store(at + TO, to.cast_unsigned());
        self.put_place(at, of.identity.len(), of.place);
        // Last: what is broken off before is no slot, and nothing was changed by then.
        self.store(at, sum);
        slot
    }

    fn next(&self, free: &mut Free) -> Option<u32> {
        let slot = free.next;
        let end = HEADER_LEN + (slot as usize + 1) * SLOT_LEN;
        let grown = end.next_multiple_of(CHUNK).min(words_max(self.slots_max as usize));
        let has_room = slot < self.slots_max && (self.words.words().len() >= end || self.words.grow(grown));
        has_room.then(|| {
            free.next += 1;
            slot
        })
    }

    /// Notes that the content is about to change to `version`, or the stamp to change: until
    /// [`changed`](Self::changed) the state is unsure.
    pub(crate) fn changing(&self, slot: Slot, version: Version, now: SystemTime) {
        let Some(at) = slot.at() else { return };
        self.store(at + TO, UNSURE.to.cast_unsigned());
        self.store(at + VERSION, version.into());
        // By the clock that stamps are made by it may still be the last tick.
        self.store(at + FROM, (nanoseconds(now) - TICK_MAX.as_nanos() as i64).cast_unsigned());
    }

    /// Notes that the file is gone, so that its record is to be forgotten.
    pub(crate) fn gone(&self, slot: Slot) {
        slot.at().into_iter().for_each(|at| self.store(at + VERSION, GONE));
    }

    /// Notes that the change under way has led to this version instead.
    pub(crate) fn fell_back(&self, slot: Slot, version: Version) {
        slot.at().into_iter().for_each(|at| self.store(at + VERSION, version.into()));
    }

    /// Notes that the change is over: later stamps are not its own. Returns whether it is the first since the
    /// last beat.
    pub(crate) fn changed(&self, slot: Slot, now: SystemTime) -> bool {
        let Some(at) = slot.at() else { return false };
        self.store(at + TO, nanoseconds(now).cast_unsigned());
        // Looked at first: lanes share the word.
        !self.is_stirred() && !self.is_stirred.swap(true, Relaxed)
    }

    /// Notes the file's change time with its version; `None` where another program has changed the file.
    pub(crate) fn seen(&self, slot: Slot, changed: Option<Timestamp>) {
        let Some(at) = slot.at() else { return };
        let Window { from, to } = changed.map_or(UNSURE, Window::at);
        self.store(at + TO, UNSURE.to.cast_unsigned());
        self.store(at + FROM, from.cast_unsigned());
        self.store(at + TO, to.cast_unsigned());
    }

    /// Returns the change times that confirm the file's version, if any.
    pub(crate) fn looks(&self, slot: Slot) -> Option<Window> {
        let at = slot.at()?;
        let time = |at| self.word(at).load(Relaxed).cast_signed();
        let looks = Window { from: time(at + FROM), to: time(at + TO) };
        (looks.from <= looks.to).then_some(looks)
    }

    /// Notes the file's present place.
    pub(crate) fn placed(&self, slot: Slot, place: Option<PlaceRef<'_>>) {
        let Some(at) = slot.at() else { return };
        let identity_len = self.word(at + UNIQUIFIER).load(Relaxed) as u32 as usize;
        self.put_place(at, identity_len, place);
    }

    fn put_place(&self, at: usize, identity_len: usize, place: Option<PlaceRef<'_>>) {
        self.store(at + PLACE, 0);
        let from = BYTES + identity_len.div_ceil(8);
        let Some(place) = place.filter(|place| place.name.len() <= (SLOT_LEN - from) * 8) else { return };
        let head = pair(place.parent, place.name.len() as u32);
        self.store(at + PARENT, head);
        let name = words_of(place.name);
        let sum = checksum_words(std::iter::once(head).chain(name.clone()));
        debug_assert!(from + name.clone().count() <= SLOT_LEN, "a place stays within its slot");
        name.enumerate().for_each(|(n, word)| self.store(at + from + n, word));
        self.store(at + PLACE, sum);
    }

    /// Frees the slot of a file without further use.
    pub(crate) fn free(&self, slot: Slot) {
        if let Some(free) = self.clear(slot) {
            self.spare().slots.push(free);
        }
    }

    /// Clears a slot for another file; `None` where there is no slot.
    fn clear(&self, slot: Slot) -> Option<u32> {
        let Some(at) = slot.at() else {
            if slot == Slot::LACKING {
                let before = self.word(LACKING_AT).fetch_sub(1, Release);
                debug_assert!(before > 0, "a file without a slot was counted");
            }
            return None;
        };
        self.store(at, 0);
        Some(slot.0)
    }

    /// Notes that the commit of this number is about to begin.
    pub(crate) fn begin_commit(&self, number: u64) {
        debug_assert!(number > self.word(DONE_AT).load(Relaxed), "commits are numbered upwards");
        self.store(BEGUN_AT, number);
    }

    /// Notes that the commit was made: the slots hold committed records.
    pub(crate) fn committed(&self, number: u64, slots: impl Iterator<Item = Slot>) {
        debug_assert!(number == self.word(BEGUN_AT).load(Relaxed), "a commit that is done was begun");
        self.store(DONE_AT, number);
        self.spare().committed.extend(slots.filter(|slot| *slot != Slot::NONE));
    }

    /// Notes that the process lives at this time: a change by another program after its end has a later one.
    /// Returns whether a file has changed since the last beat: a tick later another is due then.
    pub(crate) fn beat(&self, now: SystemTime) -> bool {
        let was_stirred = self.is_stirred.swap(false, Relaxed);
        let alive = self.lives(now);
        // Clocks may be set while it lives: it is only a stop during which they must not be.
        self.store(BOOTED_AT, booted_ms_now().unwrap_or(i64::MIN).cast_unsigned());
        let free = &mut *self.spare();
        free.aging.extend(free.committed.drain(..).map(|slot| (alive, slot)));
        let is_aged = |(since, _): &(i64, Slot)| alive - since > AGES.as_nanos() as i64;
        while free.aging.front().is_some_and(is_aged) {
            let (_, slot) = free.aging.pop_front().expect("it was just looked at");
            free.slots.extend(self.clear(slot));
        }
        was_stirred
    }

    /// Notes a sign of life alone ([`beat`](Self::beat)), and returns the latest one.
    pub(crate) fn lives(&self, now: SystemTime) -> i64 {
        let now = nanoseconds(now);
        let before = self.word(ALIVE_AT).fetch_max(now.cast_unsigned(), Release);
        before.cast_signed().max(now)
    }

    /// Returns the number of taken slots, and of files that found none.
    pub(crate) fn in_use(&self) -> (usize, usize) {
        let free = self.spare();
        assert!(free.slots.len() <= free.next as usize, "slots that are free were taken before");
        let taken = free.next as usize - free.slots.len();
        (taken, self.word(LACKING_AT).load(Relaxed) as usize)
    }

    /// Returns whether a file has changed since the last beat.
    pub(crate) fn is_stirred(&self) -> bool {
        self.is_stirred.load(Relaxed)
    }

    fn spare(&self) -> MutexGuard<'_, Free> {
        self.free.lock().expect("nobody panics while holding it")
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words.words()[at]
    }

    /// Stores a word in program order: a kill leaves all earlier stores, and no later ones.
    fn store(&self, at: usize, word: u64) {
        self.word(at).store(word, Release);
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("slots_max", &self.slots_max).finish_non_exhaustive()
    }
}

/// Returns the words of a journal with `slots_max` slots.
pub(crate) fn words_max(slots_max: usize) -> usize {
    HEADER_LEN + slots_max * SLOT_LEN
}

/// Converts to nanoseconds since 1970, for the years that clocks show.
fn nanoseconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Converts bytes to words of eight, the last padded with zeros.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + Clone + '_ {
    bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    })
}

/// Window that contains no time.
const UNSURE: Window = Window { from: i64::MAX, to: i64::MIN };

/// Words by which the journal grows at once: 4,096 slots, 1 MiB, in one system call.
const CHUNK: usize = 4_096 * SLOT_LEN;
/// Age at which a further change has another time, on coarse file systems too.
const AGES: Duration = Duration::from_millis(2_100);
