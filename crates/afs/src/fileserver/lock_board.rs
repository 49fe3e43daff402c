//! Summary of files' locks, written under the lock of their table and read without a lock by replies with a
//! status.

use std::hash::{BuildHasher, DefaultHasher, Hash, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Instant;

use vfs::{Number, VolumeId};

/// Number of a file.
pub(super) type FileKey = (VolumeId, Number);

/// A slot for a hash of files. One that several locked files share says so.
pub(super) struct Board {
    slots: Box<[BoardSlot]>,
    hash: RandomState,
    /// Time from which ends of locks are counted.
    began: OnceLock<Instant>,
}

#[derive(Default)]
struct BoardSlot {
    /// Odd while it is written.
    writes: AtomicU32,
    /// Locked files whose slot it is. For writers alone.
    files: AtomicU32,
    /// Volume and vnode; 0: none, `SEVERAL`.
    file: AtomicU64,
    /// A [`Noted`], as a word.
    noted: AtomicU64,
}

/// Summary of a file's locks, and until when it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) until: Instant,
    pub(super) exclusive: bool,
    pub(super) count: usize,
}

impl Default for Board {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| BoardSlot::default()).collect();
        Self { slots, hash: RandomState::new(), began: OnceLock::new() }
    }
}

impl Board {
    /// Returns what a status says of a file's locks: how many read it, or -1 where one writes it. `None`: the
    /// books say it.
    pub(super) fn lock_count(&self, file: FileKey, now: Instant) -> Option<i32> {
        let slot = self.slot(file);
        let writes = slot.writes.load(Ordering::Acquire);
        let (name, word) = (slot.file.load(Ordering::Relaxed), slot.noted.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if writes % 2 == 1 || slot.writes.load(Ordering::Relaxed) != writes || name == SEVERAL {
            return None;
        }
        if name != name_of(file) {
            return Some(0);
        }
        (self.milliseconds(now) < word >> TIME_AT).then_some(lock_count(word))
    }

    /// Adds a file with its first lock. Callers of this and the following hold the table of locks.
    pub(super) fn comes(&self, file: FileKey) {
        self.write(file, |slot, name| {
            let before = slot.files.fetch_add(1, Ordering::Relaxed);
            slot.file.store(if before == 0 { name } else { SEVERAL }, Ordering::Relaxed);
            // What was noted of the file before is not this one's: until its own is, the books say it.
            slot.noted.store(0, Ordering::Relaxed);
        });
    }

    /// Removes a file that has lost its last lock.
    pub(super) fn goes(&self, file: FileKey) {
        self.write(file, |slot, _| {
            if slot.files.fetch_sub(1, Ordering::Relaxed) == 1 {
                slot.file.store(NONE, Ordering::Relaxed);
            }
        });
    }

    /// Notes the summary of the locks of a file that has some.
    pub(super) fn note(&self, file: FileKey, noted: Noted) {
        let until = self.milliseconds(noted.until);
        let exclusive = if noted.exclusive { EXCLUSIVE } else { 0 };
        let word = until << TIME_AT | exclusive | (noted.count as u64).min(COUNT_MAX);
        self.write(file, |slot, name| {
            if slot.file.load(Ordering::Relaxed) == name {
                slot.noted.store(word, Ordering::Relaxed);
            }
        });
    }

    fn write(&self, file: FileKey, write: impl FnOnce(&BoardSlot, u64)) {
        let slot = self.slot(file);
        slot.writes.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        write(slot, name_of(file));
        slot.writes.fetch_add(1, Ordering::Release);
    }

    fn slot(&self, file: FileKey) -> &BoardSlot {
        let mut hasher: DefaultHasher = self.hash.build_hasher();
        name_of(file).hash(&mut hasher);
        &self.slots[std::hash::Hasher::finish(&hasher) as usize % SLOTS]
    }

    /// Returns the whole milliseconds since the first call.
    fn milliseconds(&self, at: Instant) -> u64 {
        let began = *self.began.get_or_init(lane::time::now);
        at.saturating_duration_since(began).as_millis() as u64
    }
}

fn lock_count(word: u64) -> i32 {
    if word & EXCLUSIVE != 0 { -1 } else { (word & COUNT_MAX) as i32 }
}

/// Returns the name of a file on the board; no two files of a vnode are locked at once.
fn name_of((volume, number): FileKey) -> u64 {
    u64::from(volume.0) << 32 | u64::from(number.vnode)
}

const SLOTS: usize = 4096;
/// Vnodes begin at 1.
const NONE: u64 = 0;
/// Mark of a slot with locks of several files; no volume has such a number.
const SEVERAL: u64 = u64::MAX;
/// A word: milliseconds above this bit,
const TIME_AT: u32 = 24;
/// whether it is for writing, and how many there are.
const EXCLUSIVE: u64 = 1 << 23;
const COUNT_MAX: u64 = EXCLUSIVE - 1;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;

