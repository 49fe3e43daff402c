//! Room in a volume, of bytes or of files, that many lanes take and give back at once and never take more of than there is.
//!
//! A lane takes from its own *allotment*, a word that no other lane writes as long as there is enough; it
//! draws anew in batches from what all share. Only when that is short are the allotments of all lanes
//! gathered, under a lock, so that no client is refused while anything is left.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Taken and total room.
pub(super) struct Room {
    /// [`UNLIMITED`] for no limit.
    limit: AtomicU64,
    /// Room in use, and the allotments of all lanes.
    taken: AtomicI64,
    allotments: Box<[Allotment]>,
    batch: i64,
    /// Held while batches are drawn and allotments gathered.
    drawing: Mutex<()>,
}

/// Room that one lane has drawn and not used. On a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Allotment(AtomicI64);

impl Room {
    pub(super) fn new(lanes: usize, batch: u64) -> Self {
        Self {
            limit: AtomicU64::new(UNLIMITED),
            taken: AtomicI64::new(0),
            allotments: (0..lanes).map(|_| Allotment::default()).collect(),
            batch: signed(batch),
            drawing: Mutex::default(),
        }
    }

    pub(super) fn set_limit(&self, limit: Option<u64>) {
        self.limit.store(limit.unwrap_or(UNLIMITED), Ordering::Relaxed);
    }

    pub(super) fn limit(&self) -> Option<u64> {
        let limit = self.limit.load(Ordering::Relaxed);
        (limit != UNLIMITED).then_some(limit)
    }

    /// Returns what is in use. Exact while no lane takes or gives back.
    pub(super) fn used(&self) -> u64 {
        let allotted: i64 = self.allotments.iter().map(|allotment| allotment.0.load(Ordering::SeqCst)).sum();
        // Less than nothing was counted where files came behind the server's back and went by it.
        u64::try_from(self.taken.load(Ordering::SeqCst) - allotted).unwrap_or(0)
    }

    /// Takes `n`, if they are there.
    #[must_use]
    pub(super) fn take(&self, lane: usize, n: u64) -> bool {
        let n = signed(n);
        let own = &self.allotments[lane].0;
        let enough = |left: i64| (left >= n).then(|| left - n);
        if n == 0 || own.fetch_update(Ordering::SeqCst, Ordering::SeqCst, enough).is_ok() {
            return true;
        }
        let _drawing = self.drawing.lock().expect("nobody panics while holding it");
        if self.draw(n.saturating_add(self.batch)) {
            own.fetch_add(self.batch, Ordering::SeqCst);
            return true;
        }
        for allotment in &self.allotments {
            self.taken.fetch_sub(allotment.0.swap(0, Ordering::SeqCst), Ordering::SeqCst);
        }
        self.draw(n)
    }

    /// Takes `n` though they may not be there: what is in the volume already, and turns out to be.
    pub(super) fn take_unchecked(&self, n: u64) {
        self.taken.fetch_add(signed(n), Ordering::SeqCst);
    }

    /// Gives `n` back to all.
    pub(super) fn give_unchecked(&self, n: u64) {
        self.taken.fetch_sub(signed(n), Ordering::SeqCst);
    }

    /// Gives `n` back.
    pub(super) fn give_back(&self, lane: usize, n: u64) {
        let n = signed(n);
        if n == 0 {
            return;
        }
        let own = &self.allotments[lane].0;
        if own.fetch_add(n, Ordering::SeqCst) + n > 2 * self.batch {
            let surplus = own.swap(0, Ordering::SeqCst);
            self.taken.fetch_sub(surplus, Ordering::SeqCst);
        }
    }

    fn draw(&self, n: i64) -> bool {
        let limit = i64::try_from(self.limit.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let within = |taken: i64| taken.checked_add(n).filter(|taken| *taken <= limit);
        self.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within).is_ok()
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

const UNLIMITED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_in_allotments_is_found_when_it_is_needed() {
        let room = Room::new(4, 100);
        room.set_limit(Some(350));
        for lane in 0..3 {
            assert!(room.take(lane, 1));
        }
        assert_eq!(room.used(), 3);
        assert!(room.take(3, 347));
        assert!(!room.take(0, 1));
        room.give_back(3, 1);
        assert!(room.take(0, 1) && !room.take(1, 1));
        assert_eq!(room.used(), 350);
    }

    #[test]
    fn a_lane_that_frees_much_gives_it_to_all() {
        let room = Room::new(2, 10);
        assert!(room.take(0, 1000));
        room.set_limit(Some(1000));
        room.give_back(0, 999);
        assert!(room.take(1, 999) && !room.take(0, 1));
    }

    #[test]
    fn threads_never_take_more_together_than_there_is_nor_are_refused_while_there_is() {
        let room = Room::new(4, 16);
        room.set_limit(Some(1000));
        let taken: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|lane| {
                    let room = &room;
                    scope.spawn(move || {
                        let mut mine = 0;
                        for step in 0..5000_u64 {
                            if room.take(lane, 1 + step % 3) {
                                mine += 1 + step % 3;
                            }
                            assert!(room.used() <= 1000);
                            if step % 7 == 0 {
                                room.give_back(lane, mine.min(2));
                                mine -= mine.min(2);
                            }
                        }
                        mine
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let used: u64 = taken.iter().sum();
        assert_eq!(room.used(), used);
        assert!(room.take(0, 1000 - used) && !room.take(1, 1));
    }
}
