//! The process-wide table of objects in use: found by identity at first use on a lane, never on the way of data.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use coherence::{CallbackOptions, ChangeLock, Closed, Holder, LaneBits};
use grants::Leases;
use index::{Index, Memory, Options};
use lane::fs::{Dir, Stat, Timestamp};
use lane::mesh::Member;
use smb_sid::{Sids, machine_name};

use super::record::NONE;
use super::room_record::RoomRecord;
use super::volume::Volumes;
use super::{Identity, Object, SharedVolume, path_beneath};
use crate::callback::{Client, InvalidationQueues};
use crate::descriptor::UNREAD;
use crate::error::Error;
use crate::grant::{LeasePlace, LocalLockFiles};
use crate::spec::VolumeSpec;

/// Table of the objects of a process, and of what its lanes report to each other about them. Make one for a process,
/// before its lanes; clones are handles to the same table.
#[derive(Clone)]
pub struct Objects {
    shared: Arc<Shared>,
}

/// Bounds of what a process keeps of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectsOptions {
    /// Files and directories of writable volumes in use at once, by all lanes together.
    pub objects_max: usize,
    /// Changes that wait for one object.
    pub waiting_max: usize,
    /// Leases that one client names at once, also those of directories above what it opens.
    pub leases_per_client_max: usize,
    /// Lanes that take part; at most 256.
    pub lanes_max: usize,
    /// Set if the process may read every file: it keeps to mode bits on its clients' behalf.
    pub privileged: bool,
    /// Set if files become those of the clients that make them, where these are POSIX users: takes CAP_CHOWN, and
    /// CAP_DAC_OVERRIDE and CAP_FOWNER to change it afterwards.
    pub gives_files: bool,
    /// The POSIX user of the process: it owns the files of clients that are no POSIX users.
    pub user: u32,
    /// Set if file systems let the process write to what they keep for their own user, as that is root or has
    /// CAP_SYS_RESOURCE.
    pub has_reserve: bool,
    /// Set if access lists are kept in attributes that take CAP_SYS_ADMIN, out of reach of the file system's other
    /// users.
    pub trusted_attributes: bool,
    /// Options of callbacks.
    pub callbacks: CallbackOptions,
    /// Files that are open so that other programs on this machine see what clients lock of them. A client has
    /// no more than it leaves to others.
    pub local_locks_max: usize,
}

struct Shared {
    options: ObjectsOptions,
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    in_use: AtomicUsize,
    /// The index, or the reason why there is none. Empty until a volume needs one.
    index: OnceLock<Result<Arc<Index>, String>>,
    /// Index in memory for volumes that nothing can be written to.
    stand_in: OnceLock<Arc<Index>>,
    queues: Arc<InvalidationQueues>,
    volumes: Mutex<Volumes>,
    /// Set while nothing may be changed.
    is_frozen: AtomicBool,
    leases: Arc<Leases<LeasePlace>>,
    local_lock_files: LocalLockFiles,
    /// Objects that SMB's clients hold something of.
    held: AtomicUsize,
    clients: Mutex<HashMap<Holder, Weak<Client>>>,
    /// Last time given, in nanoseconds since 1970.
    last_stamp: AtomicU64,
    /// Mark of this process in the names that it gives to staged files.
    mark: OnceLock<u64>,
    /// SIDs of users in security descriptors.
    sids: Mutex<Arc<Sids>>,
    /// Record of files with room beyond their ends; `None` where it cannot be kept, and no room is taken. Empty where
    /// room is taken without a record.
    room_record: OnceLock<Option<Arc<RoomRecord>>>,
    /// Number of times that an administrator has said that rights were changed beside the server.
    doubted: AtomicU64,
}

/// Objects by the volume's [key](SharedVolume::key) and their identity.
type Shard = HashMap<(u64, Identity), Weak<Object>>;

impl Objects {
    /// Makes a table without objects in use; numbers and versions are kept in `index`.
    ///
    /// # Panics
    /// For more lanes than there may be.
    pub fn new(options: ObjectsOptions, index: Arc<Index>) -> Self {
        let objects = Self::unnumbered(options);
        objects.keep_in(Ok(index));
        objects
    }

