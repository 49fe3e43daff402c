//! Change notification: each lane's watches and the events queued for that lane, with inotify's merging and
//! overflow.

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
    /// Serial number of each watched file and directory.
    watched: BTreeMap<i32, u64>,
    last: i32,
    queue: VecDeque<WatchEvent>,
    waker: Option<Waker>,
}

impl Watches {
    /// Watches a file or directory; returns the same watch for the same inode again.
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

    /// Takes everything queued for a lane; notes `waker` where the queue is empty.
    pub(in crate::backend::sim) fn take(&mut self, lane: usize, waker: &Waker) -> Vec<WatchEvent> {
        let lane = self.lanes.entry(lane).or_default();
        if lane.queue.is_empty() {
            lane.waker = Some(waker.clone());
        }
        lane.queue.drain(..).collect()
    }

    /// Tells the watchers of a directory that the entry `name` has changed.
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

    /// Tells the watchers of an inode that its attributes, content or count of names have changed.
    pub(super) fn itself_changed(&mut self, serial: u64, engine: &mut Engine) {
        for lane in self.lanes.values_mut() {
            if let Some(watch) = lane.watch_of(serial) {
                lane.push(WatchEvent::Itself(watch), engine);
            }
        }
    }

    /// Returns whether any lane watches the inode.
    pub(super) fn are_of(&self, serial: u64) -> bool {
        self.lanes.values().any(|lane| lane.watch_of(serial).is_some())
    }

    /// Tells the watchers of an inode that it was moved. They go on hearing of it, as inotify's do, until they remove the watch.
    pub(super) fn moved(&mut self, serial: u64, engine: &mut Engine) {
        for lane in self.lanes.values_mut() {
            if let Some(watch) = lane.watch_of(serial) {
                lane.push(WatchEvent::Gone(watch), engine);
            }
        }
    }

    /// Ends the watches of an inode that was removed.
    pub(super) fn gone(&mut self, serial: u64, engine: &mut Engine) {
        for lane in self.lanes.values_mut() {
            if let Some(watch) = lane.watch_of(serial) {
                lane.watched.remove(&watch.0);
                lane.push(WatchEvent::Gone(watch), engine);
            }
        }
    }

    /// Drops what is queued for every lane, as when the kernel's queue runs over.
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

/// Most events queued: inotify's default limit (`max_queued_events`).
const QUEUED_MAX: usize = 16_384;
