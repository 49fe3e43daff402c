//! A volume as one lane serves it: names go in, open files and directories come out.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lane::fs::{File, FileKind};

use crate::attributes::Attributes;
use crate::cache::{Cache, Found, KeyRef, Node, VolumeId};
use crate::counters::VfsCounters;
use crate::directory::{Directory, OpenDirectory};
use crate::error::Error;
use crate::file::OpenFile;
use crate::name::RelPath;
use crate::root::Root;
use crate::spec::{VolumeName, VolumeOptions, VolumeSpec};
use crate::trouble::{self, Place};

/// An exported directory, opened on this lane. Cloning it is cheap.
#[derive(Clone)]
pub struct Volume {
    inner: Rc<Inner>,
}

/// What a path names, with its attributes at the moment of the look-up.
#[derive(Clone, Debug)]
pub enum Resolved {
    /// A regular file.
    File(Rc<OpenFile>, Attributes),
    /// A directory.
    Directory(Directory, Attributes),
}

struct Inner {
    name: VolumeName,
    options: VolumeOptions,
    id: VolumeId,
    path: Rc<Path>,
    root: Root,
    cache: Cache,
}

impl Volume {
    /// Opens the exported directory on the current lane. Blocks: for start-up and reload.
    ///
    /// The directory stays the one opened here if its name later names another.
    pub fn open(cache: &Cache, spec: &VolumeSpec) -> Result<Self, Error> {
        let root = Root::open(&spec.path, spec.options.follow_symlinks)?;
        let id = cache.new_volume();
        let (name, options, cache) = (spec.name.clone(), spec.options, cache.clone());
        let path = spec.path.as_path().into();
        Ok(Self { inner: Rc::new(Inner { name, options, id, path, root, cache }) })
    }

