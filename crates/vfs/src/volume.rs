//! A volume as one lane serves it: names go in, open files and directories come out.

use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use identity::Rights;
use lane::fs::{File, FileKind, Stat, SystemStat};
use smb_sid::Sids;

use crate::attributes::{Attributes, FileId};
use crate::cache::{Cache, CachedLookup, KeyRef, Node, OpeningId, Validity};
use crate::caller::Caller;
use crate::counters::VfsCounters;
use crate::directory::{Directory, OpenDirectory};
use crate::error::Error;
use crate::file::OpenFile;
use crate::guarded::Steps;
use crate::io_faults::{self, FaultPlace};
use crate::name::{RelPath, RelPathBuf};
use crate::object::{At, By, Object, SharedVolume, path_in_volume};
use crate::root::Root;
use crate::spec::{VolumeName, VolumeOptions, VolumeSpec};

/// An exported directory, opened on this lane. Cloning it is cheap.
#[derive(Clone)]
pub struct Volume {
    inner: Rc<Inner>,
}

/// A volume for as long as its lane has it open.
pub(crate) struct WeakVolume(Weak<Inner>);

/// Target of a path, with its attributes at the moment of the look-up.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// A regular file.
    File(Rc<OpenFile>, Attributes),
    /// A directory.
    Directory(Directory, Attributes),
}

/// Ways of opening a path.
#[derive(Clone, Copy)]
pub(crate) enum OpenBy {
    /// Open where no symbolic link is on the way.
    RealPath,
    /// Follow links that stay inside the volume.
    AnyPath,
}

struct Inner {
    name: VolumeName,
    options: VolumeOptions,
    id: OpeningId,
    path: Rc<Path>,
    root: Root,
    /// The caller of unauthenticated requests, for a volume with objects.
    anonymous: Option<Caller>,
    cache: Cache,
}

impl Volume {
    /// Opens the exported directory on the current lane. Blocks: for start-up and reload.
    ///
    /// The directory stays the one opened here if its name later names another.
    ///
    /// # Errors
    /// As the file system has them; [`Error::ReadOnly`] for a volume [with objects](VolumeSpec::has_objects) in a
    /// cache that does not [share](Cache::sharing).
    pub fn open(cache: &Cache, spec: &VolumeSpec) -> Result<Self, Error> {
        let root = match (spec.has_objects(), cache.peer()) {
            (true, None) => return Err(Error::ReadOnly),
            (true, Some(peer)) => Root::open_shared(spec, &peer.objects)?,
            (false, _) => Root::open(spec)?,
        };
        let anonymous = spec.has_objects().then(Caller::anonymous);
        let id = cache.new_opening();
        let (name, options, cache) = (spec.name.clone(), spec.options, cache.clone());
        let path = spec.path.as_path().into();
        let volume = Self { inner: Rc::new(Inner { name, options, id, path, root, anonymous, cache }) };
        if volume.has_objects() {
            volume.cache().note_volume(WeakVolume(Rc::downgrade(&volume.inner)));
        }
        Ok(volume)
    }

