//! Directories as clients fetch them, kept by the lane and edited in place as names come and go. An image that is built
//! anew is the published one, or gets another version: [`DirPageVersions`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use afs_wire::code::{EAGAIN, VBUSY};
use afs_wire::directory::{Directory, PAGE_SIZE, PAGES_MAX, Target};
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use vfs::{Caller, Edit, History, Names, Number, Object, Version};

use super::FileCounters;
use super::call_failure::CallFailure;
use super::dir_page_versions::{DirKey, DirPageVersions, RegisteredPages, VersionConflict};

/// Cache of one lane's directories as pages; the least recently used are evicted first.
pub(super) struct DirPages {
    kept: RefCell<Cache<DirKey, Rc<CachedDirectory>, PageWeighter>>,
    dir_page_versions: DirPageVersions,
}

/// One directory in the cache, as pages that are edited in place.
struct CachedDirectory {
    state: RefCell<CachedDirectoryState>,
    /// Number of pages when the image was made, for the weight; directories grow by few.
    pages: usize,
    size: Cell<usize>,
}

struct CachedDirectoryState {
    directory: Directory,
    history: History,
    registered: RegisteredPages,
    /// Names have changed in a way that is not known. It is kept until there is another in its place: so long all else that changes is put
    /// down.
    is_lost: bool,
}

/// A directory at one version of it. It stays as it is, whatever comes and goes.
pub(super) struct Snapshot {
    pub(super) directory: Directory,
    pub(super) version: Version,
}

#[derive(Clone)]
struct PageWeighter;

impl Weighter<DirKey, Rc<CachedDirectory>> for PageWeighter {
    fn weight(&self, _: &DirKey, image: &Rc<CachedDirectory>) -> u64 {
        image.pages as u64
    }
}

impl DirPages {
    pub(super) fn new(pages_max: usize, dir_page_versions: &DirPageVersions) -> Self {
        Self { kept: RefCell::new(cache(pages_max)), dir_page_versions: dir_page_versions.clone() }
    }

    /// Keeps no more pages than this from now on, and nothing of what was kept.
    pub(super) fn bound(&self, pages_max: usize) {
        let before = self.kept.replace(cache(pages_max));
        drop(before);
    }

    /// Reads the pages of a directory as it is now, from the cache or by building them. The caller is not notified of a
    /// version that the directory gets by that.
    pub(super) async fn of(
        &self,
        caller: &Caller,
        directory: &vfs::Directory,
        counters: &FileCounters,
    ) -> Result<Snapshot, CallFailure> {
        let object = directory.object().ok_or(vfs::Error::ReadOnly)?;
        let key = (object.volume().id(), object.number());
        if let Some(kept) = self.cached(key, counters) {
            return Ok(kept);
        }
        let (mut names, registered) = self.names_of(key, caller, directory, counters).await?;
        if !directory.volume().options().serve_hidden {
            names.entries.retain(|entry| is_served(directory, &entry.name));
        }
        // File systems tell them in any order.
        names.entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let entries = names.entries.iter().map(|entry| (&*entry.name, target(entry.number)));
        let parent = object.seen_in().map_or(object.number(), |(parent, _)| parent);
        let made = Directory::build(target(object.number()), target(parent), entries);
        let directory = made.map_err(|_| vfs::Error::TooLarge { max: NAMES_MAX })?;
        counters.images_built.increment();
        let snapshot = Snapshot { directory: directory.clone(), version: names.history.version() };
        let (pages, size) = (directory.size() / PAGE_SIZE, Cell::new(directory.size()));
        let state = CachedDirectoryState { directory, history: names.history, registered, is_lost: false };
        let image = Rc::new(CachedDirectory { state: RefCell::new(state), pages, size });
        self.kept.borrow_mut().insert(key, image);
        Ok(snapshot)
    }

    /// Reads the names of a directory, to make an image of them: of a version that has this image, or has none yet and
    /// gets this one.
    async fn names_of(
        &self,
        key: DirKey,
        caller: &Caller,
        directory: &vfs::Directory,
        counters: &FileCounters,
    ) -> Result<(Names, RegisteredPages), CallFailure> {
        let is_conflicting = |object: &Object| self.dir_page_versions.is_conflicting(key, object.version());
        let mut is_new = directory.object().is_some_and(|object| is_conflicting(object));
        for _ in 0..ATTEMPTS_MAX {
            let names = match is_new {
                true => directory.reread_names(caller, NAMES_MAX).await,
                false => directory.names(NAMES_MAX).await,
            };
            let names = match names {
                // Where many change it, it can be read in a settled state only under its change lock.
                Err(vfs::Error::Unsettled) if !is_new => {
                    is_new = true;
                    continue;
                }
                names => names?,
            };
            if is_new {
                counters.images_version_bumped.increment();
            }
            match self.dir_page_versions.register(key, &names.history, is_new) {
                Ok(registered) => return Ok((names, registered)),
                Err(conflict) => is_new = conflict == VersionConflict::Published,
            }
        }
        Err(vfs::Error::Busy.into())
    }

