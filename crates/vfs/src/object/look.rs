//! Judgement of a look at an object: the one place where what a look saw is compared with how the file looked
//! at its version, under the small lock.
//!
//! A look begins with a [mark](LookMark), taken before the file system is asked. If a change of ours has
//! begun or ended since, the look is of no state that has a version, and nothing follows from it; so a look
//! from before another lane's change is never taken for another program's change, nor put down as how the
//! file looks. Else the file looks as it is known to, or another program has changed it ([`Judgement`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use coherence::spread;
use index::{FileStamp, Slot, Timestamp, Version};
use lane::fs::{FileKind, Stat};

use super::record::{FAILED, GONE, OVERTAKEN, SETTLED};
use super::{Object, ObjectState};
use crate::attributes::Attributes;

/// State of an object that a look is of: taken before it, compared after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookMark {
    /// The version that it had.
    pub(crate) version: Version,
    steps: u32,
}

/// Consequence of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// The object looks as it is known to look at this version, or is known to from now on.
    Known,
    /// A change of ours is under way, or has come in between: nothing follows.
    Overtaken,
    /// Another program has changed the object.
    Foreign,
    /// Another program has changed the object, and not its content: how many names it has, its mode or its
    /// owner.
    ForeignMetadata,
}

/// State of an object that has changed, or is new. It is packed, as every object in use has one.
#[derive(Debug, Default)]
pub(super) struct VersionState {
    /// Nanoseconds since 1970. [`VersionStamp::Changed`]: end of the change. [`VersionStamp::Seen`]: the change time.
    time: i64,
    size: u64,
    /// Hashes of the time of the content and, in the next field, of the other attributes; for [`VersionStamp::Seen`].
    content_time: u32,
    metadata_hash: u32,
    /// The object's part of the index's journal.
    pub(super) slot: Slot,
    /// Number of changes of it that are under way: writes may be several at once.
    changing: u16,
    stamp: VersionStamp,
    pub(super) flags: u8,
}

/// Known attributes of a file at its version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum VersionStamp {
    /// The attributes are not known.
    #[default]
    Unknown,
    /// The object's last change was over at a time: a later change time is not ours.
    Changed,
    /// The object was closed after that, and seen so.
    Seen,
}

impl Judgement {
    /// Returns whether another program has changed the object.
    pub(crate) fn is_foreign(self) -> bool {
        matches!(self, Self::Foreign | Self::ForeignMetadata)
    }
}

impl Object {
    /// Returns what a look that begins now is of. Takes no lock.
    pub(crate) fn look_mark(&self) -> LookMark {
        // In this order: what changes meanwhile has taken a step by the time of the judgement.
        let steps = self.change_lock.steps.load(Ordering::Acquire);
        LookMark { version: self.version(), steps }
    }

    /// Judges a look that was begun with this mark. At the first look after a change of ours, what was seen is how the
    /// object looks at its version. So it is after a change of which it is not known how it left the file.
    pub(crate) fn judge(&self, mark: LookMark, seen: &Attributes) -> Judgement {
        let mut state = self.lock_state();
        if state.draft.changing > 0 || self.look_mark() != mark {
            return Judgement::Overtaken;
        }
        state.draft.judge(seen)
    }

    /// Returns whether it looks as another program has left it, for all that is known without a
    /// [mark](LookMark): to be looked at anew.
    pub(crate) fn looks_foreign(&self, seen: &Attributes) -> bool {
        let draft = &self.lock_state().draft;
        draft.changing == 0 && draft.stamp != VersionStamp::Unknown && !draft.has(&seen.seen())
    }

    /// Looks at an open file of it that is about to be closed, if the index may have to record it.
    pub(crate) fn note_closing(&self, look: impl FnOnce() -> std::io::Result<Stat>) {
        if !self.has_news() || !lane::on_lane() {
            return;
        }
        let (mark, began) = (self.look_mark(), lane::time::wall_clock());
        let Ok(stat) = look() else { return };
        let mut state = self.lock_state();
        let began = (self.look_mark() == mark).then_some(began);
        let draft = &mut state.draft;
        let was_gone = draft.flags & GONE != 0;
        let is_ours = draft.see(&stat, began);
        if was_gone && draft.flags & GONE == 0 {
            self.volume.index.fell_back(draft.slot, self.version());
        }
        if draft.changing == 0 {
            let seen = (is_ours && draft.stamp == VersionStamp::Seen).then(|| draft.seen().changed);
            self.volume.index.seen(draft.slot, seen);
        }
    }