    fn file(vnode: u32) -> FileKey {
        (VolumeId(7), Number { vnode, uniquifier: 1 })
    }

    #[test]
    fn a_status_says_what_was_noted_until_it_ends() {
        let (board, now) = (Board::default(), Instant::now());
        board.began.set(now).unwrap();
        assert_eq!(board.lock_count(file(2), now), Some(0));
        board.comes(file(2));
        for (exclusive, count, lock_count) in [(false, 1, 1), (true, 1, -1), (false, 65_536, 65_536)] {
            let until = now + Duration::from_secs(300);
            board.note(file(2), Noted { until, exclusive, count });
            assert_eq!(board.lock_count(file(2), now), Some(lock_count));
            assert_eq!(board.lock_count(file(2), until), None, "the books know what is left");
        }
        board.goes(file(2));
        assert_eq!(board.lock_count(file(2), now), Some(0));
    }

    #[test]
    fn of_files_that_share_a_slot_the_books_say_it() {
        let (board, now) = (Board::default(), Instant::now());
        board.began.set(now).unwrap();
        let slot = |vnode| std::ptr::from_ref(board.slot(file(vnode)));
        let other = (4..).step_by(2).find(|&vnode| slot(vnode) == slot(2)).unwrap();
        let noted = Noted { until: now + Duration::from_secs(1), exclusive: false, count: 1 };
        board.comes(file(2));
        board.note(file(2), noted);
        assert_eq!(board.lock_count(file(other), now), Some(0));
        board.comes(file(other));
        board.note(file(other), noted);
        assert_eq!([2, other].map(|vnode| board.lock_count(file(vnode), now)), [None; 2]);
        board.goes(file(2));
        board.goes(file(other));
        assert_eq!([2, other].map(|vnode| board.lock_count(file(vnode), now)), [Some(0); 2]);
        board.comes(file(other));
        board.note(file(other), noted);
        assert_eq!([2, other].map(|vnode| board.lock_count(file(vnode), now)), [Some(0), Some(1)]);
    }

    /// One thread writes; another never reads what was one file's as another's.
    #[test]
    fn what_is_read_while_it_is_written_is_one_files() {
        let (board, now) = (Arc::new(Board::default()), Instant::now());
        board.began.set(now).unwrap();
        let slot = |vnode| std::ptr::from_ref(board.slot(file(vnode)));
        let other = (4..).step_by(2).find(|&vnode| slot(vnode) == slot(2)).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let reader = {
            let (board, is_over) = (Arc::clone(&board), Arc::clone(&is_over));
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(matches!(board.lock_count(file(2), now), None | Some(0 | 2)));
                    assert!(matches!(board.lock_count(file(other), now), None | Some(0 | 3)));
                }
            })
        };
        let until = now + Duration::from_secs(3600);
        for _ in 0..50_000 {
            for (vnode, count) in [(2, 2), (other, 3)] {
                board.comes(file(vnode));
                board.note(file(vnode), Noted { until, exclusive: false, count });
                board.goes(file(vnode));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    }
}
