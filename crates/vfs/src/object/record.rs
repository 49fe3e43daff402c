//! State that an object keeps for the index: its number, and how the file looked when it had its version. The
//! index is told when the object is let go of, not at each change: until then the object says what counts,
//! and after a crash the file itself, whose change time is another one by then.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use index::{Changing, Kind, Number, ObjectRecord, PlaceRef, Version};
use lane::fs::Stat;

use super::identify::At;
use super::look::VersionState;
use super::{Object, ObjectState, Place, Recorded};
use crate::attributes::Attributes;
use crate::names::{VERSIONS_OF_A_READING, is_unchanged_since_read};

impl Object {
    /// Returns what its volume knows it by, for ever.
    pub fn number(&self) -> Number {
        let word = self.number.load(Ordering::Acquire);
        Number { vnode: (word >> 32) as u32, uniquifier: word as u32 }
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.number.load(Ordering::Acquire) != NONE
    }

    /// Begins the object of a new file, which the index knows by this number, and has to record.
    pub(super) fn begin(self: &Arc<Self>, number: Number, now: SystemTime) {
        let mut state = self.lock_state();
        // A look in between has asked the index too.
        let is_first = !self.is_loaded();
        let version = if is_first { self.volume.first_version() } else { self.version() };
        self.touch(&mut state, number, version);
        if is_first {
            self.volume.index.changing(state.draft.slot, version, UNIX_EPOCH);
            self.have_changed(&mut state.draft, now);
            self.set(number, version);
        }
    }

    /// Begins the object that has this record in the index, looks like this, and was found there.
    pub(super) fn begin_as(self: &Arc<Self>, record: &ObjectRecord, stat: &Stat, at: Option<At<'_>>) {
        let mut state = self.lock_state();
        state.draft.flags |= KNOWN;
        // Of those that looked at once the first counts: a change may have come in between.
        if self.is_loaded() {
            return;
        }
        state.draft.look_as(&Attributes::from(*stat), lane::time::wall_clock());
        let is_there =
            |at: At<'_>| record.place.parent == at.directory.number().vnode && *record.place.name == *at.name;
        let is_there = at.is_some_and(is_there);
        if !is_there {
            state.draft.flags |= MOVED;
        }
        // A hint until a lane finds it there that is told of renames: where it was renamed just now the index
        // knows better.
        if state.place.is_none() && record.number.kind() == Kind::File {
            state.place = match is_there || record.place.parent == 0 {
                true => at.map(|at| Place { directory: Arc::clone(at.directory), name: at.name.into() }),
                false => self.volume.recorded_in_use(&record.place),
            };
        }
        self.set(record.number, record.version);
    }

    /// Begins an object of a volume that is guarded alone: the index has nothing of it.
    pub(super) fn begin_unnumbered(self: &Arc<Self>, kind: Kind) {
        if self.is_loaded() {
            return;
        }
        let _side = self.lock_state();
        if !self.is_loaded() {
            self.set(self.volume.next_unnumbered(kind), self.volume.first_version());
        }
    }

    /// Sets number and version, under the lock.
    fn set(self: &Arc<Self>, number: Number, version: Version) {
        self.version.store(version.into(), Ordering::SeqCst);
        self.volume.numbered.insert(self, number.vnode);
        self.number.store(u64::from(number.vnode) << 32 | u64::from(number.uniquifier), Ordering::Release);
    }

    /// Notes that the index has to record the object.
    fn touch(&self, state: &mut ObjectState, number: Number, version: Version) {
        if self.volume.is_numbered() && self.news.fetch_or(TOUCHED, Ordering::Relaxed) & TOUCHED == 0 {
            let words = self.identity.words(self.volume.device());
            let is_its_name = state.draft.flags & UNPLACED == 0;
            let place = state.place.as_ref().map(|place| place_ref(place, is_its_name));
            let changing = Changing { identity: &words, number, version, place };
            state.draft.slot = self.volume.index.reserve(self.volume.id(), changing);
        }
    }

    /// Touches an object that has its number ([`touch`](Self::touch)).
    pub(super) fn touch_loaded(&self, state: &mut ObjectState) {
        self.touch(state, self.number(), self.version());
    }