    /// Returns pages from the cache ([`DirPages::of`]); `None` where nothing is, or names have changed in a
    /// way that is not known.
    fn cached(&self, key: DirKey, counters: &FileCounters) -> Option<Snapshot> {
        let snapshot = |state: &CachedDirectoryState| Snapshot {
            directory: state.directory.clone(),
            version: state.history.version(),
        };
        self.inspect(key, counters, snapshot)
    }

    /// Returns what `inspect` finds in what is kept, once it is as the directory is now.
    fn inspect<T>(
        &self,
        key: DirKey,
        counters: &FileCounters,
        inspect: impl FnOnce(&CachedDirectoryState) -> T,
    ) -> Option<T> {
        let image = self.kept.borrow().get(&key).cloned()?;
        let mut state = image.state.borrow_mut();
        if !state.catch_up(counters) {
            return None;
        }
        counters.images_hit.increment();
        image.size.set(state.directory.size());
        Some(inspect(&state))
    }

    /// Returns the number of bytes that a fetch of the directory gives, and the version of it that has so many, where
    /// that is known without reading it.
    pub(super) fn cached_size(&self, object: &Object, counters: &FileCounters) -> Option<(u64, Version)> {
        let key = (object.volume().id(), object.number());
        self.inspect(key, counters, |state| (state.directory.size() as u64, state.history.version()))
    }

    /// Returns the size of a directory, which is read where that is not known. `None` of one that cannot be
    /// fetched.
    ///
    /// # Errors
    /// That it is to be asked for again: to tell another size now would be to tell two with one version.
    pub(super) async fn size_of(
        &self,
        caller: &Caller,
        directory: &vfs::Directory,
        counters: &FileCounters,
    ) -> Result<Option<(u64, Version)>, CallFailure> {
        if let Some(known) = directory.object().and_then(|object| self.cached_size(object, counters)) {
            return Ok(Some(known));
        }
        match self.of(caller, directory, counters).await {
            Ok(made) => Ok(Some((made.directory.size() as u64, made.version))),
            Err(refused @ CallFailure::Code(VBUSY | EAGAIN)) => Err(refused),
            Err(_) => Ok(None),
        }
    }

    /// Returns whether clients could read the directory with one name more, as far as that is known without
    /// reading it.
    pub(super) fn has_room(&self, object: &Object, name: &[u8], counters: &FileCounters) -> bool {
        let key = (object.volume().id(), object.number());
        self.inspect(key, counters, |state| state.directory.has_room(name)).unwrap_or(true)
    }
}

impl CachedDirectoryState {
    /// Edits the pages as the directory was; false where what was done is not known.
    fn catch_up(&mut self, counters: &FileCounters) -> bool {
        if self.is_lost {
            return false;
        }
        let Some(edits) = self.history.catch_up() else {
            self.is_lost = true;
            return false;
        };
        if edits.is_empty() {
            return true;
        }
        counters.images_edited.increment();
        // A name that is there already, or no more, is of an image that something went by.
        let is_done = edits.into_iter().all(|edit| match edit {
            Edit::Added { name, number } => self.directory.add(&name, target(number)).is_ok(),
            Edit::Removed { name } => self.directory.remove(&name).is_some(),
        });
        self.is_lost = !is_done;
        if is_done {
            self.registered.advance_to(self.history.version());
        }
        is_done
    }
}

/// Returns whether a volume that does not serve hidden names serves this one, as its look-ups have it.
fn is_served(directory: &vfs::Directory, name: &[u8]) -> bool {
    let Ok(name) = vfs::Name::parse(name) else { return false };
    !name.is_hidden() || directory.path().join(name).is_ok_and(|path| !path.as_path().is_hidden())
}

fn cache(pages_max: usize) -> Cache<DirKey, Rc<CachedDirectory>, PageWeighter> {
    Cache::with_weighter(pages_max / 4, pages_max as u64, PageWeighter)
}

fn target(number: Number) -> Target {
    Target { vnode: number.vnode, uniquifier: number.uniquifier }
}

//@ limit: names of a directory that clients can read
//@ section: AFS file server
//@ unit: name of 15 bytes
//@ all: process: 64,435, in 1,023 pages
//@ empty: one more is refused (EFBIG); others feel nothing
//@ counter: afs_directories_full
//@ attack: afs-pools
/// Most names of a directory: 63 in each page, and 49 in the first.
const NAMES_MAX: usize = (PAGES_MAX - 1) * 63 + 49;
/// Images that others overtake.
const ATTEMPTS_MAX: u32 = 8;
