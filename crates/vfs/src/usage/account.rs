//! The account of a volume, from one beginning of a count to the next, as all lanes have it.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use index::{Quota, Usage};

use super::content::Contents;
use super::count::Count;
use super::room::Room;
use super::{Space, SpaceState};

/// Account of a volume's usage.
pub(crate) struct Account {
    is_counting: AtomicBool,
    /// Set once a walker is at it.
    has_walker: AtomicBool,
    /// Set if the account is not what a walk would find: a change did not come to its end.
    is_uncertain: AtomicBool,
    count: Mutex<Count>,
    pub(super) contents: Contents,
    pub(super) bytes: Room,
    pub(super) files: Room,
}

/// The account that is kept now, as one lane has it.
pub(crate) struct LaneAccount {
    pub(super) account: Arc<Account>,
    pub(super) lane: usize,
}

impl Account {
    /// Makes the account of a volume with the usage `known`, which has not changed since; without it the volume is
    /// counted.
    pub(super) fn new(lanes: usize, quota: Quota, known: Option<Usage>) -> Self {
        let account = Self {
            is_counting: AtomicBool::new(known.is_none()),
            has_walker: AtomicBool::new(false),
            is_uncertain: AtomicBool::new(false),
            count: Mutex::default(),
            contents: Contents::default(),
            bytes: Room::new(lanes, BATCH_BYTES),
            files: Room::new(lanes, BATCH_FILES),
        };
        account.set_quota(quota);
        let Usage { bytes, files } = known.unwrap_or_default();
        account.add(files, bytes);
        account
    }

    /// Sets the volume's quota. What it holds already stays.
    pub(super) fn set_quota(&self, quota: Quota) {
        self.bytes.set_limit(quota.bytes);
        self.files.set_limit(quota.files);
    }

    pub(super) fn space(&self) -> Space {
        let used = Usage { bytes: self.bytes.used(), files: self.files.used() };
        let quota = Quota { bytes: self.bytes.limit(), files: self.files.limit() };
        let state = match (self.is_uncertain(), self.is_counting()) {
            (true, _) => SpaceState::InDoubt,
            (false, true) => SpaceState::Counting { directories: self.count().directories },
            (false, false) => SpaceState::Counted,
        };
        Space { used, quota, state }
    }

    /// Adds usage that was found.
    pub(super) fn add(&self, files: u64, bytes: u64) {
        self.files.take_unchecked(files);
        self.bytes.take_unchecked(bytes);
    }

    /// Notes that a change did not come to its end.
    pub(super) fn mark_uncertain(&self) {
        self.is_uncertain.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_uncertain(&self) -> bool {
        self.is_uncertain.load(Ordering::SeqCst)
    }

    pub(super) fn is_counting(&self) -> bool {
        self.is_counting.load(Ordering::SeqCst)
    }

    /// Notes that all is counted.
    pub(super) fn end_count(&self, count: &mut Count) {
        self.is_counting.store(false, Ordering::SeqCst);
        let (grown, shrunk) = count.end();
        self.bytes.take_unchecked(grown);
        self.bytes.give_unchecked(shrunk);
    }

    /// Returns whether a count is wanted and this is the first to offer one.
    pub(super) fn begin_walk(&self) -> bool {
        self.is_counting() && !self.is_uncertain() && !self.has_walker.swap(true, Ordering::SeqCst)
    }

    pub(super) fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().expect("nobody panics while holding it")
    }

    /// Asks the count, where one is under way. All else is counted.
    pub(super) fn unless_counted<T>(&self, counted: T, ask: impl FnOnce(&mut Count) -> T) -> T {
        if !self.is_counting() {
            return counted;
        }
        let mut count = self.count();
        // It may have ended just now.
        if self.is_counting() { ask(&mut count) } else { counted }
    }
}

impl LaneAccount {
    pub(crate) fn new(account: Arc<Account>, lane: usize) -> Rc<Self> {
        Rc::new(Self { account, lane })
    }

    /// Takes room, if there is so much.
    #[must_use]
    pub(super) fn take(&self, files: u64, bytes: u64) -> bool {
        if !self.account.files.take(self.lane, files) {
            return false;
        }
        let is_taken = self.account.bytes.take(self.lane, bytes);
        if !is_taken {
            self.account.files.give_back(self.lane, files);
        }
        is_taken
    }

    /// Takes room for a file to grow from one length to another, if there is so much. One that would be longer than all may be does not
    /// fit, though the bytes that it has are not counted yet.
    #[must_use]
    pub(super) fn take_to(&self, from: u64, to: u64) -> bool {
        let fits = to <= from || self.account.bytes.limit().is_none_or(|limit| to <= limit);
        fits && self.take(0, to.saturating_sub(from))
    }

    pub(super) fn give_back(&self, files: u64, bytes: u64) {
        self.account.files.give_back(self.lane, files);
        self.account.bytes.give_back(self.lane, bytes);
    }
}

impl std::fmt::Debug for LaneAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneAccount").field("lane", &self.lane).finish_non_exhaustive()
    }
}

//@ limit: room in a volume (`quota`, `max_files`)
//@ section: Writable volumes
//@ unit: byte, file
//@ connection: what is left
//@ all: process: the quota; what is in the lanes' allotments ({:b}, {BATCH_FILES} files) is gathered first
//@ empty: refused before anything is changed (507 over HTTP); others too, until something is removed
//@ counter: vfs_refused{reason="quota"}, volume_used_bytes
//@ attack: http-edges
/// Bytes that a lane draws at once.
const BATCH_BYTES: u64 = 16 << 20;
const BATCH_FILES: u64 = 1024;