    /// Whether both are one opening of a directory: clones of each other.
    pub fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.inner, &other.inner)
    }

    /// How clients name it.
    pub fn name(&self) -> &VolumeName {
        &self.inner.name
    }

    /// What of it is served.
    pub fn options(&self) -> VolumeOptions {
        self.inner.options
    }

    /// The counters of the lane's cache.
    pub fn counters(&self) -> &Arc<VfsCounters> {
        self.inner.cache.counters()
    }

    /// What `path` names: from the cache at the cost of one `fstat`, else by opening it.
    ///
    /// # Errors
    /// Any but [`Error::Changed`] and [`Error::TooLarge`]; each is counted.
    pub async fn lookup(&self, path: RelPath<'_>) -> Result<Resolved, Error> {
        if let Some(answer) = self.try_lookup(path) {
            return answer;
        }
        let opened = self.open_uncached(path).await;
        self.counted(self.told(path, "a name cannot be opened", opened))
    }

    /// As [`Volume::lookup`] if the answer is at hand: never waits. `None` means "ask `lookup`".
    pub fn try_lookup(&self, path: RelPath<'_>) -> Option<Result<Resolved, Error>> {
        if path.is_hidden() && !self.inner.options.serve_hidden {
            return Some(self.counted(Err(Error::Hidden)));
        }
        let key = self.key(path);
        match self.inner.cache.find(key)? {
            Found::Absent => {
                self.counters().lookup_absent_hits.increment();
                Some(self.counted(Err(Error::NotFound)))
            }
            Found::Open(node) => {
                let resolved = self.refresh(path, &node)?;
                self.counters().lookup_hits.increment();
                Some(Ok(resolved))
            }
        }
    }

    pub(crate) fn root(&self) -> &Root {
        &self.inner.root
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.inner.cache
    }

    pub(crate) fn key<'a>(&self, path: RelPath<'a>) -> KeyRef<'a> {
        KeyRef { volume: self.inner.id, path }
    }

    /// Tells of a failure that is the file system's.
    pub(crate) fn told<T>(
        &self,
        path: RelPath<'_>,
        what: &str,
        result: Result<T, Error>,
    ) -> Result<T, Error> {
        result.inspect_err(|error| trouble::tell(&self.inner.path, path, what, error))
    }

    pub(crate) fn counted<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.inspect_err(|error| self.counters().refuse(error))
    }

    /// The answer from a node kept open, with attributes of this moment; `None` if the node is a thing of
    /// the past. A name that was replaced by a rename shows here at once: the old file has one link less.
    fn refresh(&self, path: RelPath<'_>, node: &Node) -> Option<Resolved> {
        let attributes = match node {
            Node::File(file) => file.attributes(),
            Node::Directory(directory) => directory.attributes(),
        };
        match attributes {
            Ok(attributes) if attributes.nlink > 0 => Some(self.resolved(node, attributes)),
            _ => {
                self.inner.cache.forget(self.key(path));
                self.counters().invalidated_unlinked.increment();
                None
            }
        }
    }

    async fn open_uncached(&self, path: RelPath<'_>) -> Result<Resolved, Error> {
        self.counters().lookup_misses.increment();
        let (cache, key) = (&self.inner.cache, self.key(path));
        let vantage = cache.vantage_above(&self.inner.root, key).await;
        let file = match self.open_or_shed(path).await {
            Ok(file) => file,
            Err(Error::NotFound) => {
                cache.keep_absent(key, vantage);
                return Err(Error::NotFound);
            }
            Err(error) => {
                cache.forget(key);
                return Err(error);
            }
        };
        let attributes = Attributes::from(file.stat()?);
        let node = self.same_or_new(key, file, &attributes)?;
        cache.keep_open(key, node.clone(), vantage);
        Ok(self.resolved(&node, attributes))
    }

    /// Out of descriptors, the files kept open for later go first; they close when the lane next turns to
    /// the kernel.
    async fn open_or_shed(&self, path: RelPath<'_>) -> Result<File, Error> {
        self.counters().opens.increment();
        match self.inner.root.open_beneath(path).await {
            Err(Error::TooManyOpen) => {
                self.inner.cache.shed();
                lane::time::sleep(SHED_PAUSE).await;
                self.inner.root.open_beneath(path).await
            }
            opened => opened,
        }
    }

    /// The node already kept if the name still leads to the same file: its users and ours share it.
    fn same_or_new(&self, key: KeyRef<'_>, file: File, now: &Attributes) -> Result<Node, Error> {
        if let Some(kept) = self.inner.cache.peek(key) {
            self.counters().rechecks.increment();
            if kept.id() == now.id {
                return Ok(kept);
            }
            self.counters().invalidated_replaced.increment();
        }
        match now.kind {
            FileKind::File => {
                let place = Place::new(&self.inner.path, key.path);
                Ok(Node::File(Rc::new(OpenFile::new(file, now.id, place, Arc::clone(self.counters())))))
            }
            FileKind::Directory => {
                let directory = OpenDirectory::new(file, now.id, key.path.into());
                Ok(Node::Directory(Rc::new(directory)))
            }
            FileKind::Symlink | FileKind::Other => Err(Error::NotServable),
        }
    }

    fn resolved(&self, node: &Node, attributes: Attributes) -> Resolved {
        match node {
            Node::File(file) => Resolved::File(Rc::clone(file), attributes),
            Node::Directory(node) => {
                Resolved::Directory(Directory::new(self.clone(), Rc::clone(node)), attributes)
            }
        }
    }
}

impl Resolved {
    /// The attributes, whatever it is.
    pub fn attributes(&self) -> &Attributes {
        match self {
            Self::File(_, attributes) | Self::Directory(_, attributes) => attributes,
        }
    }

    /// The file, or [`Error::IsADirectory`].
    pub fn into_file(self) -> Result<(Rc<OpenFile>, Attributes), Error> {
        match self {
            Self::File(file, attributes) => Ok((file, attributes)),
            Self::Directory(..) => Err(Error::IsADirectory),
        }
    }

    /// The directory, or [`Error::NotADirectory`].
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

/// Longer than a turn of the lane, in which the closes happen; shorter than a client's patience.
const SHED_PAUSE: Duration = Duration::from_millis(1);
