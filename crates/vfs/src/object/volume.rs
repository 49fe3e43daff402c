//! State of a writable volume that lanes share: one for each, process-wide, whichever of them has it open.

use std::ffi::CStr;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::SystemTime;

use coherence::{CachedVolume, Closed, Gate, GatedVolume, LaneBits};
use identity::{ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED, Acl};
use index::{Index, Kind, Mark, Number, OpenedVolume, RightsIn, Tree, Version, VolumeId, VolumeRecord};
use lane::fs::{Dir, Stat, TreeInUse, TreeLock};

use super::attribute_flag::AttributeFlag;
use super::by_vnode::ObjectsByVnode;
use super::mark::{MarkAttributes, RootMark};
use super::other_names::OtherNames;
use super::remembered_lists::RememberedLists;
use super::{Accepted, Objects, Watches};
use crate::attributes::{Attributes, FileId};
use crate::error::Error;
use crate::partial_uploads::PartialUploads;
use crate::rights_storage::RightsStorage;
use crate::spec::{VolumeName, VolumeSpec};
use crate::usage::{Ledger, Space};

/// A writable volume that some lane has open. All lanes that open the same directory under the same name have the same
/// one, also over a reload, and so have all of its [`Object`](super::Object)s.
pub struct SharedVolume {
    pub(super) id: VolumeId,
    /// Name that the configuration gives it.
    name: Mutex<VolumeName>,
    /// Identity of the volume's directory. As long as this lives a lane has that open, so the number names no
    /// other.
    root: FileId,
    pub(super) gate: Gate,
    is_swept: AtomicBool,
    unfinished: PartialUploads,
    /// Ledger of the volume's usage.
    ledger: Ledger,
    objects: Objects,
    /// Objects that are in use, by number.
    pub(super) numbered: ObjectsByVnode,
    pub(super) other_names: OtherNames,
    /// Index of its numbers and versions: the process's, or one in memory for a volume that nothing can be
    /// written to.
    pub(super) index: Arc<Index>,
    /// Set if its files have lasting numbers and versions.
    pub(super) is_numbered: bool,
    /// Key of its files among all objects; 0 where the index gives them their numbers. A file that lies in several
    /// volumes of other keys is an object of each.
    key: u64,
    /// Objects that were given a number by it, where the index gives none.
    unnumbered: AtomicU32,
    /// Generation that its opening began.
    pub(super) generation: u32,
    /// Generation of the opening before.
    generation_before: Option<u32>,
    /// Time of the first opening since the machine lost its power, in seconds since 1970; 0 if it never did. The disk
    /// may have times of older content without its bytes, or the reverse.
    distrusts_before: u32,
    /// The least version that a change brings.
    first: Version,
    /// Set once some lane has opened the volume as one that may be changed.
    is_writable: AtomicBool,
    /// Keeps other servers from writing to the same tree, whatever directory they keep their state in.
    lock: Mutex<Option<Arc<TreeLock>>>,
    pub(super) bearer: MarkAttributes,
    /// Storage of its lists and descriptors.
    rights_storage: RightsStorage,
    /// Storage that the mark on its directory names, if that bears one as this opening left it.
    marked: Option<RightsIn>,
    /// Reason why it is served to administrators alone.
    seal: OnceLock<Seal>,
    /// Directories that have had lists of their own.
    pub(super) remembered: RememberedLists,
    /// Whether files may have attributes that count as usage.
    pub(super) attribute_flag: AttributeFlag,
    /// A mark with more numbers is on its way to the root.
    pub(super) is_marking: AtomicBool,
    /// Reason why nothing can be written to it, though it should.
    trouble: Option<Box<str>>,
    /// Finding of the opening that the administrator should know.
    news: Option<&'static str>,
    /// Lanes whose clients hold callbacks in it.
    callback_lanes: LaneBits,
    /// Watches of what happens in the volume.
    watches: Watches,
}

/// The volumes of a process that are open.
#[derive(Default)]
pub(super) struct Volumes {
    open: Vec<Weak<SharedVolume>>,
    /// The last key that was given to a volume.
    keys: u64,
}