    /// Makes a table for a process that has no index, for the reason given. Nothing is written, as versions could not
    /// be kept.
    ///
    /// # Panics
    /// As [`Objects::new`].
    pub fn without_index(options: ObjectsOptions, why: String) -> Self {
        let objects = Self::unnumbered(options);
        objects.keep_in(Err(why));
        objects
    }

    /// Makes a table for a process that remembers nothing, as tests do: versions and numbers begin anew with it.
    ///
    /// # Panics
    /// As [`Objects::new`].
    pub fn in_memory(options: ObjectsOptions) -> Self {
        Self::new(options, index_in_memory())
    }

    /// Makes a table for a process whose volumes are all [guarded](VolumeSpec::guarded) alone, as yet.
    ///
    /// # Panics
    /// As [`Objects::new`].
    pub fn unnumbered(options: ObjectsOptions) -> Self {
        assert!(options.lanes_max <= LaneBits::LANES_MAX, "{} lanes at most", LaneBits::LANES_MAX);
        Self {
            shared: Arc::new(Shared {
                options,
                shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
                hasher: RandomState::new(),
                in_use: AtomicUsize::new(0),
                index: OnceLock::new(),
                stand_in: OnceLock::new(),
                queues: Arc::new(InvalidationQueues::new(options.lanes_max)),
                volumes: Mutex::default(),
                is_frozen: AtomicBool::new(false),
                leases: Leases::new(options.leases_per_client_max),
                local_lock_files: LocalLockFiles::new(options.local_locks_max),
                held: AtomicUsize::new(0),
                clients: Mutex::default(),
                last_stamp: AtomicU64::new(0),
                mark: OnceLock::new(),
                sids: Mutex::new(Arc::new(Sids::new(&machine_name()))),
                room_record: OnceLock::new(),
                doubted: AtomicU64::new(0),
            }),
        }
    }

    /// Keeps numbers and versions in this index, or notes why they cannot be kept. The first call counts.
    pub fn keep_in(&self, index: Result<Arc<Index>, String>) {
        let _ = self.shared.index.set(index);
    }

    /// Keeps there which files have room beyond their ends, so that after a kill the next process gives it back: no
    /// other may use the file meanwhile. The first that is given counts. Blocks: for start-up and reload.
    ///
    /// # Errors
    /// Those of the file: no room is taken ahead of what clients store then.
    pub fn record_room_in(&self, file: &Path) -> std::io::Result<()> {
        let opened = RoomRecord::open(file);
        let _ = self.shared.room_record.set(opened.as_ref().ok().cloned());
        opened.map(drop)
    }

    /// Returns the record of room beyond the ends of files: `Some(None)` where that cannot be.
    pub(crate) fn room_record(&self) -> Option<Option<&Arc<RoomRecord>>> {
        self.shared.room_record.get().map(Option::as_ref)
    }

    /// Returns the number of objects in use now.
    pub fn in_use(&self) -> usize {
        self.shared.in_use.load(Ordering::Relaxed)
    }

    /// Returns the table's bounds.
    pub fn options(&self) -> &ObjectsOptions {
        &self.shared.options
    }

    /// Returns the writable volume that `spec` names and whose open directory is `dir`: the one that is open, or a new
    /// one. Blocks where that is opened for the first time.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] where it is too long a name or path for the index.
    pub(crate) fn volume(
        &self,
        spec: &VolumeSpec,
        dir: &Dir,
        stat: &Stat,
    ) -> Result<Arc<SharedVolume>, Error> {
        let mut volumes = self.shared.volumes.lock().expect("nobody panics while holding it");
        volumes.get(self, spec, dir, stat)
    }

    pub(super) fn index(&self) -> Result<&Arc<Index>, String> {
        match self.shared.index.get() {
            Some(index) => index.as_ref().map_err(Clone::clone),
            None => Err("there is no index".to_owned()),
        }
    }

