//! Events that the kernel's watches have told of names in watched directories and clients have not been told
//! yet, of all lanes: a while passes before it is, by when this server has told what it does itself. What
//! this server does to a name meanwhile comes behind it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use lane::fs::EntryChange;

use super::Object;
use super::watches::{EventMask, KernelChange};

/// A change of an entry in a watched directory, as one lane's kernel watch reports it, whether this server or another
/// program made it.
#[derive(Debug)]
pub(crate) struct NoticedEvent {
    pub(crate) directory: Arc<Object>,
    pub(crate) name: Box<[u8]>,
    pub(crate) what: EntryChange,
    pub(crate) kinds: EventMask,
    pub(crate) lane: usize,
}

/// A noticed event that is not reported yet.
#[derive(Debug)]
pub(super) struct QueuedEvent {
    pub(super) noticed: NoticedEvent,
    /// Time when it was noticed, by the file system's clock.
    pub(super) seen: SystemTime,
    serial: u64,
    at: Instant,
    /// The other half of a rename within the directory.
    half: Option<u64>,
    /// The event's file is being looked at: later changes of it are others.
    is_looked_at: bool,
}

/// Waiting events, in the order in which each lane has noticed it.
#[derive(Debug, Default)]
pub(super) struct NoticedQueue {
    waiting: VecDeque<QueuedEvent>,
    next: u64,
}

/// The next noticed event of a lane that is due.
pub(crate) struct DueEvent {
    pub(crate) serial: u64,
    pub(crate) due: Instant,
    /// File that is looked at before the event is reported.
    pub(crate) modified: Option<(Arc<Object>, Box<[u8]>)>,
}

/// A change of this server that is about to be reported: which name in which directory.
pub(super) struct OwnNameChange<'a> {
    pub(super) directory: &'a Arc<Object>,
    pub(super) name: &'a [u8],
    pub(super) change: KernelChange,
}

impl QueuedEvent {
    pub(super) fn change(&self) -> KernelChange {
        match self.noticed.what {
            EntryChange::Added | EntryChange::MovedHere => KernelChange::Came,
            EntryChange::Removed | EntryChange::MovedAway => KernelChange::Went,
            EntryChange::Modified => KernelChange::Other,
        }
    }

    /// Returns the bit of its lane, among 64.
    pub(super) fn bit(&self) -> u64 {
        1 << (self.noticed.lane % 64)
    }

    /// Returns whether both are a rename within a directory.
    pub(super) fn is_moved_to(&self, next: &Self) -> bool {
        self.noticed.what == EntryChange::MovedAway && self.half == Some(next.serial)
    }

    fn is_of(&self, directory: &Arc<Object>, name: &[u8]) -> bool {
        Arc::ptr_eq(&self.noticed.directory, directory) && *self.noticed.name == *name
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.noticed.lane == other.noticed.lane && self.is_of(&other.noticed.directory, &other.noticed.name)
    }
}

