//! Objects, which several lanes may use at once: one live [`Object`] for each file and directory of a
//! writable volume that is in use, process-wide. docs/design/vfs.md shows what holds what.

use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU16, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime};

use coherence::{CachedObject, ChangeKind, ChangeLock, LaneBits, LockedObject};
use index::{Number, Version};
use lane::mesh::Member;
use smb_wire::info::security::Descriptor;

pub(crate) use self::by_vnode::Recorded;
pub(crate) use self::identify::{At, By, identity_of, kind_of};
pub use self::identity::Identity;
use self::listed::Listed;
pub(crate) use self::listed::ListedAt;
pub(crate) use self::look::{Judgement, LookMark, MetadataChange};
pub use self::mark::MARK_ATTRIBUTES;
pub(crate) use self::mark::{MarkAttributes, RootMark};
use self::open_names::OpenNames;
pub(crate) use self::queued_events::{DueEvent, NoticedEvent};
pub use self::remembered_lists::Accepted;
pub(crate) use self::remembered_lists::is_accepted;
pub(crate) use self::room_record::RoomSlot;
pub use self::table::{Objects, ObjectsOptions};
pub(crate) use self::volume::enter;
pub use self::volume::{ACCEPTED_TRUSTED, ACCEPTED_USER, SharedVolume};
pub(crate) use self::watches::Watches;
pub(crate) use self::watches::{Echo, FileLook, OwnChange, WatchAlive};
pub use self::watches::{Event, EventKind, EventMask, Watch, WatchOptions, WatchReport};

pub use self::log::Edit;
pub(crate) use self::log::{Log, LoggedChange, RevalidationOwner};
pub(crate) use self::place::{Place, path_beneath, path_in_volume};

use crate::grant::{GrantSlot, HeldGrants, UnsentBreak};

mod attribute_flag;
mod by_vnode;
mod identify;
mod identity;
mod listed;
mod log;
mod look;
mod mark;
mod open_names;
mod other_names;
mod place;
mod queued_events;
mod record;
mod remembered_lists;
mod room_record;
mod synced_lists;
mod table;
mod volume;
mod volume_attributes;
mod volume_gate;
mod watches;
mod words;

/// Change locks of several objects.
pub(crate) type ChangeLockSet = coherence::ChangeLockSet<Object>;
/// A change lock that writes of one client share.
pub(crate) type SharedChangeLock = coherence::SharedChangeLock<Object>;
/// One change inside the gate of its volume.
pub(crate) type GatePass = coherence::GatePass<SharedVolume>;
/// Guard that keeps changes waiting before the gate of a volume.
pub(crate) type GatePause = coherence::GatePause<SharedVolume>;

/// A file or directory in use. There is one for each, whatever lanes and names lead to it.
pub struct Object {
    identity: Identity,
    /// A [`Version`].
    version: AtomicU64,
    /// Vnode and uniquifier, once the index has said them, and with them the version.
    number: AtomicU64,
    /// Parts that the index has to record: `TOUCHED` and `FRESH` of `record`, which has a bit of its own beside.
    news: AtomicU8,
    /// Knowledge of a descriptor of its own: [`crate::descriptor`].
    pub(crate) described: AtomicU8,
    /// The object's maker, where that is recorded: [`crate::maker`].
    pub(crate) maker: AtomicI32,
    /// Number of times that it was given another of either: a reader of them sees whether that was meanwhile.
    /// Written under the small lock.
    pub(crate) own_changes: AtomicU16,
    /// Lanes that let their clients rely on it.
    callback_lanes: LaneBits,
    /// Use of the object by lanes: for a directory alone, once a lane uses it.
    used: OnceLock<Box<Used>>,
    /// Lock of the change under way, with the changes that wait.
    change_lock: ChangeLock,
    /// Place where it was last found, and changes under way.
    state: Mutex<ObjectState>,
    volume: Arc<SharedVolume>,
}

/// Use of a directory by lanes.
#[derive(Default)]
struct Used {
    /// Lanes that rely on it themselves.
    sharers: LaneBits,
    listed: Listed,
    /// Generation by which its own list was [noted](Object::is_list_noted).
    list_noted: AtomicU64,
    log: Mutex<Option<Weak<Log>>>,
    /// Time when this server moved the directory last.
    moved: Mutex<Option<Instant>>,
    open_names: OpenNames<Object>,
}

/// State of an object under its small lock.
#[derive(Default)]
pub(crate) struct ObjectState {
    place: Option<Place>,
    changing: Option<Box<ChangeKind>>,
    /// Grants of SMB's clients on it.
    pub(crate) grants: Option<Box<HeldGrants>>,
    draft: look::VersionState,
    /// The object's own descriptor, if it has one that can be read.
    pub(crate) own: Option<Arc<Descriptor>>,
}

impl Object {
    /// Returns which file.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns which file, in words that mean the same to the next server: they outlive a restart, and a
    /// device that is numbered anew.
    pub fn lasting_words(&self) -> Vec<u8> {
        self.identity.words(self.volume.device()).to_vec()
    }

    /// Returns the volume it lies in.
    pub fn volume(&self) -> &Arc<SharedVolume> {
        &self.volume
    }

    /// Returns what its content, or a directory's names, have come to. Read it before the content: what is
    /// read after it is this old at most.
    pub fn version(&self) -> Version {
        Version::from(self.version.load(Ordering::SeqCst))
    }

