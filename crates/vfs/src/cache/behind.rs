//! What notification tells of changes made behind the server's back is looked at, where clients rely on something.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use lane::Task;

use super::Inner;
use super::key::Key;
use super::watches::WatchedDir;
use crate::volume::WeakVolume;

/// Names to look at, and who does.
#[derive(Default)]
pub(super) struct Doubts {
    names: VecDeque<Key>,
    looking: Option<Task<()>>,
    volumes: Vec<WeakVolume>,
}

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
        // What cannot be looked at is found out at the next look of somebody.
        let _ = volume.look_behind(key.as_ref().path).await;
    }
}

impl Inner {
    fn next_doubt(&self) -> Option<(Key, Option<crate::volume::Volume>)> {
        let mut doubts = self.doubts.borrow_mut();
        let key = doubts.names.pop_front()?;
        let volumes = doubts.volumes.iter().filter_map(WeakVolume::upgrade);
        let volume =
            volumes.into_iter().find(|volume| volume.key(key.as_ref().path).volume == key.as_ref().volume);
        Some((key, volume))
    }
}

/// Names that wait to be looked at.
const DOUBTS_MAX: usize = 256;