    /// Returns whether both are one opening of a directory: clones of each other.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.inner, &other.inner)
    }

    pub(crate) fn downgrade(&self) -> WeakVolume {
        WeakVolume(Rc::downgrade(&self.inner))
    }

    /// Returns how clients name it.
    pub fn name(&self) -> &VolumeName {
        &self.inner.name
    }

    /// Returns what of it is served.
    pub fn options(&self) -> VolumeOptions {
        self.inner.options
    }

    /// Returns the counters of the lane's cache.
    pub fn counters(&self) -> &Arc<VfsCounters> {
        self.inner.cache.counters()
    }

    /// Returns what `path` names, as an unauthenticated caller may see it: from the cache at the cost of one
    /// `fstat`, else by opening it.
    ///
    /// # Errors
    /// Any but [`Error::Changed`] and [`Error::TooLarge`]; each is counted.
    pub async fn lookup(&self, path: RelPath<'_>) -> Result<Resolved, Error> {
        if let Some(anonymous) = &self.inner.anonymous {
            return self.lookup_as(anonymous, path, Rights::READ).await;
        }
        self.lookup_plain(path).await
    }

    /// Looks up a path ([`Volume::lookup`]) in so many steps through symbolic links where those are followed
    /// here.
    pub(crate) async fn lookup_within(
        &self,
        path: RelPath<'_>,
        steps: &Steps<'_>,
    ) -> Result<Resolved, Error> {
        let Some(anonymous) = self.inner.anonymous.as_ref().filter(|_| self.has_objects()) else {
            return self.lookup(path).await;
        };
        Ok(self.look_within(anonymous, path, Rights::READ, steps).await?.resolved)
    }

    /// Looks up a path on a volume where every client may read what the server can.
    pub(crate) async fn lookup_plain(&self, path: RelPath<'_>) -> Result<Resolved, Error> {
        if let Some(answer) = self.try_lookup(path) {
            return answer;
        }
        // Apart, as those whose answer is at hand should not carry its memory.
        let opened = self.open_uncached(path).await;
        self.report_failure(path, "it cannot be opened", opened)
    }

    /// Looks up a path if the answer is at hand ([`Volume::lookup`]): never waits. `None` means "ask
    /// `lookup`".
    pub fn try_lookup(&self, path: RelPath<'_>) -> Option<Result<Resolved, Error>> {
        if let Some(anonymous) = &self.inner.anonymous {
            return self.try_guarded(anonymous, path, Rights::READ).map(|answer| self.counted(answer));
        }
        if self.hides(path) {
            return Some(self.counted(Err(Error::Hidden)));
        }
        let key = self.key(path);
        match self.inner.cache.find(key)? {
            CachedLookup::Absent => {
                self.counters().lookup_absent_hits.increment();
                Some(self.counted(Err(Error::NotFound)))
            }
            CachedLookup::Open(node) => {
                let resolved = self.refresh(path, &node)?;
                self.counters().lookup_hits.increment();
                Some(Ok(resolved))
            }
        }
    }

    /// Returns whether this is withheld from all clients.
    pub(crate) fn withholds(&self, thing: FileId) -> bool {
        self.inner.cache.withheld().is_some_and(|withheld| withheld.has(thing))
    }

    /// Returns whether a name is not served, or is one of the server's own.
    pub(crate) fn hides(&self, path: RelPath<'_>) -> bool {
        path.is_hidden() && (!self.inner.options.serve_hidden || path.is_reserved())
    }

    /// Returns whether clients may change it, as far as their rights go.
    pub fn is_writable(&self) -> bool {
        self.inner.root.is_writable()
    }

    /// Returns whether lanes share its files: it is writable, or was opened [so](VolumeSpec::with_objects).
    pub fn has_objects(&self) -> bool {
        self.inner.root.shared().is_some()
    }

    /// Returns what it shares with other lanes; `None` for a volume without objects.
    pub fn shared(&self) -> Option<&Arc<SharedVolume>> {
        self.inner.root.shared()
    }

    /// Returns [`SharedVolume::distrusts_before`]; 0 for a volume without objects.
    pub fn distrusts_before(&self) -> u32 {
        self.shared().map_or(0, |shared| shared.distrusts_before())
    }

    /// Returns the SIDs of users in security descriptors.
    pub(crate) fn sids(&self) -> Option<Arc<Sids>> {
        Some(self.shared()?.objects().sids())
    }

    /// Returns the caller of unauthenticated requests; `None` where every client may read what the server
    /// can.
    pub(crate) fn anonymous(&self) -> Option<&Caller> {
        self.inner.anonymous.as_ref()
    }

    /// Returns the present path of a directory of this volume, as far as this server has moved it; `None` for
    /// one of another, and once it cannot be reached.
    pub fn path_of(&self, directory: &Arc<Object>) -> Option<RelPathBuf> {
        Arc::ptr_eq(directory.volume(), self.shared()?).then(|| path_in_volume(directory))?
    }

    /// Returns the place of a path, for log messages.
    pub(crate) fn place(&self, path: RelPath<'_>) -> FaultPlace {
        FaultPlace::new(&self.inner.path, path)
    }

    pub(crate) fn root(&self) -> &Root {
        &self.inner.root
    }

    /// Returns how full the file system of its directory is.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Overloaded`] when the silo's helpers are.
    pub fn room<'a>(&'a self) -> LocalBoxFuture<'a, Result<SystemStat, Error>> {
        Box::pin(async move { Ok(self.inner.root.dir().as_file().stat_system().await?) })
    }

    /// Returns whether its directory's file system lets files share their room (xfs, btrfs): tried with two
    /// files that have no names, where it has such.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Overloaded`] and their like, which say nothing of it.
    pub fn shares_room<'a>(&'a self) -> LocalBoxFuture<'a, Result<bool, Error>> {
        Box::pin(async move {
            let dir = self.inner.root.dir();
            let tried = async {
                dir.create_unnamed(0o600).await?.reflink_from(&dir.create_unnamed(0o600).await?).await
            };
            match tried.await {
                Ok(()) => Ok(true),
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOTTY)
                    ) =>
                {
                    Ok(false)
                }
                Err(error) => Err(Error::of_write(error)),
            }
        })
    }

    /// Returns the cache of its lane.
    pub fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    pub(crate) fn key<'a>(&self, path: RelPath<'a>) -> KeyRef<'a> {
        KeyRef { volume: self.inner.id, path }
    }

    /// Counts a failure, and logs one that is the file system's.
    pub(crate) fn report_failure<T>(
        &self,
        path: RelPath<'_>,
        what: &str,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        self.counted(result.inspect_err(|error| io_faults::log(&self.inner.path, path, what, error)))
    }

    /// Makes the error of attempts that ended without an outcome: others changed each time what is here. `doing` is
    /// what was attempted.
    pub(crate) fn unsettled(&self, path: RelPath<'_>, doing: &str) -> Error {
        io_faults::log_unsettled(&self.inner.path, path, doing);
        Error::Unsettled
    }

    /// Reports the failure of reading a directory ([`report_failure`](Self::report_failure)).
    pub(crate) fn report_listing_failure<T>(
        &self,
        path: RelPath<'_>,
        read: Result<T, Error>,
    ) -> Result<T, Error> {
        self.report_failure(path, "the directory cannot be read", read)
    }

    pub(crate) fn counted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| self.counters().refuse(error))
    }

    /// Returns the answer from a node kept open, with attributes of this moment; `None` if the node is out of date. A
    /// name that was replaced by a rename shows here at once: the old file has one link less.
    pub(crate) fn refresh(&self, path: RelPath<'_>, node: &Node) -> Option<Resolved> {
        let attributes = match node {
            Node::File(file) => file.attributes(),
            Node::Directory(directory) => directory.attributes(),
        };
        match attributes {
            Ok(attributes) if attributes.nlink > 0 => Some(self.resolved(node, attributes)),
            _ => {
                // The index is told so when it is closed.
                node.object().into_iter().for_each(|object| object.is_fresh());
                match node {
                    Node::File(_) => drop(self.inner.cache.forget(self.key(path))),
                    // What is remembered beneath it is gone too.
                    Node::Directory(_) => self.inner.cache.forget_at(self.key(path)),
                }
                self.counters().invalidated_unlinked.increment();
                None
            }
        }
    }

    fn open_uncached<'a>(&'a self, path: RelPath<'a>) -> LocalBoxFuture<'a, Result<Resolved, Error>> {
        Box::pin(async move {
            self.counters().lookup_misses.increment();
            let (cache, key) = (&self.inner.cache, self.key(path));
            let (opened, validity) = self.open_plain(path).await;
            let (node, stat, validity) = self.seen(path, opened, validity).await?;
            let node = cache.keep_open(key, node, validity);
            Ok(self.resolved(&node, stat.into()))
        })
    }

    /// Opens `path` if no symbolic link is on the way, as seen from `validity`, for a caller that keeps it if that
    /// still holds. A name that does not exist is cached as absent.
    pub(crate) async fn open_seen(
        &self,
        path: RelPath<'_>,
        validity: Validity,
    ) -> Result<(Node, Stat, Validity), Error> {
        let opened = self.open_or_shed(path, OpenBy::RealPath).await;
        self.seen(path, opened, validity).await
    }

    /// Returns what was opened for `path`, as [`Volume::open_seen`].
    async fn seen(
        &self,
        path: RelPath<'_>,
        opened: Result<File, Error>,
        validity: Validity,
    ) -> Result<(Node, Stat, Validity), Error> {
        let (cache, key) = (&self.inner.cache, self.key(path));
        let file = match opened {
            Ok(file) => file,
            Err(Error::NotFound) => {
                cache.keep_absent(key, validity);
                return Err(Error::NotFound);
            }
            Err(error) => {
                cache.forget(key);
                return Err(error);
            }
        };
        let stat = file.stat()?;
        if self.withholds(Attributes::from(stat).id) {
            cache.forget(key);
            return Err(Error::Hidden);
        }
        let node = self.same_or_new(key, file, &stat, validity.object()).await?;
        Ok((node, stat, validity))
    }

    /// Opens a path, and tries again if it is out of descriptors: files kept open for later are closed first. They
    /// close when the lane next enters the kernel.
    pub(crate) async fn open_or_shed(&self, path: RelPath<'_>, by: OpenBy) -> Result<File, Error> {
        self.counters().opens.increment();
        match self.open_by(path, by).await {
            Err(Error::TooManyOpen) => {
                self.inner.cache.shed();
                lane::time::sleep(SHED_PAUSE).await;
                self.open_by(path, by).await
            }
            opened => opened,
        }
    }

    async fn open_by(&self, path: RelPath<'_>, by: OpenBy) -> Result<File, Error> {
        match by {
            OpenBy::RealPath => self.inner.root.open_real(path).await,
            OpenBy::AnyPath => self.inner.root.open_beneath(path).await,
        }
    }

    /// Returns the cached node if the name still leads to the same file, so that all users share it; else a new one.
    async fn same_or_new(
        &self,
        key: KeyRef<'_>,
        file: File,
        now: &Stat,
        above: Option<&Arc<Object>>,
    ) -> Result<Node, Error> {
        let id = Attributes::from(*now).id;
        if let Some(kept) = self.inner.cache.peek(key) {
            self.counters().rechecks.increment();
            if kept.id() == id {
                // A program beside the server may have given it another descriptor.
                if let (Node::File(_), Some(object)) = (&kept, kept.object()) {
                    object.read_own(&file).await?;
                }
                return Ok(kept);
            }
            self.counters().invalidated_replaced.increment();
        }
        if matches!(now.kind, FileKind::Symlink | FileKind::Other) {
            return Err(Error::NotServable);
        }
        let object = match self.shared() {
            Some(shared) => {
                let at = above.zip(key.path.file_name());
                let at = at.map(|(directory, name)| At { directory, name: name.as_bytes() });
                Some(shared.object_of(self.root().dir(), By::Open(&file), now, at).await?)
            }
            None => None,
        };
        if now.kind == FileKind::Directory {
            let directory = OpenDirectory::new(file.into_dir()?, id, key.path.into(), object);
            return Ok(Node::Directory(Rc::new(directory)));
        }
        let place = FaultPlace::new(&self.inner.path, key.path);
        Ok(Node::File(Rc::new(OpenFile::new(file, id, place, object, Arc::clone(self.counters())))))
    }

    pub(crate) fn resolved(&self, node: &Node, attributes: Attributes) -> Resolved {
        match node {
            Node::File(file) => Resolved::File(Rc::clone(file), attributes),
            Node::Directory(node) => {
                Resolved::Directory(Directory::new(self.clone(), Rc::clone(node)), attributes)
            }
        }
    }
}