    pub(super) fn stand_in(&self) -> Arc<Index> {
        Arc::clone(self.shared.stand_in.get_or_init(index_in_memory))
    }

    /// Returns the mark of this process in the names of its staged files: the time when its first lane joined.
    pub(crate) fn mark(&self) -> u64 {
        let now = || lane::time::wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default();
        *self.shared.mark.get_or_init(|| now().as_nanos() as u64)
    }

    /// Returns the index that versions are kept in; `None` for a process that has none.
    pub fn persistent_index(&self) -> Option<&Arc<Index>> {
        self.shared.index.get()?.as_ref().ok()
    }

    /// Holds all changes back, in whatever volume, until [`Objects::thaw`]: they wait for 12 s, then they are refused
    /// as in a frozen volume. It is for a start at which clients have to be notified first that what they rely on is
    /// void.
    pub fn freeze(&self) {
        // Under the lock that volumes are opened under: each is open already, or finds that it is to be closed.
        let volumes = self.shared.volumes.lock().expect("nobody panics while holding it");
        self.shared.is_frozen.store(true, Ordering::SeqCst);
        volumes.open().iter().for_each(|volume| volume.close(Closed::Frozen));
    }

    /// Lets changes in again. Volumes that were closed for another reason meanwhile stay so.
    pub fn thaw(&self) {
        let volumes = self.shared.volumes.lock().expect("nobody panics while holding it");
        self.shared.is_frozen.store(false, Ordering::SeqCst);
        let open = volumes.open();
        let frozen = open.iter().filter(|volume| volume.closed() == Some(Closed::Frozen));
        frozen.for_each(|volume| volume.reopen());
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.shared.is_frozen.load(Ordering::SeqCst)
    }

    /// Returns the volumes with lasting numbers that some lane has open, or still has work in.
    pub fn volumes(&self) -> Vec<Arc<SharedVolume>> {
        let mut volumes = self.all_volumes();
        volumes.retain(|volume| volume.is_numbered());
        volumes
    }

    /// Returns all volumes that some lane has open, or still has work in.
    pub fn all_volumes(&self) -> Vec<Arc<SharedVolume>> {
        self.shared.volumes.lock().expect("nobody panics while holding it").open()
    }

    /// Returns the object of this identity: the one in use, or a new one.
    ///
    /// # Errors
    /// [`Error::Busy`] when as many are in use as may be, or a file that lies in two volumes is in use in the other.
    pub(crate) fn get(&self, volume: &Arc<SharedVolume>, identity: Identity) -> Result<Arc<Object>, Error> {
        loop {
            let key = (volume.key(), identity.clone());
            let mut shard = self.shard(&identity);
            if let Some(known) = shard.get(&key) {
                if let Some(object) = known.upgrade() {
                    drop(shard);
                    return of_volume(object, volume);
                }
                // Its last user is just letting go of it, and telling the index: what is to be known of it comes after that.
                drop(shard);
                std::thread::yield_now();
                continue;
            }
            let object = self.begin(volume, &identity)?;
            shard.insert(key, Arc::downgrade(&object));
            return Ok(object);
        }
    }

    /// Returns the record of a client; a new one is notified from the lane `home`.
    ///
    /// # Errors
    /// [`Error::Busy`] when there are as many as may be.
    pub(crate) fn client(&self, holder: Holder, home: Member) -> Result<Arc<Client>, Error> {
        let options = self.shared.options.callbacks;
        let mut clients = self.shared.clients.lock().expect("nobody panics while holding it");
        if let Some(client) = clients.get(&holder).and_then(Weak::upgrade) {
            return Ok(client);
        }
        if clients.len() >= options.clients_max {
            clients.retain(|_, client| client.strong_count() > 0);
            if clients.len() >= options.clients_max {
                return Err(Error::Busy);
            }
        }
        let client = Client::new(holder, home, options.kept_max);
        clients.insert(holder, Arc::downgrade(&client));
        Ok(client)
    }