impl GatedVolume for SharedVolume {
    fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl CachedVolume for SharedVolume {
    fn callback_lanes(&self) -> &LaneBits {
        &self.callback_lanes
    }
}

impl Volumes {
    /// Returns the volume that `spec` names and whose open directory is `dir`: the one that is open, or a new one,
    /// which is entered in the index. Blocks for that.
    pub(super) fn get(
        &mut self,
        objects: &Objects,
        spec: &VolumeSpec,
        dir: &Dir,
        stat: &Stat,
    ) -> Result<Arc<SharedVolume>, Error> {
        let root = Attributes::from(*stat).id;
        self.open.retain(|volume| volume.strong_count() > 0);
        for volume in self.open.iter().filter_map(Weak::upgrade) {
            let serves = volume.is_numbered || !spec.is_numbered();
            if volume.root == root && serves && volume.name() == spec.name {
                if spec.is_writable() && volume.trouble.is_none() {
                    volume.lock_tree(dir).map_err(|why| Error::from(io::Error::other(why)))?;
                }
                volume.is_writable.fetch_or(spec.is_writable(), Ordering::Relaxed);
                return Ok(volume);
            }
        }
        // By another name the tree may be this process's already.
        let is_same = |volume: &Arc<SharedVolume>| volume.root == root && volume.is_numbered;
        let of_same = self.open.iter().filter_map(Weak::upgrade).filter(is_same);
        let lock = { of_same }.find_map(|volume| volume.lock().clone());
        self.keys += 1;
        let volume = Arc::new(SharedVolume::open(objects, spec, (dir, root), lock, self.keys)?);
        if objects.is_frozen() {
            volume.close(Closed::Frozen);
        }
        self.open.push(Arc::downgrade(&volume));
        Ok(volume)
    }