    /// Notes the attributes after the change that is just over, under its change lock; `by_any_clock`: whatever the
    /// change time says, as that may be of another machine's.
    pub(crate) fn note_attributes_after(&self, seen: &Attributes, by_any_clock: bool) {
        let mut state = self.lock_state();
        let draft = &mut state.draft;
        if draft.changing == 0
            && (by_any_clock || draft.stamp == VersionStamp::Changed && draft.has(&seen.seen()))
        {
            draft.look_as(seen, lane::time::wall_clock());
        }
    }

    /// Notes that a change of attributes or name is about to be made under the change lock; `before` which the file
    /// looks like this.
    pub(crate) fn note_metadata_change(&self, before: &Stat) {
        let mut state = self.lock_state();
        if !self.is_loaded() || state.draft.changing > 0 || self.volume.index.is_full() {
            return;
        }
        let before = Attributes::from(*before);
        if !state.draft.has(&before.seen()) {
            state.draft.flags |= OVERTAKEN;
            state.draft.differs_beside(&before);
            return;
        }
        self.begin_metadata_change_in(&mut state);
    }

    /// Notes a change of metadata ([`Object::note_metadata_change`]) by a change that takes no change lock,
    /// or a shared one.
    pub(crate) fn begin_metadata_change(self: &Arc<Self>, before: &Stat) -> Option<MetadataChange> {
        let mut state = self.lock_state();
        if !self.is_loaded() || self.volume.index.is_full() {
            return None;
        }
        if state.draft.changing == 0 && !state.draft.has(&Attributes::from(*before).seen()) {
            return None;
        }
        self.begin_metadata_change_in(&mut state);
        Some(MetadataChange(Arc::clone(self)))
    }

    /// Notes that another program has changed the [metadata](Judgement::ForeignMetadata), which is found
    /// under the change lock: no version follows.
    pub(crate) fn note_foreign_metadata_change(&self) {
        self.begin_metadata_change_in(&mut self.lock_state());
    }

    /// Notes that only a move by another program was reported: the next look finds how it looks. The caller holds its
    /// change lock.
    pub(crate) fn keeps_its_look(&self) {
        self.lock_state().draft.flags |= OVERTAKEN;
    }

    fn begin_metadata_change_in(&self, state: &mut ObjectState) {
        self.touch_loaded(state);
        let version = self.version();
        self.begin_change(&mut state.draft, version, lane::time::wall_clock());
    }

    /// Notes that the [noted](Self::note_metadata_change) change of metadata was not made.
    pub(crate) fn cancel_metadata_change(&self) {
        let mut state = self.lock_state();
        if state.draft.changing > 0 {
            self.end_nothing(&mut state.draft, self.version());
        }
    }

    /// Begins a change. `from`: a file that has an older change time afterwards was not changed.
    pub(super) fn begin_change(&self, draft: &mut VersionState, version: Version, from: SystemTime) {
        debug_assert!(version >= self.version(), "a change leads to no version below the present one");
        self.take_step();
        draft.changing += 1;
        self.volume.index.changing(draft.slot, version, from);
        self.stays_gone(draft);
    }

    /// Notes that a change that was begun was none: the object has this version, and looks as it did.
    pub(super) fn end_nothing(&self, draft: &mut VersionState, version: Version) {
        self.take_step();
        draft.changing = draft.changing.saturating_sub(1);
        self.volume.index.fell_back(draft.slot, version);
        self.stays_gone(draft);
    }

    /// Notes that the file has no name any more: what an open does with it is lost with a killed server, and
    /// so is the file.
    fn stays_gone(&self, draft: &VersionState) {
        if draft.flags & GONE != 0 {
            self.volume.index.going(draft.slot);
        }
    }

    /// Notes that the change under way is over, made `at` this time, or failed.
    pub(super) fn settle(&self, draft: &mut VersionState, at: Option<SystemTime>) {
        self.take_step();
        // What was not noted as it began may have given it another change time.
        if draft.changing == 0 && at.is_some() && draft.flags & OVERTAKEN == 0 {
            draft.stamp = VersionStamp::Unknown;
        }
        draft.flags &= !OVERTAKEN;
        if draft.settle(at)
            && let Some(at) = at
        {
            self.volume.index.changed(draft.slot, at);
        }
    }