    /// Notes that the object is changed, `now`: a later change time is not ours.
    fn have_changed(&self, draft: &mut VersionState, now: SystemTime) {
        draft.change(now);
        self.volume.index.changed(draft.slot, now);
    }

    /// Gives the object its next version, as a change of its content or names is about to be made under its change
    /// lock.
    pub(crate) fn bump_version(&self) -> Version {
        let (first, is_directory) = (self.volume.first_version(), self.number().kind() == Kind::Directory);
        self.bump_version_to(lane::time::wall_clock(), |version| {
            // What has a generation's first version has not changed in it.
            let next = version.next().max(first.next());
            if is_directory && is_unchanged_since_read(next) { next.next() } else { next }
        })
    }

    /// Gives a directory that is read again a version that no change brings.
    pub(crate) fn bump_version_on_reread(&self) -> Version {
        let first = self.volume.first_version();
        self.bump_version_to(UNIX_EPOCH, |version| {
            let next = version.next().max(first);
            match next.count.checked_next_multiple_of(VERSIONS_OF_A_READING) {
                Some(count) => Version { count, ..next },
                None => Version { generation: next.generation, count: u32::MAX }.next(),
            }
        })
    }

    fn bump_version_to(&self, from: SystemTime, next: impl FnOnce(Version) -> Version) -> Version {
        let mut state = self.lock_state();
        self.touch_loaded(&mut state);
        // Writes that share a permit rise at once, each by one, under the lock.
        let before = self.version();
        let next = next(before);
        assert!(next > before, "a version rises");
        debug_assert!(next >= self.volume.first_version(), "a change brings a version of this generation");
        // Before any client sees it: a server that is started after a kill of this one goes on above it.
        self.begin_change(&mut state.draft, next, from);
        self.version.store(next.into(), Ordering::SeqCst);
        next
    }

    /// Takes the last version back: its change was not made, and no client has it.
    pub(crate) fn revert_version(&self, before: Version) {
        let mut state = self.lock_state();
        debug_assert!(before < self.version(), "the version that is taken back was above");
        self.version.store(before.into(), Ordering::SeqCst);
        self.end_nothing(&mut state.draft, before);
    }

    /// Notes that the change of content that raised the version last goes on, and no look came in between.
    pub(crate) fn continue_version(&self) {
        let version = self.version();
        debug_assert!(version >= self.volume.first_version(), "a change that goes on has raised the version");
        self.begin_change(&mut self.lock_state().draft, version, lane::time::wall_clock());
    }

    /// Notes that a look has found it at this place. Another name by which it was found before it may have still.
    pub(crate) fn found_at(&self, place: Place) {
        self.note_other_than(&place.directory, &place.name);
        drop(self.put_place(place));
    }

    /// Notes that the file may have other names than this: the one by which it was last found is kept in
    /// mind, if it is another.
    pub(crate) fn note_other_than(&self, directory: &Arc<Self>, name: &[u8]) {
        let other = {
            let state = self.lock_state();
            if state.draft.flags & UNPLACED != 0 {
                return;
            }
            let is_other = |place: &&Place| !Arc::ptr_eq(&place.directory, directory) || *place.name != *name;
            state.untaken_place().filter(is_other).map(Recorded::of)
        };
        other.into_iter().for_each(|other| self.volume.note_other_name_of(&self.identity, other));
    }

    /// Sets the place, by a change of ours. What is changed of it afterwards is shown there: listings of
    /// where it was are of before.
    pub(crate) fn set_place(&self, place: Place) {
        let before = self.put_place(place);
        before.iter().for_each(|before| before.directory.shows_change());
    }

    /// Gives where it was, if that is another place.
    fn put_place(&self, place: Place) -> Option<Place> {
        let (before, has_moved) = {
            let mut state = self.lock_state();
            let has_moved = state.place.as_ref().is_some_and(|before| *before != place);
            if has_moved {
                state.draft.flags |= MOVED;
            }
            // What has no name any more was found by a look that began before.
            if state.draft.flags & GONE == 0 {
                state.draft.flags &= !(TAKEN | UNPLACED);
            }
            self.volume.index.placed(state.draft.slot, Some(place_ref(&place, true)));
            (state.place.replace(place), has_moved)
        };
        // To be dropped outside of the lock: it may be the last that holds the directories above.
        before.filter(|_| has_moved)
    }