    pub(super) fn open(&self) -> Vec<Arc<SharedVolume>> {
        self.open.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Takes the lock of a tree that is written to; `None` where its file system has none.
fn locked(dir: &Dir) -> Result<Option<Arc<TreeLock>>, String> {
    dir.lock_at_start().map(|lock| lock.map(Arc::new)).map_err(|error| {
        match error.get_ref().and_then(|why| why.downcast_ref::<TreeInUse>()) {
            Some(why) => format!("{why}: stop that one, or serve one of them without writable"),
            None => format!("its directory cannot be locked against other servers: {error}"),
        }
    })
}

impl SharedVolume {
    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Makes a volume that has no directory.
    #[cfg(test)]
    pub(crate) fn of_nothing(objects: &Objects, name: &str) -> Arc<Self> {
        let spec = VolumeSpec::new(name.parse().unwrap(), "/nowhere", crate::spec::VolumeOptions::default());
        let index = objects.stand_in();
        let opened = enter(&index, name, &spec, None, None, SystemTime::UNIX_EPOCH).unwrap();
        Arc::new(Self {
            id: opened.volume,
            name: Mutex::new(spec.name),
            root: FileId { dev: 1, ino: opened.volume.0.into() },
            gate: Gate::new(1),
            is_swept: AtomicBool::new(false),
            unfinished: PartialUploads::new(SystemTime::UNIX_EPOCH),
            ledger: Ledger::new(1, false, spec.quota, None),
            objects: objects.clone(),
            numbered: ObjectsByVnode::new(),
            other_names: OtherNames::new(),
            index,
            is_numbered: true,
            key: 0,
            unnumbered: AtomicU32::new(0),
            generation: opened.mark.generation,
            generation_before: opened.generation_before,
            distrusts_before: opened.distrusts_before,
            first: opened.first,
            is_writable: AtomicBool::new(false),
            lock: Mutex::new(None),
            bearer: MarkAttributes::new(false),
            rights_storage: RightsStorage::new(Some(RightsIn::User), false),
            marked: None,
            seal: OnceLock::new(),
            remembered: RememberedLists::new(None, false),
            attribute_flag: AttributeFlag::new(true),
            is_marking: AtomicBool::new(false),
            trouble: None,
            news: None,
            callback_lanes: LaneBits::default(),
            watches: Watches::default(),
        })
    }

    fn open(
        objects: &Objects,
        spec: &VolumeSpec,
        (dir, root): (&Dir, FileId),
        mut lock: Option<Arc<TreeLock>>,
        key: u64,
    ) -> Result<Self, Error> {
        let sees_trusted = objects.options().trusted_attributes;
        let bearer = MarkAttributes::new(sees_trusted);
        let now = lane::time::wall_clock();
        let is_numbered = spec.is_numbered();
        let read = bearer.read(dir);
        let borne = read.clone().unwrap_or_default();
        let known = objects.index().ok().filter(|_| is_numbered);
        let had_rights =
            known.is_some_and(|index| index.had_rights(spec.name.as_str(), &spec.path.to_string_lossy()));
        let seal = Seal::of(&read, sees_trusted, had_rights && !is_accepted(dir, sees_trusted));
        // A new volume keeps rights where they lie already, if they do, else out of reach of others.
        let if_new = match sees_trusted && !lies_with_users(dir) {
            true => RightsIn::Trusted,
            false => RightsIn::User,
        };
        let rights = borne.rights.unwrap_or(if_new);
        let stand_in = || {
            let index = objects.stand_in();
            // By this name the stand-in knows no other tree, whatever was there under the volume's own.
            let name = name_in_stand_in(&spec.name, root, is_numbered);
            Ok::<_, Error>((enter(&index, &name, spec, None, None, now).map_err(|_| Error::ReadOnly)?, index))
        };
        let entered = || {
            let index = objects.index()?;
            if spec.is_writable() && lock.is_none() {
                lock = locked(dir)?;
            }
            let mark = read?.mark;
            let write = |mark: &Mark| bearer.write(dir, mark, rights, borne.is_lost);
            Ok::<_, String>((enter(index, spec.name.as_str(), spec, mark, Some(&write), now)?, index))
        };
        let mut is_marked = borne.rights.is_some();
        // Where it is not opened by the index that may know it, what that remembers counts all the same.
        let by_mark = objects.index().ok().and_then(|index| {
            let mark = Mark::parse(borne.mark.as_deref()?)?;
            let record = index.volume_of(mark.volume)?;
            (record.uuid == mark.uuid).then(|| (Arc::clone(index), mark.volume))
        });
        let (opened, index, trouble) = match is_numbered.then(entered) {
            None => {
                let (opened, index) = stand_in()?;
                (opened, index, None)
            }
            Some(Ok((opened, index))) => {
                is_marked = true;
                (opened, Arc::clone(index), None)
            }
            // Its access lists count all the same: it is opened as it would be, but for changes.
            Some(Err(why)) => {
                let (opened, index) = stand_in()?;
                (opened, index, Some(why.into()))
            }
        };
        let is_kept = is_numbered && trouble.is_none();
        let remembered = RememberedLists::new(
            if is_kept { Some((Arc::clone(&index), opened.volume)) } else { by_mark },
            is_kept,
        );
        let has_attributes = index.volume_of(opened.volume).is_none_or(|record| record.has_attributes);
        let rights_storage = RightsStorage::new(is_marked.then_some(rights), sees_trusted);
        let news = match (&opened, &trouble) {
            (_, Some(_)) => None,
            _ if !is_numbered => None,
            (OpenedVolume { tree_was_behind: true, .. }, _) => Some(TREE_WAS_BEHIND),
            (OpenedVolume { index_was_behind: true, .. }, _) => Some(INDEX_WAS_BEHIND),
            _ => None,
        };
        let name = spec.name.clone();
        let (id, generation, first) = (opened.volume, opened.mark.generation, opened.first);
        let is_writable = AtomicBool::new(spec.is_writable());
        let lanes_max = objects.options().lanes_max;
        let gate = Gate::new(lanes_max);
        let ledger = Ledger::new(lanes_max, spec.is_counted(), spec.quota, opened.usage);
        let (objects, is_swept, is_marking) =
            (objects.clone(), AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self {
            id,
            name: Mutex::new(name),
            root,
            gate,
            is_swept,
            unfinished: PartialUploads::new(lane::time::wall_clock()),
            ledger,
            objects,
            numbered: ObjectsByVnode::new(),
            other_names: OtherNames::new(),
            index,
            is_numbered,
            key: if is_kept { 0 } else { key },
            unnumbered: AtomicU32::new(0),
            generation,
            generation_before: opened.generation_before,
            distrusts_before: opened.distrusts_before,
            first,
            is_writable,
            lock: Mutex::new(lock),
            bearer,
            rights_storage,
            marked: is_marked.then_some(rights),
            seal: seal.map(OnceLock::from).unwrap_or_default(),
            remembered,
            attribute_flag: AttributeFlag::new(has_attributes),
            is_marking,
            trouble,
            news,
            callback_lanes: LaneBits::default(),
            watches: Watches::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<TreeLock>>> {
        self.lock.lock().expect("nobody panics while holding it")
    }

    /// Keeps other servers from writing to the tree from now on.
    fn lock_tree(&self, dir: &Dir) -> Result<(), String> {
        let mut lock = self.lock();
        if lock.is_none() {
            *lock = locked(dir)?;
        }
        Ok(())
    }

    /// Returns the volume's number, which it keeps for ever.
    pub fn id(&self) -> VolumeId {
        self.id
    }

    /// Returns what its index has of it now: when it was made, what it held when that was last counted.
    pub fn record(&self) -> Option<VolumeRecord> {
        self.index.volume_of(self.id)
    }

    /// Returns whether its files have numbers and versions that last. Of one that is guarded alone nothing is
    /// kept but rights.
    pub fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    /// Returns what its files have among the process's objects beside their identities.
    pub(super) fn key(&self) -> u64 {
        self.key
    }

    /// Returns a number for an object of a volume that is guarded alone: no client relies on it.
    pub(super) fn next_unnumbered(&self, kind: Kind) -> Number {
        let count = self.unnumbered.fetch_add(1, Ordering::Relaxed) % (u32::MAX / 2 - 2);
        let vnode = match kind {
            Kind::Root => return Number::ROOT,
            Kind::Directory => count * 2 + 3,
            Kind::File => count * 2 + 2,
        };
        Number { vnode, uniquifier: 1 }
    }

    /// Returns whether no lane had begun to look through it for what a crash left.
    pub(crate) fn begin_sweep(&self) -> bool {
        !self.is_swept.swap(true, Ordering::Relaxed)
    }

    /// Returns the partial uploads of the volume.
    pub(crate) fn unfinished(&self) -> &PartialUploads {
        &self.unfinished
    }

    /// Returns the identity of the volume's directory.
    pub fn root(&self) -> FileId {
        self.root
    }

    /// Returns how clients name it.
    pub fn name(&self) -> VolumeName {
        self.name.lock().expect("nobody panics while holding it").clone()
    }

    /// Gives the volume another name, by which openings find it from now on. Its numbers and versions stay. One that
    /// the index does not know keeps its name.
    pub fn rename(&self, name: &VolumeName) {
        if self.is_known() {
            self.index.rename_volume(self.id, name.as_str());
            *self.name.lock().expect("nobody panics while holding it") = name.clone();
        }
    }

    /// Returns whether the process's index has its numbers and versions.
    fn is_known(&self) -> bool {
        self.is_numbered && self.trouble.is_none()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns what the volume holds and may hold; `None` where usage is not counted.
    pub fn space(&self) -> Option<Space> {
        self.ledger.space()
    }

    /// Has the index remember what it holds, for questions while it is not served; a crash after it has it
    /// counted anew.
    pub(crate) fn remember_usage(&self) {
        if let Some(usage) = self.ledger.settled() {
            let _ = self.index.record_usage(self.id, usage, false);
        }
    }

    /// Returns the objects of its process.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Returns why nothing can be written to it, though its specification says that something may: in words
    /// for the administrator.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Returns where its lists and descriptors lie.
    pub(crate) fn rights_storage(&self) -> RightsStorage {
        if self.is_sealed() { self.rights_storage.sealed() } else { self.rights_storage }
    }

    /// Returns whether the mark that takes a privilege was lost.
    pub(super) fn is_lost(&self) -> bool {
        self.seal.get() == Some(&Seal::Lost)
    }

    /// Returns why it is served to administrators alone: in words for the administrator. `None` where rights
    /// count as they lie.
    pub fn seal(&self) -> Option<String> {
        self.seal.get().map(ToString::to_string)
    }

    /// Returns whether it is served to administrators alone.
    pub(crate) fn is_sealed(&self) -> bool {
        self.seal.get().is_some()
    }

    /// Looks whether the mark on its directory is gone since it was opened, and with it perhaps all lists. From then
    /// on, until it is opened anew, it is served to administrators alone. `marks` are the values of
    /// [`MARK_ATTRIBUTES`](super::MARK_ATTRIBUTES) there now.
    pub fn look_at_mark(&self, marks: [Option<Vec<u8>>; 2]) {
        let Some(kept) = self.marked.filter(|_| !self.is_sealed()) else { return };
        let [user, trusted] = &marks;
        let sees_trusted = self.objects.options().trusted_attributes;
        let seal = match Mark::rights_of(trusted.as_deref(), user.as_deref()) {
            None => Seal::Gone,
            Some(_) if sees_trusted && kept == RightsIn::Trusted && trusted.is_none() => Seal::Lost,
            Some(_) => return,
        };
        if self.seal.set(seal).is_ok() {
            self.objects.revalidate_rights();
        }
    }

    /// Returns what was found as it was opened that the administrator should know, though it is served.
    pub fn news(&self) -> Option<&'static str> {
        self.news
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the least version that a change brings, and that of a new file. It is the first of the generation,
    /// which lasts for as long as nothing can have been set back unseen.
    pub(crate) fn first_version(&self) -> Version {
        self.first
    }

    /// Returns whether clients may change what lies in it, or might until a reload.
    pub(super) fn is_writable(&self) -> bool {
        self.is_writable.load(Ordering::Relaxed)
    }

    /// Returns which opening of which volume this is: its uuid, and the generation that it began. No two
    /// openings have the same.
    pub fn opening(&self) -> Option<([u8; 16], u32)> {
        Some((self.record()?.uuid, self.generation))
    }

    /// Returns the opening before this one, by whatever server; `None` where index or tree may have been set back
    /// since.
    pub fn opening_before(&self) -> Option<([u8; 16], u32)> {
        Some((self.record()?.uuid, self.generation_before?))
    }

    /// Returns when it was opened first since the machine lost its power, in seconds since 1970 (later, where
    /// it is opened oftener than once a second); 0: that never happened. Of content that is older the disk
    /// may have kept the time without the bytes, or the reverse.
    pub fn distrusts_before(&self) -> u32 {
        self.distrusts_before
    }

    /// Returns whether this is the volume's own directory.
    pub(super) fn is_root(&self, stat: &Stat) -> bool {
        (self.root.dev, self.root.ino) == (stat.dev, stat.ino)
    }

    /// Returns the device of its directory's file system.
    pub(crate) fn device(&self) -> u64 {
        self.root.dev
    }
}

impl Drop for SharedVolume {
    fn drop(&mut self) {
        // It is not changed any more: the next server need not count.
        if let Some(usage) = self.ledger.settled() {
            let _ = self.index.record_usage(self.id, usage, true);
        }
        self.index.close_volume(self.id);
        if !self.is_known() {
            // Nothing was written in it: no number is missed.
            let _ = self.index.remove_volume(&name_in_stand_in(&self.name(), self.root, self.is_numbered));
        }
    }
}

impl std::fmt::Debug for SharedVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedVolume").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Function that writes a mark on a tree's root, or returns why it cannot.
type WriteMark<'a> = dyn Fn(&Mark) -> Result<(), String> + 'a;

/// Enters the tree in the index, by the mark that its root bears, and has it bear the mark of this opening where
/// `write` is given. Blocks.
pub(crate) fn enter(
    index: &Index,
    name: &str,
    spec: &VolumeSpec,
    mark: Option<Vec<u8>>,
    write: Option<&WriteMark<'_>>,
    now: SystemTime,
) -> Result<OpenedVolume, String> {
    let path = spec.path.to_string_lossy();
    let tree = Tree { name, path: &path, mark: mark.as_deref(), uuid_if_new: new_uuid() };
    let opened = index.open_volume(tree, now).map_err(|error| error.to_string())?;
    if let Some(write) = write
        && let Err(why) = write(&opened.mark)
    {
        index.close_volume(opened.volume);
        return Err(why);
    }
    index.marked(opened.volume, &opened.mark);
    Ok(opened)
}

/// Reason why a volume is served to administrators alone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Seal {
    /// The process cannot see what the volume has.
    #[error(
        "its access lists lie in trusted. attributes, which take CAP_SYS_ADMIN to read: run the server with that, or stop it and \
         move them by `linerate acl convert DIR --to user`"
    )]
    Unseen,
    /// The attributes that take a privilege are gone.
    #[error(
        "its access lists lay in trusted. attributes, and these are gone, as after a copy or a backup that leaves them out: restore \
         them (rsync -aX or tar --xattrs --xattrs-include='*' as root), or look at what there is by `linerate acl list DIR` and \
         then say so by `linerate acl accept DIR`"
    )]
    Lost,
    /// All attributes are gone.
    #[error(
        "access lists lay in this volume, and its directory has lost the volume's attribute, as after a copy or a backup that leaves \
         extended attributes out: restore them (rsync -aX or tar --xattrs --xattrs-include='*' as root), or look at what there is by \
         `linerate acl list DIR` and then say so by `linerate acl accept DIR`"
    )]
    Gone,
    /// The rights of the tree could not be read.
    #[error("{0}")]
    Unknown(String),
}

