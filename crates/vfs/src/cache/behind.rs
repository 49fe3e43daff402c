//! What notification tells of changes made behind the server's back is looked at, where clients rely on something.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use lane::Task;

use super::Inner;
use super::Joined;
use super::key::{Key, KeyRef};
use super::watches::WatchedDir;
use crate::change::Looked;
use crate::promise::{Displaced, Sought};
use crate::volume::{Volume, WeakVolume};

/// Names to look at, and who does.
#[derive(Default)]
pub(super) struct Doubts {
    names: VecDeque<Key>,
    looking: Option<Task<()>>,
    /// Looks after which somebody may rely on a file that is no longer there.
    looked: Vec<LookedIn>,
    seeking: Option<Task<()>>,
    volumes: Vec<WeakVolume>,
}

/// A look, and the volume that it was into.
type LookedIn = (Looked, WeakVolume);

impl Inner {
    pub(super) fn note_volume(&self, volume: WeakVolume) {
        let mut doubts = self.doubts.borrow_mut();
        doubts.volumes.retain(|known| known.upgrade().is_some());
        doubts.volumes.push(volume);
    }

    /// An entry of a directory has changed, by whomever.
    pub(super) fn doubt(self: &Rc<Self>, watched: &WatchedDir, name: &[u8]) {
        if self.joined.get().is_none_or(|joined| joined.promises.given() == 0) {
            return;
        }
        let mut doubts = self.doubts.borrow_mut();
        for key in watched.key().child(name).into_iter().chain([watched.key().to_key()]) {
            if doubts.names.contains(&key) {
                continue;
            }
            if doubts.names.len() >= DOUBTS_MAX {
                drop(doubts);
                return self.doubt_all();
            }
            doubts.names.push_back(key);
        }
        if doubts.looking.as_ref().is_none_or(Task::is_finished) {
            doubts.looking = Some(lane::spawn(look(Rc::downgrade(self))));
        }
    }

    /// Changes were lost, or are too many to look at: no client of this lane is to rely on anything it knows.
    pub(super) fn doubt_all(&self) {
        self.doubts.borrow_mut().names.clear();
        if let Some(joined) = self.joined.get() {
            self.counters.doubted_all.increment();
            joined.void_clients();
        }
    }
}

async fn look(inner: Weak<Inner>) {
    while let Some((key, volume)) = inner.upgrade().and_then(|inner| inner.next_doubt()) {
        let Some(volume) = volume else { continue };
        if let Some(looked) = volume.look_behind(key.as_ref().path).await
            && let Some(inner) = inner.upgrade()
        {
            inner.seek(looked, volume.downgrade());
        }
    }
}

/// Looks for files that clients rely on and that somebody else has replaced or taken away: nothing but their recorded places leads from
/// the name to them, so all that this lane has promised is looked through, not more often than every so often.
async fn seek(inner: Weak<Inner>) {
    loop {
        let Some((joined, looked)) = inner.upgrade().and_then(|inner| inner.next_looked()) else { return };
        let (looked, volumes): (Vec<_>, Vec<_>) = looked.into_iter().unzip();
        let sought = Sought::new(looked);
        let mut from = Some(0);
        while let Some(next) = from {
            let (displaced, rest) = joined.promises.displaced(&sought, next, SOUGHT_AT_ONCE);
            for Displaced { object, at } in displaced {
                let mut volumes = volumes.iter().filter_map(WeakVolume::upgrade);
                let is_of = |volume: &Volume| {
                    volume.shared().is_some_and(|shared| Arc::ptr_eq(shared, object.volume()))
                };
                let of = volumes.find(is_of);
                if let Some(volume) = of {
                    // It is found out at the next look of somebody otherwise.
                    let _ = volume.displaced_behind(&object, &at).await;
                }
            }
            lane::yield_now().await;
            from = rest;
        }
        drop((joined, volumes, sought));
        lane::time::sleep(SEEK_PAUSE).await;
    }
}

impl Inner {
    fn seek(self: &Rc<Self>, looked: Looked, volume: WeakVolume) {
        let mut doubts = self.doubts.borrow_mut();
        if doubts.looked.len() >= DOUBTS_MAX {
            return self.counters.displaced_unsought.increment();
        }
        doubts.looked.push((looked, volume));
        if doubts.seeking.as_ref().is_none_or(Task::is_finished) {
            doubts.seeking = Some(lane::spawn(seek(Rc::downgrade(self))));
        }
    }

    fn next_looked(&self) -> Option<(Rc<Joined>, Vec<LookedIn>)> {
        let looked = std::mem::take(&mut self.doubts.borrow_mut().looked);
        if looked.is_empty() {
            return None;
        }
        Some((Rc::clone(self.joined.get()?), looked))
    }

    fn next_doubt(&self) -> Option<(Key, Option<Volume>)> {
        let mut doubts = self.doubts.borrow_mut();
        let key = doubts.names.pop_front()?;
        drop(doubts);
        let volume = self.volume_of(key.as_ref());
        Some((key, volume))
    }

    /// The volume that a key is of.
    pub(super) fn volume_of(&self, key: KeyRef<'_>) -> Option<Volume> {
        let doubts = self.doubts.borrow();
        let mut volumes = doubts.volumes.iter().filter_map(WeakVolume::upgrade);
        volumes.find(|volume| volume.key(key.path).volume == key.volume)
    }
}

/// Names that wait to be looked at.
const DOUBTS_MAX: usize = 256;
/// Promises looked through in one turn of the lane.
const SOUGHT_AT_ONCE: u32 = 1024;
/// Between two times that all promises are looked through.
const SEEK_PAUSE: std::time::Duration = std::time::Duration::from_secs(2);