    /// Returns a time that the table has not given before: now, or just after the last. A clock that was set
    /// back is followed.
    pub(crate) fn next_stamp(&self, now: SystemTime) -> Timestamp {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        let next = |last: u64| if last < now + STAMPS_AHEAD_NS_MAX { now.max(last + 1) } else { now };
        let last = &self.shared.last_stamp;
        let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        let at = next(before.unwrap_or_default());
        Timestamp { secs: (at / 1_000_000_000) as i64, nanos: (at % 1_000_000_000) as u32 }
    }

    /// Returns the object of this identity in `volume`, if it is in use.
    pub(crate) fn in_use_in(&self, volume: &SharedVolume, identity: &Identity) -> Option<Arc<Object>> {
        let object = self.shard(identity).get(&(volume.key(), identity.clone()))?.upgrade()?;
        std::ptr::eq(&*object.volume, volume).then_some(object)
    }

    /// Returns whether SMB's clients hold anything of any object.
    pub(crate) fn any_held(&self) -> bool {
        self.shared.held.load(Ordering::SeqCst) > 0
    }

    /// Objects beneath a directory that SMB's clients have open. Looks through all that are in use: for a helper.
    pub(crate) fn open_beneath(&self, top: &Arc<Object>) -> Vec<Arc<Object>> {
        let is_beneath = |object: &Arc<Object>| {
            !Arc::ptr_eq(object, top) && object.grants().is_open() && path_beneath(top, object).is_some()
        };
        let mut open = Vec::new();
        for shard in &self.shared.shards {
            let shard = shard.lock().expect("nobody panics while holding it");
            let in_use: Vec<_> = shard.values().filter_map(Weak::upgrade).collect();
            // A lane that drops the last of them looks for it in the table.
            drop(shard);
            open.extend(in_use.into_iter().filter(is_beneath));
        }
        open
    }

    pub(crate) fn count_held(&self, is_held: bool) {
        let before = match is_held {
            true => self.shared.held.fetch_add(1, Ordering::SeqCst),
            false => self.shared.held.fetch_sub(1, Ordering::SeqCst),
        };
        debug_assert!(is_held || before > 0, "an object that is held no more was held");
    }

    pub(crate) fn leases(&self) -> &Arc<Leases<LeasePlace>> {
        &self.shared.leases
    }

    pub(crate) fn local_lock_files(&self) -> &LocalLockFiles {
        &self.shared.local_lock_files
    }

    pub(crate) fn queues(&self) -> &Arc<InvalidationQueues> {
        &self.shared.queues
    }

    /// Names users and groups by these SIDs in security descriptors from now on. Without it they are named as on a
    /// server that has this machine's name.
    pub fn call_by(&self, sids: Sids) {
        *self.lock_sids() = Arc::new(sids);
    }

    /// Has every lane look at the rights of directories again, at every look-up that begins from now on, as they were
    /// changed outside of the server.
    pub fn revalidate_rights(&self) {
        self.shared.doubted.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the count of doubts: what was looked at under another count is doubted.
    pub(crate) fn rights_generation(&self) -> u64 {
        self.shared.doubted.load(Ordering::Acquire)
    }

    pub(crate) fn sids(&self) -> Arc<Sids> {
        Arc::clone(&self.lock_sids())
    }

    fn lock_sids(&self) -> MutexGuard<'_, Arc<Sids>> {
        self.shared.sids.lock().expect("nobody panics while holding it")
    }