impl Seal {
    /// Returns why the volume is served to administrators alone; `None` where it is not. `is_bare`: its index knows of
    /// lists, and no administrator has said that they may be gone.
    fn of(read: &Result<RootMark, String>, sees_trusted: bool, is_bare: bool) -> Option<Self> {
        let borne = match read {
            Ok(borne) => borne,
            Err(why) => return Some(Self::Unknown(why.clone())),
        };
        match borne.rights {
            Some(RightsIn::Trusted) if !sees_trusted => Some(Self::Unseen),
            _ if borne.is_lost => Some(Self::Lost),
            None if is_bare => Some(Self::Gone),
            _ => None,
        }
    }
}

/// Returns whether an administrator has said that rights count as they lie now. Blocks.
fn is_accepted(dir: &Dir, sees_trusted: bool) -> bool {
    let name = if sees_trusted { ACCEPTED_TRUSTED } else { ACCEPTED_USER };
    dir.xattr_at_start(&name.into(), Accepted::BYTES_MAX).is_ok()
}

/// Returns whether the directory's own list lies where its owner may write it. Blocks.
fn lies_with_users(dir: &Dir) -> bool {
    let list = |name: &CStr| match dir.xattr_at_start(&name.into(), Acl::BYTES_MAX) {
        Err(error) if error.raw_os_error() == Some(libc::ERANGE) => Some(Vec::new()),
        list => list.ok(),
    };
    list(ATTRIBUTE_UNPRIVILEGED).is_some() && list(ATTRIBUTE_PRIVILEGED).is_none()
}