    /// Returns whether a change is under way, or may begin without asking any lane. A lane that relies on
    /// what it reads sets its bit first.
    pub(crate) fn is_changing(&self) -> bool {
        self.change_lock.is_held()
    }

    /// Returns whether a change is under way. For a caller that has made sure that none may begin without
    /// asking.
    pub(crate) fn is_busy(&self) -> bool {
        self.change_lock.is_busy()
    }

    /// Notes that the directory has no list of its own.
    pub(crate) fn note_no_list(&self) {
        self.used.get().into_iter().for_each(|used| used.list_noted.store(0, Ordering::Relaxed));
    }

    /// Returns whether that it has a list of its own was noted by this key; if not it is now.
    pub(crate) fn is_list_noted(&self, key: u64) -> bool {
        self.used.get_or_init(Box::default).list_noted.swap(key, Ordering::Relaxed) == key
    }

    /// Returns the names in it by which clients have something open.
    pub(crate) fn open_names(&self) -> &OpenNames<Object> {
        &self.used.get_or_init(Box::default).open_names
    }

    /// Notes that this server moves the directory, and notifies all that have to hear.
    pub(crate) fn note_moving(&self, now: Instant) {
        *self.moved_at() = Some(now);
    }

    /// Returns whether this server has moved the directory, or one above, so lately that the kernel may still tell of
    /// it.
    pub(crate) fn was_moved_by_server(self: &Arc<Self>, now: Instant) -> bool {
        let mut at = Arc::clone(self);
        // Places may form a circle while directories move.
        for _ in 0..DEPTH_MAX {
            if at.moved_at().is_some_and(|moved| now < moved + MOVED_FOR) {
                return true;
            }
            match at.place() {
                Some(place) => at = place.directory,
                None => break,
            }
        }
        false
    }

    fn moved_at(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        let used = self.used.get_or_init(Box::default);
        used.moved.lock().expect("nobody panics while holding it")
    }

    /// Returns what SMB's clients hold of it.
    pub(crate) fn grants(&self) -> GrantSlot<'_> {
        GrantSlot::new(self)
    }

    pub(crate) fn change_lock(&self) -> &ChangeLock {
        &self.change_lock
    }

    /// Returns the number of the directory that it was last found in, and its name there: a hint, as it may move.
    /// `None` for a volume's own directory.
    pub fn seen_in(&self) -> Option<(Number, Box<[u8]>)> {
        self.place().map(|place| (place.directory.number(), place.name))
    }

    /// Returns the directory it was last found in, and its name there; `None` for a volume's own directory.
    pub(crate) fn place(&self) -> Option<Place> {
        self.lock_state().place.clone()
    }

    /// Notes what is about to change, under its change lock and before the bits are read.
    pub(crate) fn set_changing(&self, what: ChangeKind) {
        let before = {
            let mut state = self.lock_state();
            self.take_step();
            state.changing.replace(Box::new(what))
        };
        drop(before);
        fence(Ordering::SeqCst);
    }

    /// Notes that the change is over: made `at` this time, or failed.
    pub(crate) fn set_changed(&self, at: Option<SystemTime>) {
        let before = {
            let mut state = self.lock_state();
            self.settle(&mut state.draft, at);
            state.show_change();
            let changed = state.changing.take();
            if at.is_some() && matches!(changed.as_deref(), Some(ChangeKind::Gone)) {
                state.draft.take_away();
            }
            changed
        };
        drop(before);
        fence(Ordering::SeqCst);
    }

    /// Returns whether it loses its place or its rights, for a lane that has set its bit.
    pub(crate) fn is_moving(&self) -> bool {
        fence(Ordering::SeqCst);
        self.lock_state().changing.as_deref().is_some_and(ChangeKind::is_of_place)
    }

    /// Returns whether what the name leads to changes, for a lane that has set its bit.
    pub(crate) fn is_changing_name(&self, name: &[u8]) -> bool {
        fence(Ordering::SeqCst);
        match self.lock_state().changing.as_deref() {
            Some(ChangeKind::Unknown) => true,
            Some(ChangeKind::Names(names)) => names.iter().any(|changing| **changing == *name),
            _ => false,
        }
    }

    pub(crate) fn lock_state(&self) -> std::sync::MutexGuard<'_, ObjectState> {
        self.state.lock().expect("nobody panics while holding it")
    }
}

impl LockedObject for Object {
    type Identity = Identity;
    type Volume = SharedVolume;

    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn volume(&self) -> &Arc<SharedVolume> {
        &self.volume
    }

    fn change_lock(&self) -> &ChangeLock {
        &self.change_lock
    }
}

impl CachedObject for Object {
    type LeaseBreak = UnsentBreak;

    fn callback_lanes(&self) -> &LaneBits {
        &self.callback_lanes
    }

    fn sharers(&self) -> Option<&LaneBits> {
        self.used.get().map(|used| &used.sharers)
    }

    fn add_sharer(&self, lane: Member) {
        self.used.get_or_init(Box::default).sharers.set(lane);
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.release();
        self.volume.numbered.remove(self);
        self.volume.objects().forget(self);
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("identity", &self.identity)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

/// Time within which the kernel tells of what this server has moved.
const MOVED_FOR: Duration = Duration::from_secs(1);
/// Directories above one that are looked at: more than a path has.
const DEPTH_MAX: usize = 2048;