    /// Forgets an object of which the last user lets go.
    pub(super) fn forget(&self, object: &Object) {
        let before = self.shared.in_use.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "an object that is dropped was counted");
        let mut shard = self.shard(&object.identity);
        let key = (object.volume.key(), object.identity.clone());
        if shard.get(&key).is_some_and(|known| std::ptr::eq(known.as_ptr(), object)) {
            shard.remove(&key);
        }
    }

    fn begin(&self, volume: &Arc<SharedVolume>, identity: &Identity) -> Result<Arc<Object>, Error> {
        let Shared { in_use, options, .. } = &*self.shared;
        if in_use.fetch_add(1, Ordering::Relaxed) >= options.objects_max {
            in_use.fetch_sub(1, Ordering::Relaxed);
            return Err(Error::Busy);
        }
        Ok(Arc::new(Object {
            identity: identity.clone(),
            version: AtomicU64::new(0),
            number: AtomicU64::new(NONE),
            news: AtomicU8::new(0),
            described: AtomicU8::new(UNREAD),
            maker: AtomicI32::new(0),
            own_changes: AtomicU16::new(0),
            callback_lanes: LaneBits::default(),
            used: OnceLock::new(),
            change_lock: ChangeLock::default(),
            state: Mutex::default(),
            volume: Arc::clone(volume),
        }))
    }

    fn shard(&self, identity: &Identity) -> MutexGuard<'_, Shard> {
        let at = self.shared.hasher.hash_one(identity) as usize % SHARDS;
        self.shared.shards[at].lock().expect("nobody panics while holding it")
    }
}

/// Checks that an object in use is one of the volume. Change locks and callbacks go by object, numbers and versions by
/// volume: it cannot be two volumes'.
///
/// # Errors
/// [`Error::Busy`] while an earlier opening of the volume has it; [`Error::InAnotherVolume`] where another volume has
/// it in use.
fn of_volume(object: Arc<Object>, volume: &Arc<SharedVolume>) -> Result<Arc<Object>, Error> {
    if Arc::ptr_eq(&object.volume, volume) {
        return Ok(object);
    }
    if object.volume.id() == volume.id() {
        return Err(Error::Busy);
    }
    let (name, other) = (volume.name(), object.volume.name());
    //@ cause: A file has names in two volumes, by a hard link or a mount. It has one number and one version, so only the volume that has
    //@ it in use serves it.
    //@ remedy: Keep a copy in one of the volumes in place of the link (`cp --remove-destination`), or make one volume of both.
    tracing::warn!(
        volume = %name,
        "volume {name}: a file of it is refused, as it is in volume {other} too, where it is in use: a file is served in one volume; \
         find it by `find DIR -type f -links +1` [volume-file-of-two]"
    );
    Err(Error::InAnotherVolume)
}

impl Default for ObjectsOptions {
    fn default() -> Self {
        Self {
            //@ limit: objects: files and directories in use
            //@ section: Writable volumes
            //@ unit: object of at most 300 bytes
            //@ connection: what it has open, and what its lane keeps open for it
            //@ all: process: {}
            //@ empty: a first use is refused as busy; what is in use goes on
            //@ counter: vfs_refused{reason="busy"}, vfs_objects_shared
            //@ attack: afs-pools
            objects_max: 1 << 20,
            //@ limit: changes that wait for one file or directory
            //@ section: Writable volumes
            //@ unit: change
            //@ connection: one for each request of its own
            //@ all: process: {} in line of each, first come first served
            //@ empty: refused as busy; those in line go on
            //@ counter: vfs_refused{reason="busy"}, vfs_changes
            //@ attack: http-edges
            waiting_max: 1024,
            //@ limit: leases
            //@ section: Files and listings
            //@ unit: lease
            //@ connection: {} of one client
            //@ empty: the open is refused; others feel nothing
            //@ counter: vfs_grants_refused{reason="limit"}, smb_caching_opens_made
            //@ attack: smb-pools
            leases_per_client_max: 65_536,
            lanes_max: LaneBits::LANES_MAX,
            callbacks: CallbackOptions::default(),
            //@ limit: files open so that other programs see what clients lock
            //@ section: Files and listings
            //@ unit: file
            //@ address: as many as are free
            //@ all: process: {}
            //@ empty: the lock is refused; others feel nothing while there is room
            //@ counter: vfs_locked_for_others, vfs_grants_refused{reason="limit"}
            //@ attack: smb-pools
            local_locks_max: 4096,
            privileged: false,
            gives_files: false,
            has_reserve: false,
            user: 0,
            trusted_attributes: false,
        }
    }
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("in_use", &self.in_use()).finish_non_exhaustive()
    }
}

fn index_in_memory() -> Arc<Index> {
    Arc::new(Index::open(Memory::default(), Options::default()).expect("memory does not fail"))
}