/// Returns the name of a volume in the index that stands in for one that does not take it; it is as short as names
/// there must be.
fn name_in_stand_in(name: &VolumeName, root: FileId, is_numbered: bool) -> String {
    let mut hasher = DefaultHasher::new();
    (name.as_str(), is_numbered).hash(&mut hasher);
    format!("{:x} {}:{}", hasher.finish(), root.dev, root.ino)
}

/// Draws a random UUID, as hash maps draw their keys.
fn new_uuid() -> [u8; 16] {
    let half = || RandomState::new().hash_one(0).to_le_bytes();
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&half());
    uuid[8..].copy_from_slice(&half());
    uuid
}

/// Attribute that accepts the rights of a tree, where the server has the privilege. `linerate acl accept` writes it on
/// a directory; its value is an [`Accepted`].
pub const ACCEPTED_TRUSTED: &CStr = c"trusted.linerate.accepted";
/// Attribute that accepts the rights of a tree, where the server has no privilege.
pub const ACCEPTED_USER: &CStr = c"user.linerate.accepted";
//@ level: WARN
//@ subject: volume {name}:
//@ cause: The index in the state directory was deleted, restored from a backup, or moved to another machine without the volume.
//@ remedy: None is needed: clients fetch again what they have cached. Keep the state directory when you move or restore the server.
const INDEX_WAS_BEHIND: &str = "the state directory's index knows less of it than before, as when it was deleted or restored; no file is \
                                lost, but files have new versions and clients fetch them again [volume-index-older]";
//@ level: WARN
//@ subject: volume {name}:
//@ cause: The volume's directory was restored from a backup or a snapshot: its extended attribute is older than the index knows.
//@ remedy: None is needed where the restore was meant: clients fetch again what they have cached. Otherwise mount the right directory.
const TREE_WAS_BEHIND: &str = "its directory is older than the server last saw it, as after a restore from a backup; files have new \
                               versions and clients fetch them again; if no restore was meant, look at the mount [volume-restored]";