impl NoticedQueue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Drops all events; no client is notified of them.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn push(&mut self, noticed: NoticedEvent, seen: SystemTime) {
        let mut of_lane =
            self.waiting.iter_mut().rev().filter(|waiting| waiting.noticed.lane == noticed.lane);
        let is_modified = noticed.what == EntryChange::Modified;
        let mut before = of_lane.by_ref().take(if is_modified { MERGED_WITHIN } else { 1 });
        if is_modified {
            let of_name = before.find(|waiting| waiting.is_of(&noticed.directory, &noticed.name));
            if let Some(one) = of_name.filter(|one| one.change() == KernelChange::Other && !one.is_looked_at)
            {
                one.noticed.kinds = one.noticed.kinds | noticed.kinds;
                return;
            }
        }
        let serial = self.next;
        self.next += 1;
        let mut half = None;
        // The kernel tells both halves of a rename one behind the other.
        if noticed.what == EntryChange::MovedHere
            && let Some(last) = before.next()
            && last.noticed.what == EntryChange::MovedAway
            && Arc::ptr_eq(&last.noticed.directory, &noticed.directory)
        {
            last.half = Some(serial);
            half = Some(last.serial);
        }
        let at = lane::time::now();
        self.waiting.push_back(QueuedEvent { noticed, seen, serial, at, half, is_looked_at: false });
    }

    /// Returns the event that a lane has to report next.
    pub(super) fn next_of(&mut self, lane: usize) -> Option<DueEvent> {
        let next = self.waiting.iter_mut().find(|waiting| waiting.noticed.lane == lane)?;
        let due = next.at + OWN_FIRST;
        let modified = (next.change() == KernelChange::Other && due <= lane::time::now()).then(|| {
            next.is_looked_at = true;
            (Arc::clone(&next.noticed.directory), next.noticed.name.clone())
        });
        Some(DueEvent { serial: next.serial, due, modified })
    }

    /// Takes an event out, and if it is a rename both halves; none, if it was reported meanwhile.
    pub(super) fn take(&mut self, serial: u64) -> Vec<QueuedEvent> {
        let Some(at) = self.waiting.iter().position(|waiting| waiting.serial == serial) else {
            return Vec::new();
        };
        let first = self.waiting.remove(at);
        let half = first.as_ref().and_then(|first| first.half);
        let other = half.and_then(|half| self.waiting.iter().position(|waiting| waiting.serial == half));
        first.into_iter().chain(other.and_then(|at| self.waiting.remove(at))).collect()
    }

    /// Takes out what has happened to these names before a change of this server, in its order. Where a lane has
    /// noticed that change already, which is the last that it has, it is dropped, and what comes behind it waits. Of
    /// each name it says which lanes have.
    pub(super) fn take_before(&mut self, own: &[OwnNameChange<'_>]) -> (Vec<QueuedEvent>, Vec<u64>) {
        let is_any = |waiting: &QueuedEvent| own.iter().any(|own| waiting.is_of(own.directory, own.name));
        if !self.waiting.iter().any(is_any) {
            return (Vec::new(), vec![0; own.len()]);
        }
        let mut fates = vec![EventFate::Waits; self.waiting.len()];
        let mut heard = Vec::with_capacity(own.len());
        for OwnNameChange { directory, name, change } in own {
            let of_name: Vec<_> =
                (0..fates.len()).filter(|at| self.waiting[*at].is_of(directory, name)).collect();
            let mut echoes = HashMap::new();
            for at in &of_name {
                let (lane, is) = (self.waiting[*at].noticed.lane, self.waiting[*at].change());
                if is == *change {
                    echoes.insert(lane, *at);
                } else if is != KernelChange::Other {
                    // That name came or went before.
                    echoes.remove(&lane);
                }
            }
            for at in of_name {
                match echoes.get(&self.waiting[at].noticed.lane) {
                    Some(echo) if at == *echo => fates[at] = EventFate::Goes,
                    Some(echo) if at > *echo => {}
                    _ => fates[at] = EventFate::Reported,
                }
            }
            heard.push(echoes.values().fold(0, |bits, at| bits | self.waiting[*at].bit()));
        }
        self.complete(&mut fates);
        let mut told = Vec::new();
        for (waiting, fate) in std::mem::take(&mut self.waiting).into_iter().zip(fates) {
            match fate {
                EventFate::Waits => self.waiting.push_back(waiting),
                EventFate::Reported => told.push(waiting),
                EventFate::Goes => {}
            }
        }
        (told, heard)
    }

    /// Completes the fates: the other half of a rename is reported with it, and before that what had happened to its
    /// name.
    fn complete(&self, fates: &mut [EventFate]) {
        let mut ahead: Vec<_> = (0..fates.len()).filter(|at| fates[*at] == EventFate::Reported).collect();
        while let Some(at) = ahead.pop() {
            let Some(half) = self.waiting[at].half else { continue };
            let Some(half) = self.waiting.iter().position(|waiting| waiting.serial == half) else { continue };
            let other = &self.waiting[half];
            for (before, fate) in fates.iter_mut().enumerate().take(half + 1) {
                if *fate == EventFate::Waits && self.waiting[before].is_beside(other) {
                    *fate = EventFate::Reported;
                    ahead.push(before);
                }
            }
        }
    }
}

/// Fate of a queued event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventFate {
    Waits,
    Reported,
    Goes,
}

/// Time within which this server has reported what it does itself.
const OWN_FIRST: Duration = Duration::from_millis(100);
/// Number of the lane's last events among which a change of a file is merged with the change before it.
const MERGED_WITHIN: usize = 64;