const SHARDS: usize = 64;
/// Nanoseconds by which the last stamp may be ahead of the clock; beyond them the clock was set back.
const STAMPS_AHEAD_NS_MAX: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn objects(objects_max: usize) -> Objects {
        let options = ObjectsOptions { objects_max, ..Default::default() };
        Objects::in_memory(options)
    }

    fn volume(objects: &Objects) -> Arc<SharedVolume> {
        SharedVolume::of_nothing(objects, "test")
    }

    fn identity(n: u8) -> Identity {
        Identity::of_handle(1, 1, &[n])
    }

    #[test]
    fn a_file_in_use_has_one_object() {
        let objects = objects(10);
        let volume = volume(&objects);
        let first = objects.get(&volume, identity(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &objects.get(&volume, identity(1)).unwrap()));
        assert!(!Arc::ptr_eq(&first, &objects.get(&volume, identity(2)).unwrap()));
        assert_eq!(objects.in_use(), 1);
        drop(first);
        assert_eq!(objects.in_use(), 0);
    }

    #[test]
    fn a_file_that_lies_in_two_volumes_is_used_in_one_of_them_at_a_time() {
        let objects = objects(10);
        let [first, other] = ["first", "other"].map(|name| SharedVolume::of_nothing(&objects, name));
        let object = objects.get(&first, identity(1)).unwrap();
        assert!(Arc::ptr_eq(object.volume(), &first));
        assert!(matches!(objects.get(&other, identity(1)), Err(Error::InAnotherVolume)));
        drop(object);
        assert!(objects.get(&other, identity(1)).is_ok());
    }

    #[test]
    fn no_time_is_given_twice_and_a_clock_set_back_is_followed() {
        let objects = objects(1);
        let at = |ms: u64| objects.next_stamp(UNIX_EPOCH + Duration::from_millis(ms));
        let times = [at(5000), at(5000), at(4999), at(5001), at(2000), at(2000)];
        let ns = |of: u64, more| Timestamp {
            secs: (of / 1000) as i64,
            nanos: (of % 1000) as u32 * 1_000_000 + more,
        };
        assert_eq!(times, [ns(5000, 0), ns(5000, 1), ns(5000, 2), ns(5001, 0), ns(2000, 0), ns(2000, 1)]);
    }

    #[test]
    fn beyond_the_limit_first_uses_are_refused_and_known_ones_go_on() {
        let objects = objects(2);
        let volume = volume(&objects);
        let kept = [1, 2].map(|n| objects.get(&volume, identity(n)).unwrap());
        assert!(matches!(objects.get(&volume, identity(3)), Err(Error::Busy)));
        assert!(objects.get(&volume, identity(1)).is_ok());
        drop(kept);
        assert!(objects.get(&volume, identity(3)).is_ok());
    }

    #[test]
    fn an_object_takes_at_most_300_bytes_with_its_entry() {
        let counts_of_arc = 2 * size_of::<usize>();
        // Tables are between seven sixteenths and seven eighths full, two thirds on average.
        let entry = (size_of::<(Identity, Weak<Object>)>() + 1) * 3 / 2;
        let object = size_of::<Object>() + counts_of_arc;
        assert!(object + entry <= 300, "{object} + {entry}");
    }

    #[test]
    fn objects_come_and_go_on_many_threads_and_each_file_has_one() {
        let objects = objects(100);
        let volume = volume(&objects);
        std::thread::scope(|scope| {
            for thread in 0..4_u8 {
                let (objects, volume) = (objects.clone(), Arc::clone(&volume));
                scope.spawn(move || {
                    for step in 0..2000_u32 {
                        let which = (step * 31 + u32::from(thread)) as u8 % 3;
                        let object = objects.get(&volume, identity(which)).unwrap();
                        assert!(Arc::ptr_eq(&object, &objects.get(&volume, identity(which)).unwrap()));
                    }
                });
            }
        });
        assert_eq!(objects.in_use(), 0);
        assert!(objects.shared.shards.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