    /// Returns whether that is where it was last found, and this server has not taken that name away since.
    pub(crate) fn is_placed_at(&self, place: &Place) -> bool {
        self.lock_state().untaken_place() == Some(place)
    }

    /// Returns whether it was last found by this name, or it is not known by which.
    pub(crate) fn is_last_found_at(&self, directory: &Arc<Self>, name: &[u8]) -> bool {
        let state = self.lock_state();
        let is_it = |place: &Place| Arc::ptr_eq(&place.directory, directory) && *place.name == *name;
        state.place.as_ref().is_none_or(is_it)
    }

    /// Returns the place in this directory where it was last found, if it was there, and this server has not
    /// taken the name away since.
    pub(crate) fn placed_in(&self, directory: &Arc<Self>) -> Option<Place> {
        let state = self.lock_state();
        state.untaken_place().filter(|place| Arc::ptr_eq(&place.directory, directory)).cloned()
    }

    /// Returns which of these places, by their directories, it was last found at, if this server has not
    /// taken the name away since.
    pub(crate) fn placed_among(&self, places: &HashMap<*const Self, Vec<Place>>) -> Option<Place> {
        let state = self.lock_state();
        let place = state.untaken_place()?;
        let among = places.get(&Arc::as_ptr(&place.directory))?;
        among.iter().find(|other| *other == place).cloned()
    }

    /// Returns whether the index has a record of it.
    pub(crate) fn is_known(&self) -> bool {
        self.lock_state().draft.flags & KNOWN != 0
    }

    /// Notes that the file may have lost its last name since it was opened, so its last closing looks. The index did
    /// not know it before, or it has lost a name.
    pub(crate) fn is_fresh(&self) {
        if self.volume.is_numbered() {
            self.news.fetch_or(FRESH, Ordering::Relaxed);
        }
    }

    /// Returns whether the index may have to record it as it is closed.
    pub(super) fn has_news(&self) -> bool {
        self.news.load(Ordering::Relaxed) & (TOUCHED | FRESH) != 0
    }

    /// Notes whether it is marked as backed up: a change takes the mark away, with the attribute that stores
    /// it. The note lasts as long as the object is in use.
    pub fn note_backed_up(&self, is_backed_up: bool) {
        if self.is_backed_up() != is_backed_up {
            match is_backed_up {
                true => self.news.fetch_or(BACKED_UP, Ordering::AcqRel),
                false => self.news.fetch_and(!BACKED_UP, Ordering::AcqRel),
            };
        }
    }

    /// Returns whether it was noted so.
    pub fn is_backed_up(&self) -> bool {
        self.news.load(Ordering::Acquire) & BACKED_UP != 0
    }

    /// Notes that a file of the server's own was given its name, or what it gets when it is made. No client could
    /// change it before: what that did to its change time is ours too.
    pub(crate) fn note_published(&self) {
        self.have_changed(&mut self.lock_state().draft, lane::time::wall_clock());
    }

    /// Notes that the object has another place than the index knows.
    pub(crate) fn note_moved(&self) {
        self.lock_state().draft.flags |= MOVED;
    }

    /// Notes that the file has lost a name, perhaps its last, which its last closing shows too. The index has to
    /// record that if it knows the file by that name.
    pub(crate) fn note_lost(&self, directory: &Arc<Self>, name: &[u8], is_last: bool) {
        self.is_fresh();
        let mut state = self.lock_state();
        let lost = Place { directory: Arc::clone(directory), name: name.into() };
        let is_its_place = match &state.place {
            Some(place) => *place == lost,
            None => state.draft.flags & (KNOWN | MOVED) == KNOWN,
        };
        if is_its_place {
            state.draft.flags |= UNPLACED;
            let slot = state.draft.slot;
            let place = state.place.get_or_insert(lost);
            self.volume.index.placed(slot, Some(place_ref(place, false)));
        }
        if is_last {
            state.draft.flags |= GONE;
        }
        if is_its_place || is_last {
            self.touch_loaded(&mut state);
        }
        if is_last {
            self.volume.index.going(state.draft.slot);
        }
    }

    /// Returns whether it has lost the name by which it was last found, and was not found by another since.
    pub(crate) fn is_unplaced(&self) -> bool {
        self.lock_state().draft.flags & UNPLACED != 0
    }