    /// Counts a change that begins or ends: looks that have begun are of before it. The caller holds the lock.
    pub(super) fn take_step(&self) {
        let steps = &self.change_lock.steps;
        steps.store(steps.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

/// A change of an object's metadata, while it is made.
pub(crate) struct MetadataChange(Arc<Object>);

impl Drop for MetadataChange {
    fn drop(&mut self) {
        let at = lane::on_lane().then(lane::time::wall_clock);
        let mut state = self.0.lock_state();
        self.0.settle(&mut state.draft, at);
        state.show_change();
    }
}

impl VersionState {
    /// Notes that one of the changes under way is over, made `at` this time, or failed: how the file looks
    /// says nothing then. Whether it is known again how it looks.
    fn settle(&mut self, at: Option<SystemTime>) -> bool {
        if self.changing == 0 {
            return false;
        }
        self.changing -= 1;
        if at.is_none() {
            self.flags |= FAILED;
        }
        if self.changing > 0 {
            return false;
        }
        let has_failed = self.flags & FAILED != 0;
        self.flags &= !FAILED;
        match at {
            Some(at) if !has_failed => {
                self.change(at);
                true
            }
            _ => {
                self.stamp = VersionStamp::Unknown;
                false
            }
        }
    }

    fn judge(&mut self, now: &Attributes) -> Judgement {
        let seen = now.seen();
        let is_known = self.has(&seen);
        if !is_known && self.stamp != VersionStamp::Unknown {
            let is_beside = self.stamp == VersionStamp::Seen && self.is_metadata_change(now);
            return if is_beside { Judgement::ForeignMetadata } else { Judgement::Foreign };
        }
        if self.stamp != VersionStamp::Seen {
            self.look_as(now, lane::time::wall_clock());
        }
        Judgement::Known
    }

    /// Returns whether what was seen differs in nothing by which content shows, and in something beside it, which
    /// gives a file another change time too. Where nothing beside it differs, a program may have written as many bytes
    /// and set the time of that back. A clock of whole seconds may also have stood still since the last look.
    fn is_metadata_change(&self, now: &Attributes) -> bool {
        let is_sure = self.time % NANOS != 0 || self.flags & SETTLED != 0;
        is_sure
            && now.kind == FileKind::File
            && self.size == now.size
            && self.content_time == content_time(now)
            && self.metadata_hash != metadata_hash(now)
    }

    /// Notes that a change of ours is about to be made to a file that looks so. Where another program has changed it
    /// beside its content since, the next look finds just that. By our change the file may look as it did at first, as
    /// when one has taken a name that the other gives back.
    fn differs_beside(&mut self, before: &Attributes) {
        if self.stamp == VersionStamp::Seen && self.is_metadata_change(before) {
            self.metadata_hash = !metadata_hash(before);
        }
    }

    /// Sets how the object looks at its version, `now`, `at` this time.
    pub(super) fn look_as(&mut self, now: &Attributes, at: SystemTime) {
        let seen = now.seen();
        let Some(time) = nanoseconds_of(seen.changed) else {
            self.stamp = VersionStamp::Unknown;
            return;
        };
        (self.stamp, self.time, self.size) = (VersionStamp::Seen, time, seen.size);
        (self.content_time, self.metadata_hash) = (content_time(now), metadata_hash(now));
        self.flags &= !SETTLED;
        self.flags |= if seen.is_settled(at) { SETTLED } else { 0 };
    }

    pub(super) fn change(&mut self, at: SystemTime) {
        (self.stamp, self.time) = (VersionStamp::Changed, nanoseconds(at));
    }

    /// Notes that the object looked so at this time, and returns whether it looks as this server left it. `None`:
    /// perhaps before a change that came in between. A stamp later than the last change of ours is of a change behind
    /// the server's back. Which version that is, the next look or use finds out, as long as it is known how the object
    /// looked before.
    fn see(&mut self, stat: &Stat, at: Option<SystemTime>) -> bool {
        if stat.nlink == 0 {
            self.flags |= GONE;
        } else if at.is_some() {
            self.flags &= !GONE;
        }
        let now = Attributes::from(*stat);
        let is_ours = self.has(&now.seen());
        if let Some(at) = at.filter(|_| is_ours) {
            self.look_as(&now, at);
        }
        is_ours
    }

    /// Returns whether it looks so by what is known here.
    fn has(&self, seen: &FileStamp) -> bool {
        match self.stamp {
            _ if self.changing > 0 => false,
            VersionStamp::Unknown => false,
            VersionStamp::Changed => nanoseconds_of(seen.changed).is_some_and(|changed| changed <= self.time),
            VersionStamp::Seen => self.seen() == *seen,
        }
    }

    pub(super) fn seen(&self) -> FileStamp {
        match self.stamp {
            VersionStamp::Seen => {
                let (secs, nanos) = (self.time.div_euclid(NANOS), self.time.rem_euclid(NANOS));
                FileStamp { changed: Timestamp { secs, nanos: nanos as u32 }, size: self.size }
            }
            VersionStamp::Unknown | VersionStamp::Changed => FileStamp::NOTHING,
        }
    }
}

/// Returns the time of the content's change, in few bits.
fn content_time(of: &Attributes) -> u32 {
    (spread(of.mtime.secs.cast_unsigned() << 30 ^ u64::from(of.mtime.nanos)) >> 32) as u32
}

/// Returns what is changed beside the content, in few bits.
fn metadata_hash(of: &Attributes) -> u32 {
    let pair = |upper: u32, lower: u32| u64::from(upper) << 32 | u64::from(lower);
    (spread(pair(of.nlink, of.mode) ^ spread(pair(of.uid, of.gid))) >> 32) as u32
}

/// Converts a time to nanoseconds since 1970; `None` for a time that no clock shows.
fn nanoseconds_of(time: Timestamp) -> Option<i64> {
    time.secs.checked_mul(NANOS)?.checked_add(time.nanos.into())
}

/// Converts a time to nanoseconds since 1970, no less than 0.
fn nanoseconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

const NANOS: i64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lane::backend::sim::{Config, World};

    use super::*;
    use crate::object::{Identity, Objects, ObjectsOptions, SharedVolume};

    type Change = fn(&Arc<Object>);

    /// Another lane may overtake a look while this one asks the file system.
    #[test]
    fn nothing_follows_from_a_look_that_a_change_has_overtaken() {
        let changes: [(&str, Change); 6] = [
            ("content", |object| {
                object.bump_version();
                object.set_changed(Some(at(3).ctime.to_system_time()));
            }),
            ("content, in vain", |object| {
                object.bump_version();
                object.set_changed(None);
            }),
            ("attributes", |object| {
                object.note_metadata_change(&stat(1));
                object.set_changed(Some(at(3).ctime.to_system_time()));
            }),
            ("attributes, unnoted", |object| object.set_changed(Some(at(3).ctime.to_system_time()))),
            ("attributes, without a permit", |object| drop(object.begin_metadata_change(&stat(1)).unwrap())),
            ("names, which the kernel refuses", |object| {
                let before = object.version();
                object.bump_version();
                object.revert_version(before);
            }),
        ];
        for (what, change) in changes {
            on_lane(move |object| {
                assert_eq!(object.judge(object.look_mark(), &at(1)), Judgement::Known);
                let mark = object.look_mark();
                change(object);
                for seen in [1, 2] {
                    assert_eq!(object.judge(mark, &at(seen)), Judgement::Overtaken, "{what}: {seen}");
                }
                // Nothing of it was put down: what a later look finds is how the change has left it.
                let left = if what.starts_with("names") { 1 } else { 2 };
                assert_eq!(object.judge(object.look_mark(), &at(left)), Judgement::Known, "{what}");
                assert_eq!(object.judge(object.look_mark(), &at(4)), Judgement::Foreign, "{what}");
            });
        }
    }

    #[test]
    fn while_a_change_is_under_way_nothing_follows_from_a_look() {
        on_lane(|object| {
            object.bump_version();
            assert_eq!(object.judge(object.look_mark(), &at(1)), Judgement::Overtaken);
            object.set_changed(Some(at(3).ctime.to_system_time()));
            assert_eq!(object.judge(object.look_mark(), &at(2)), Judgement::Known);
        });
    }

    /// The file is open on one lane, and loses its name on another while it is closed there.
    #[test]
    fn who_looked_before_the_last_name_went_does_not_bring_it_back() {
        on_lane(|object| {
            object.note_closing(|| {
                object.flag(GONE);
                object.set_changed(Some(at(3).ctime.to_system_time()));
                Ok(stat(1))
            });
            assert!(object.has_flag(GONE));
            object.note_closing(|| Ok(stat(1)));
            assert!(!object.has_flag(GONE), "it has a name after all");
        });
    }

    #[test]
    fn what_is_changed_beside_the_content_is_told_from_content() {
        let metadata_hash = |change: &dyn Fn(&mut Attributes)| {
            let mut seen = at(4);
            seen.mtime = at(1).mtime;
            change(&mut seen);
            seen
        };
        let cases = [
            (metadata_hash(&|seen| seen.nlink = 2), Judgement::ForeignMetadata),
            (metadata_hash(&|seen| seen.mode = 0o600), Judgement::ForeignMetadata),
            (metadata_hash(&|seen| seen.gid = 7), Judgement::ForeignMetadata),
            // Perhaps as many other bytes, of which the time was set back.
            (metadata_hash(&|_| {}), Judgement::Foreign),
            (metadata_hash(&|seen| (seen.nlink, seen.size) = (2, 6)), Judgement::Foreign),
            (metadata_hash(&|seen| (seen.nlink, seen.mtime) = (2, at(4).mtime)), Judgement::Foreign),
            (metadata_hash(&|seen| (seen.nlink, seen.kind) = (2, FileKind::Directory)), Judgement::Foreign),
        ];
        for (seen, judged) in cases {
            on_lane(move |object| {
                // Of one of our own changes it is not known with which bytes and times it left the file.
                assert_eq!(
                    object.judge(object.look_mark(), &Attributes { nlink: 2, ..at(4) }),
                    Judgement::Foreign
                );
                assert_eq!(object.judge(object.look_mark(), &at(1)), Judgement::Known);
                assert_eq!(object.judge(object.look_mark(), &seen), judged, "{seen:?}");
                assert_eq!(object.judge(object.look_mark(), &seen), judged, "nothing of it is put down");
            });
        }
    }

    /// Another program takes one of two names, and this server gives it another before anybody has looked.
    #[test]
    fn what_ours_undoes_of_what_somebody_else_has_done_beside_the_content_is_no_change_of_content() {
        on_lane(|object| {
            let stat = |second: i64, nlink: u32| Stat { nlink, mtime: stat(4).mtime, ..stat(second) };
            let looks = |second: i64, nlink: u32| {
                object.judge(object.look_mark(), &Attributes::from(stat(second, nlink)))
            };
            object.note_attributes_after(&Attributes::from(stat(4, 2)), true);
            assert_eq!(looks(4, 2), Judgement::Known);
            object.note_metadata_change(&stat(5, 1));
            object.set_changed(Some(at(6).ctime.to_system_time()));
            assert_eq!(looks(6, 2), Judgement::ForeignMetadata);
            // And once more.
            object.note_metadata_change(&stat(7, 1));
            object.set_changed(Some(at(8).ctime.to_system_time()));
            assert_eq!(looks(8, 2), Judgement::ForeignMetadata);
            // What changes the content is told from it.
            let longer = Stat { size: 6, ..stat(9, 1) };
            object.note_metadata_change(&longer);
            object.set_changed(Some(at(10).ctime.to_system_time()));
            let seen = Attributes::from(Stat { size: 6, ..stat(10, 2) });
            assert_eq!(object.judge(object.look_mark(), &seen), Judgement::Foreign);
        });
    }

    impl Object {
        fn flag(&self, flag: u8) {
            self.lock_state().draft.flags |= flag;
        }

        fn has_flag(&self, flag: u8) -> bool {
            self.lock_state().draft.flags & flag != 0
        }
    }

    /// A file that this server has changed last at the third second.
    fn on_lane(test: impl FnOnce(&Arc<Object>) + 'static) {
        let world = World::new(1, Config::clean());
        let host = world.host("10.0.0.1");
        world.block_on(&host, async move {
            lane::time::sleep(Duration::from_secs(10)).await;
            let objects = Objects::in_memory(ObjectsOptions::default());
            let volume = SharedVolume::of_nothing(&objects, "test");
            let object = objects.get(&volume, Identity::of_handle(1, 1, &[1; 12])).unwrap();
            object.begin(index::Number { vnode: 2, uniquifier: 1 }, at(3).ctime.to_system_time());
            object.is_fresh();
            test(&object);
        });
    }

    /// Returns how it looks when it was changed at this second of the history.
    fn at(second: i64) -> Attributes {
        Attributes::from(stat(second))
    }

    fn stat(second: i64) -> Stat {
        let changed = lane::fs::Timestamp { secs: second, nanos: 5 };
        Stat {
            kind: FileKind::File,
            dev: 1,
            ino: 2,
            size: 5,
            allocated: 0,
            atime: changed,
            mtime: changed,
            ctime: changed,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
        }
    }
}
