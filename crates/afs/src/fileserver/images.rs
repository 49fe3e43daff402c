//! Directories as clients fetch them, kept by the lane and edited in place as names come and go.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use afs_wire::directory::{Directory, PAGE_SIZE, PAGES_MAX, Target};
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use vfs::{Edit, History, Number, Object, Version, VolumeId};

use super::{FileCounters, Refused};

/// Which directory.
type Key = (VolumeId, Number);

/// Directories of a lane, the least used of which go first.
pub(super) struct Images {
    kept: RefCell<Cache<Key, Rc<Image>, Pages>>,
}

/// One directory.
struct Image {
    state: RefCell<State>,
    /// Its pages when it was made, for the weight; directories grow by few.
    pages: usize,
    size: Cell<usize>,
}

struct State {
    directory: Directory,
    history: History,
}

/// A directory at one version of it. It stays as it is, whatever comes and goes.
pub(super) struct Snapshot {
    pub(super) directory: Directory,
    pub(super) version: Version,
}

#[derive(Clone)]
struct Pages;

impl Weighter<Key, Rc<Image>> for Pages {
    fn weight(&self, _: &Key, image: &Rc<Image>) -> u64 {
        image.pages as u64
    }
}

impl Images {
    pub(super) fn new(pages_max: usize) -> Self {
        Self { kept: RefCell::new(Cache::with_weighter(pages_max / 4, pages_max as u64, Pages)) }
    }

    /// The directory as it is now, from what is kept or made anew.
    pub(super) async fn of(
        &self,
        directory: &vfs::Directory,
        counters: &FileCounters,
    ) -> Result<Snapshot, Refused> {
        let object = directory.object().ok_or(vfs::Error::ReadOnly)?;
        let key = (object.volume().id(), object.number());
        if let Some(kept) = self.at_hand(key, counters) {
            return Ok(kept);
        }
        let names = directory.names(NAMES_MAX).await?;
        let entries = names.entries.iter().map(|entry| (&*entry.name, target(entry.number)));
        let parent = object.seen_in().map_or(object.number(), |(parent, _)| parent);
        let made = Directory::build(target(object.number()), target(parent), entries);
        let directory = made.map_err(|_| vfs::Error::TooLarge { max: NAMES_MAX })?;
        counters.images_built.increment();
        let snapshot = Snapshot { directory: directory.clone(), version: names.history.version() };
        let (pages, size) = (directory.size() / PAGE_SIZE, Cell::new(directory.size()));
        let state = RefCell::new(State { directory, history: names.history });
        self.kept.borrow_mut().insert(key, Rc::new(Image { state, pages, size }));
        Ok(snapshot)
    }

    /// As [`Images::of`] from what is kept; `None` where nothing is, or names have changed in a way that is not known.
    fn at_hand(&self, key: Key, counters: &FileCounters) -> Option<Snapshot> {
        let snapshot =
            |state: &State| Snapshot { directory: state.directory.clone(), version: state.history.version() };
        self.look(key, counters, snapshot)
    }

    /// What `look` finds in what is kept, once it is as the directory is now.
    fn look<T>(&self, key: Key, counters: &FileCounters, look: impl FnOnce(&State) -> T) -> Option<T> {
        let image = self.kept.borrow().get(&key).cloned()?;
        let mut state = image.state.borrow_mut();
        if !state.catch_up(counters) {
            drop(state);
            self.kept.borrow_mut().remove(&key);
            return None;
        }
        counters.images_hit.increment();
        image.size.set(state.directory.size());
        Some(look(&state))
    }

    /// Bytes that a fetch of the directory gives, and the version of it that has so many, where that is known without reading it.
    pub(super) fn size_at_hand(&self, object: &Object, counters: &FileCounters) -> Option<(u64, Version)> {
        let key = (object.volume().id(), object.number());
        self.look(key, counters, |state| (state.directory.size() as u64, state.history.version()))
    }

    /// The same, of a directory that is read where that is not known. `None` of one that cannot be fetched.
    pub(super) async fn size_of(
        &self,
        directory: &vfs::Directory,
        counters: &FileCounters,
    ) -> Option<(u64, Version)> {
        if let Some(known) = directory.object().and_then(|object| self.size_at_hand(object, counters)) {
            return Some(known);
        }
        let made = self.of(directory, counters).await.ok()?;
        Some((made.directory.size() as u64, made.version))
    }

    /// Whether clients could read the directory with one name more, as far as that is known without reading it.
    pub(super) fn has_room(&self, object: &Object, name: &[u8], counters: &FileCounters) -> bool {
        let key = (object.volume().id(), object.number());
        self.look(key, counters, |state| state.directory.has_room(name)).unwrap_or(true)
    }
}

impl State {
    /// Edits the pages as the directory was; false where what was done is not known.
    fn catch_up(&mut self, counters: &FileCounters) -> bool {
        let Some(edits) = self.history.catch_up() else { return false };
        if !edits.is_empty() {
            counters.images_edited.increment();
        }
        // A name that is there already, or no more, is of an image that something went by.
        edits.into_iter().all(|edit| match edit {
            Edit::Added { name, number } => self.directory.add(&name, target(number)).is_ok(),
            Edit::Removed { name } => self.directory.remove(&name).is_some(),
        })
    }
}

fn target(number: Number) -> Target {
    Target { vnode: number.vnode, uniquifier: number.uniquifier }
}

/// More fit no directory: 63 in each page, and 49 in the first.
const NAMES_MAX: usize = (PAGES_MAX - 1) * 63 + 49;