impl WeakVolume {
    pub(crate) fn upgrade(&self) -> Option<Volume> {
        self.0.upgrade().map(|inner| Volume { inner })
    }
}

impl Resolved {
    /// Returns the attributes of the file or directory.
    pub fn attributes(&self) -> &Attributes {
        match self {
            Self::File(_, attributes) | Self::Directory(_, attributes) => attributes,
        }
    }

    /// Returns what lanes share of it; `None` on a volume without objects.
    pub fn object(&self) -> Option<&Arc<Object>> {
        match self {
            Self::File(file, _) => file.object(),
            Self::Directory(directory, _) => directory.object(),
        }
    }

    pub(crate) fn to_node(&self) -> Node {
        match self {
            Self::File(file, _) => Node::File(Rc::clone(file)),
            Self::Directory(directory, _) => Node::Directory(Rc::clone(directory.node())),
        }
    }

    /// Returns the file, or [`Error::IsADirectory`].
    pub fn into_file(self) -> Result<(Rc<OpenFile>, Attributes), Error> {
        match self {
            Self::File(file, attributes) => Ok((file, attributes)),
            Self::Directory(..) => Err(Error::IsADirectory),
        }
    }

    /// Returns the directory, or [`Error::NotADirectory`].
    pub fn into_directory(self) -> Result<(Directory, Attributes), Error> {
        match self {
            Self::Directory(directory, attributes) => Ok((directory, attributes)),
            Self::File(..) => Err(Error::NotADirectory),
        }
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

/// Time for which files are closed after descriptors ran out: longer than a turn of the lane, shorter than a client
/// waits.
const SHED_PAUSE: Duration = Duration::from_millis(1);