    /// Gives the index what has to be known of the object when it is used again.
    pub(super) fn release(&mut self) {
        if !self.volume.is_numbered() {
            return;
        }
        let news = *self.news.get_mut();
        let mut state = std::mem::take(self.state.get_mut().expect("nobody panics while holding it"));
        if news & TOUCHED == 0 && state.draft.flags & GONE == 0 {
            // Where it was found is worth being told too, unless there is too much to tell.
            if state.draft.flags & MOVED == 0 || state.place.is_none() || self.volume.index.is_full() {
                return;
            }
            self.touch_loaded(&mut state);
        }
        let (number, version) = (self.number(), self.version());
        let words = self.identity.words(self.volume.device());
        let index = &self.volume.index;
        let ObjectState { draft, place, .. } = state;
        if draft.flags & GONE != 0 {
            let is_touched = self.news.load(Ordering::Relaxed) & TOUCHED != 0;
            if draft.flags & KNOWN != 0 {
                index.forget(self.volume.id(), &words, number, is_touched.then_some(draft.slot));
            } else if is_touched {
                index.give_up(self.volume.id(), &words, draft.slot);
            }
            return;
        }
        let place = place.as_ref().map(|place| {
            // The directory is a hint all the same: the file may have other names there.
            let PlaceRef { parent, name } = place_ref(place, draft.flags & UNPLACED == 0);
            index::Place { parent, name: name.to_vec() }
        });
        let seen = draft.seen();
        let record = ObjectRecord { number, version, seen, place: place.unwrap_or_default() };
        let is_settled = draft.flags & SETTLED != 0;
        if let Err(error) = index.record(self.volume.id(), &words, record, is_settled, draft.slot) {
            //@ cause: The index knows the volume no longer, or the file's name or handle is longer than it takes. Either is a defect
            //@ of Linerate.
            //@ remedy: Report the line. On a client that shows old content of a file after a restart, drop its cache (`fs flushall` of AFS).
            tracing::error!(
                "volume {}: the index did not take the new version of a file: {error}; after a restart clients that cache it may \
                 show old content; report this as a defect [volume-version-lost]",
                self.volume.name()
            );
        }
    }
}

fn place_ref(place: &Place, is_its_name: bool) -> PlaceRef<'_> {
    PlaceRef { parent: place.directory.number().vnode, name: if is_its_name { &place.name } else { &[] } }
}

impl ObjectState {
    /// Listings of the directory that it is in show something else.
    pub(super) fn show_change(&self) {
        self.place.iter().for_each(|place| place.directory.shows_change());
    }

    /// Returns the place where it was last found, unless this server has taken that name away since.
    fn untaken_place(&self) -> Option<&Place> {
        self.place.as_ref().filter(|_| self.draft.flags & TAKEN == 0)
    }
}

impl VersionState {
    /// Notes that a name was taken away. If it was the one that the file was last found by, that leads nowhere, or to
    /// another.
    pub(super) fn take_away(&mut self) {
        if self.flags & (UNPLACED | GONE) != 0 {
            self.flags |= TAKEN;
        }
    }
}

/// The index has to record the object, and has room reserved for that.
const TOUCHED: u8 = 1;
/// The object may have no name any more, which its last closing is to see.
const FRESH: u8 = 2;
/// No news for the index: it is marked as backed up.
const BACKED_UP: u8 = 4;
/// The object has no name any more.
pub(super) const GONE: u8 = 1;
/// The index knows the object.
const KNOWN: u8 = 2;
/// The object is not where the index knows it to be, or there was no look yet.
const MOVED: u8 = 4;
/// This server has removed a name of the object.
const TAKEN: u8 = 8;
/// The object has lost the name by which it was last found: the index is given the directory alone.
const UNPLACED: u8 = 16;
/// A change by another program after it was seen would show.
pub(super) const SETTLED: u8 = 32;
/// One of the changes under way has failed.
pub(super) const FAILED: u8 = 64;
/// The change under way is one beside the content, and another program had changed the object before.
pub(super) const OVERTAKEN: u8 = 128;

/// Value that is no file's number: vnodes begin at 1.
pub(super) const NONE: u64 = 0;
