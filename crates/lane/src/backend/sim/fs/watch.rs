//! Change notification: each lane's watches and the events queued for it, with inotify's merging and overflow.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::task::Waker;

use super::Inode;
use crate::backend::Watch;
use crate::backend::file::{EntryChange, WatchEvent};
use crate::backend::sim::engine::Engine;

/// The watches on one disk, by lane.
#[derive(Default)]
pub(in crate::backend::sim) struct Watches {
    lanes: BTreeMap<usize, LaneWatches>,
}

#[derive(Default)]
struct LaneWatches {
    /// The serial number of each file and directory.
    watched: BTreeMap<i32, u64>,
    last: i32,
    queue: VecDeque<WatchEvent>,
    waker: Option<Waker>,
}

impl Watches {
    /// Watches a file or directory; the same again is the same watch.
    pub(in crate::backend::sim) fn add(&mut self, lane: usize, inode: &Rc<Inode>) -> Watch {
        let lane = self.lanes.entry(lane).or_default();
        if let Some((&watch, _)) = lane.watched.iter().find(|&(_, &serial)| serial == inode.serial()) {
            return Watch(watch);
        }
        lane.last += 1;
        lane.watched.insert(lane.last, inode.serial());
        Watch(lane.last)
    }

    pub(in crate::backend::sim) fn remove(&mut self, lane: usize, watch: Watch, engine: &mut Engine) {
        let Some(lane) = self.lanes.get_mut(&lane) else { return };
        if lane.watched.remove(&watch.0).is_some() {
            lane.push(WatchEvent::Gone(watch), engine);
        }
    }

    /// Everything queued for a lane; empty when there is nothing, and then `waker` will be told.
    pub(in crate::backend::sim) fn take(&mut self, lane: usize, waker: &Waker) -> Vec<WatchEvent> {
        let lane = self.lanes.entry(lane).or_default();
        if lane.queue.is_empty() {
            lane.waker = Some(waker.clone());
        }
        lane.queue.drain(..).collect()
    }

    /// The entry `name` of a directory has changed.
    pub(super) fn entry_changed(
        &mut self,
        (dir, name): (&Inode, &[u8]),
        is_directory: bool,
        what: EntryChange,
        engine: &mut Engine,
    ) {
        for lane in self.lanes.values_mut() {
            if let Some(watch) = lane.watch_of(dir.serial()) {
                lane.push(WatchEvent::Entry { watch, name: name.to_vec(), what, is_directory }, engine);
            }
        }
    }

    /// A directory's own attributes have changed, or those of a file, or its content or count of names.
    pub(super) fn itself_changed(&mut self, serial: u64, engine: &mut Engine) {
        for lane in self.lanes.values_mut() {
            if let Some(watch) = lane.watch_of(serial) {
                lane.push(WatchEvent::Itself(watch), engine);
            }
        }
    }

    /// Returns whether a watch is on the inode.
    pub(super) fn are_of(&self, serial: u64) -> bool {
        self.lanes.values().any(|lane| lane.watch_of(serial).is_some())
    }

    /// Ends the watches of an inode that was removed or moved.
    pub(super) fn gone(&mut self, serial: u64, engine: &mut Engine) {
        for lane in self.lanes.values_mut() {
            if let Some(watch) = lane.watch_of(serial) {
                lane.watched.remove(&watch.0);
                lane.push(WatchEvent::Gone(watch), engine);
            }
        }
    }

    /// Every lane loses what is queued for it, as when the kernel's queue runs over.
    pub(super) fn overflow(&mut self, engine: &mut Engine) {
        for lane in self.lanes.values_mut() {
            lane.queue.clear();
            lane.push(WatchEvent::Overflow, engine);
        }
    }

    pub(super) fn clear(&mut self) {
        self.lanes.clear();
    }
}

impl LaneWatches {
    fn watch_of(&self, serial: u64) -> Option<Watch> {
        self.watched.iter().find(|&(_, &watched)| watched == serial).map(|(&watch, _)| Watch(watch))
    }

    fn push(&mut self, event: WatchEvent, engine: &mut Engine) {
        let event = match self.queue.back() {
            Some(last) if *last == event => return,
            _ if self.queue.len() > QUEUED_MAX => return,
            _ if self.queue.len() == QUEUED_MAX => WatchEvent::Overflow,
            _ => event,
        };
        self.queue.push_back(event);
        engine.wake(self.waker.take());
    }
}

/// inotify's default limit (`max_queued_events`).
const QUEUED_MAX: usize = 16_384;
