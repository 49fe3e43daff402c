//! A tree is counted while it changes. One walker enters its directories one after the other, each under the
//! permit of that directory, so that its names stand still meanwhile; every change is noted here when it is
//! done.
//!
//! A directory is *counted* once the walker has entered it. A change in one that is counted changes what the volume uses; in
//! one that is not it changes nothing, as the walker will see it. Which it is, its own mark or that of the nearest directory
//! above it says: `Waiting` for the walker, or `Entered` beneath one that waits. Without any it is counted. The volume's own
//! directory waits first. Marks go with their directories, so that a directory that moves takes along what it is.
//!
//! A file with several names may be counted in one directory and have names in others: such are remembered by
//! inode. So are files whose content changes meanwhile, as a writer of an open file need not know where it
//! lies by now: the walker counts those that it comes to as long as they are then; those that it does not
//! come to any more were counted as long as they were before, and the difference is added when all is
//! counted.

use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use index::Usage;

use crate::object::{Identity, Object};

/// State of a count.
#[derive(Default)]
pub(super) struct Count {
    /// The walker has begun; until then nothing is counted.
    has_begun: bool,
    marks: HashMap<Identity, WalkMark>,
    /// Directories that wait for the walker; some may have gone since. It takes the last one first, so that few wait.
    waiting: Vec<Arc<Object>>,
    /// Directories that the walker has found, by a hash of what they are: one that is mounted at a second place is
    /// entered once.
    found: HashSet<u64>,
    /// Inodes that are counted, whatever their names.
    linked: HashSet<u64>,
    /// Inodes of which content or attributes are being changed, with the size from before.
    changing: HashMap<(u64, Part), u64>,
    /// Inodes of which either has changed, of which it is not known whether they were counted before.
    changed: HashMap<(u64, Part), Changed>,
    /// Directories that are being moved, and where from.
    moving: HashMap<Identity, Arc<Object>>,
    pub(super) directories: u64,
    /// Set if more would have to be kept at once than may be: no exact count can come of it.
    pub(super) is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WalkMark {
    Waiting,
    Entered,
}

/// Part of a file that takes room by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Content,
    Attributes,
}

/// Bytes of a file's part when it began to change, and its bytes now.
#[derive(Clone, Copy)]
struct Changed {
    before: u64,
    now: u64,
}

/// A name that the walker found in a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub(super) inode: u64,
    pub(super) links: u32,
    /// Bytes of a file; 0 for all else.
    pub(super) size: u64,
    /// Bytes of its attributes.
    pub(super) attributes: u64,
}

/// A file or directory that changes, as its own change knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedFile {
    pub(crate) inode: u64,
    pub(crate) links: u32,
    pub(crate) size: u64,
    /// Bytes of its attributes, of a directory too.
    pub(crate) attributes: u64,
}

impl Count {
    /// Begins the walk at the volume's directory.
    pub(super) fn begin(&mut self, root: &Arc<Object>) {
        self.has_begun = true;
        self.found.insert(hash_of(root));
        self.marks.insert(root.identity().clone(), WalkMark::Waiting);
        self.waiting.push(Arc::clone(root));
    }

    /// Returns whether what lies in `directory` is counted.
    pub(super) fn is_counted(&self, directory: &Arc<Object>) -> bool {
        if !self.has_begun {
            return false;
        }
        let mut at = Arc::clone(directory);
        for _ in 0..DEPTH_MAX {
            if let Some(mark) = self.marks.get(at.identity()) {
                return *mark == WalkMark::Entered;
            }
            let above = match self.moving.get(at.identity()) {
                Some(from) => Arc::clone(from),
                None => match at.place() {
                    Some(place) => place.directory,
                    None => return true,
                },
            };
            at = above;
        }
        true
    }

    /// Returns whether a file with a name in `directory` is counted.
    pub(super) fn has(&self, directory: &Arc<Object>, file: CountedFile) -> bool {
        self.linked.contains(&file.inode) || self.is_counted(directory)
    }

    /// Returns the next directory to enter; `None` when all are counted.
    pub(super) fn next(&mut self) -> Option<Arc<Object>> {
        while let Some(directory) = self.waiting.pop() {
            if self.marks.get(directory.identity()) == Some(&WalkMark::Waiting) {
                return Some(directory);
            }
        }
        None
    }

    /// Returns whether a directory is to be entered.
    pub(super) fn is_waiting(&self, directory: &Arc<Object>) -> bool {
        self.marks.get(directory.identity()) == Some(&WalkMark::Waiting)
    }

    /// Ends the count: nothing is kept but what it came to. Returns by how much files that were counted have grown,
    /// and have shrunk.
    pub(super) fn end(&mut self) -> (u64, u64) {
        let changed = std::mem::take(&mut self.changed);
        let difference = |(grown, shrunk), Changed { before, now }: &Changed| {
            (grown + now.saturating_sub(*before), shrunk + before.saturating_sub(*now))
        };
        *self = Self { has_begun: true, directories: self.directories, ..Self::default() };
        changed.values().fold((0, 0), difference)
    }

    /// Notes that the walker has seen all that lies in `directory`, and its attributes, of so many bytes: it is counted
    /// from now on. Returns what it holds.
    pub(super) fn entered(
        &mut self,
        directory: &Arc<Object>,
        attributes: u64,
        leaves: &[Leaf],
        inner: impl IntoIterator<Item = Arc<Object>>,
    ) -> Usage {
        let mut holds = Usage { bytes: attributes, files: 0 };
        for leaf in leaves {
            if self.linked.contains(&leaf.inode) {
                continue;
            }
            if leaf.links > 1 {
                self.linked.insert(leaf.inode);
            }
            holds.files += 1;
            for (part, found) in [(Part::Content, leaf.size), (Part::Attributes, leaf.attributes)] {
                let changed = self.changed.remove(&(leaf.inode, part)).map(|changed| changed.now);
                // The change under way says at its end that it was as long as this.
                let size = self.changing.get(&(leaf.inode, part)).copied().or(changed);
                holds.bytes += size.unwrap_or(found);
            }
        }
        self.marks.remove(directory.identity());
        let above = self.moving.get(directory.identity()).cloned();
        let above = above.or_else(|| directory.place().map(|place| place.directory));
        if above.is_some_and(|above| !self.is_counted(&above)) {
            self.marks.insert(directory.identity().clone(), WalkMark::Entered);
        }
        for inner in inner {
            holds.files += 1;
            // Beyond so many directories one that is mounted twice counts twice.
            let is_new = self.found.len() >= FOUND_MAX || self.found.insert(hash_of(&inner));
            match self.marks.entry(inner.identity().clone()) {
                // It was entered when it lay elsewhere; now what is above it says so.
                Entry::Occupied(mark) if *mark.get() == WalkMark::Entered => drop(mark.remove()),
                Entry::Occupied(_) => {}
                Entry::Vacant(_) if !is_new => {}
                Entry::Vacant(free) => {
                    free.insert(WalkMark::Waiting);
                    self.waiting.push(inner);
                }
            }
        }
        self.directories += 1;
        self.is_lost |=
            self.marks.len().max(self.waiting.len()) > MARKS_MAX || self.linked.len() > LINKED_MAX;
        holds
    }

    /// Notes that the content of a file is about to change.
    pub(super) fn begin_content(&mut self, file: CountedFile) {
        self.changing.insert((file.inode, Part::Content), file.size);
    }

    /// The attributes of a file are about to change, which has so many bytes of them.
    pub(super) fn begin_attributes(&mut self, inode: u64, bytes: u64) {
        self.changing.insert((inode, Part::Attributes), bytes);
    }

    /// Notes that the file has changed, and is `size` bytes long. Of what has no name any more nothing is
    /// counted.
    pub(super) fn end_content(&mut self, file: CountedFile, size: u64) {
        self.end_change((file.inode, Part::Content), file.links, Changed { before: file.size, now: size });
    }

    /// Notes that the attributes of the file have changed ([`Count::end_content`]).
    pub(super) fn end_attributes(&mut self, (inode, links): (u64, u32), before: u64, now: u64) {
        self.end_change((inode, Part::Attributes), links, Changed { before, now });
    }

    fn end_change(&mut self, what: (u64, Part), links: u32, change: Changed) {
        self.changing.remove(&what);
        if links > 0 {
            self.changed.entry(what).or_insert(change).now = change.now;
            self.is_lost |= self.changed.len() > CHANGED_MAX;
        }
    }

    /// Notes that a name of a file that is no directory goes. Returns as how many bytes it was counted, if it was the
    /// last one of a counted file.
    pub(super) fn removed(&mut self, directory: &Arc<Object>, file: CountedFile) -> Option<u64> {
        if file.links > 1 {
            return None;
        }
        let was_counted = self.has(directory, file);
        self.linked.remove(&file.inode);
        let counted_as = self.counted_as(file);
        was_counted.then_some(counted_as)
    }

    /// Returns the bytes that a file was counted as, if it was; what has changed of it since is forgotten.
    fn counted_as(&mut self, file: CountedFile) -> u64 {
        let parts = [(Part::Content, file.size), (Part::Attributes, file.attributes)];
        let before = parts.map(|(part, now)| {
            let changed = self.changed.remove(&(file.inode, part));
            changed.map_or(now, |changed| changed.before)
        });
        before.iter().sum()
    }

    /// Notes that an empty directory goes. Returns whether it was counted, and whether its attributes were.
    pub(super) fn removed_directory(&mut self, above: &Arc<Object>, directory: &Arc<Object>) -> (bool, bool) {
        let has_counted = self.is_counted(directory);
        self.marks.remove(directory.identity());
        self.found.remove(&hash_of(directory));
        (self.is_counted(above), has_counted)
    }

    /// Notes that a name of a file goes from one directory to another. Returns what that changes: the file begins to
    /// count, or ends.
    pub(super) fn moved(&mut self, from: &Arc<Object>, to: &Arc<Object>, file: CountedFile) -> MovedUsage {
        let (was, is) = (self.has(from, file), self.is_counted(to));
        let is_linked = file.links > 1;
        // Where its other names lie may be counted later or have been.
        if is_linked && (was || is) {
            self.linked.insert(file.inode);
        }
        match (was, is || self.linked.contains(&file.inode)) {
            (true, false) => MovedUsage::Out { bytes: self.counted_as(file) },
            (false, true) => {
                self.counted_as(file);
                MovedUsage::In { bytes: file.size + file.attributes }
            }
            _ => MovedUsage::Nothing,
        }
    }

    /// Notes that a directory is about to move: until it has, what lies beneath it is what it was.
    pub(super) fn begin_move(&mut self, directory: &Arc<Object>, from: &Arc<Object>) {
        self.moving.insert(directory.identity().clone(), Arc::clone(from));
    }

    /// Notes that the directory stays after all.
    pub(super) fn end_unmoved(&mut self, directory: &Arc<Object>) {
        self.moving.remove(directory.identity());
    }

    /// Notes that the directory has moved, with all that lies beneath it, which is counted or not as before.
    /// What that changes of itself.
    pub(super) fn moved_directory(
        &mut self,
        directory: &Arc<Object>,
        from: &Arc<Object>,
        to: &Arc<Object>,
    ) -> MovedUsage {
        self.moving.remove(directory.identity());
        let (was, is) = (self.is_counted(from), self.is_counted(to));
        if was != is && !self.marks.contains_key(directory.identity()) {
            let mark = if was { WalkMark::Entered } else { WalkMark::Waiting };
            self.marks.insert(directory.identity().clone(), mark);
            if mark == WalkMark::Waiting {
                self.waiting.push(Arc::clone(directory));
            }
        } else if was != is && is && self.marks.get(directory.identity()) == Some(&WalkMark::Entered) {
            self.marks.remove(directory.identity());
        }
        match (was, is) {
            (true, false) => MovedUsage::Out { bytes: 0 },
            (false, true) => MovedUsage::In { bytes: 0 },
            _ => MovedUsage::Nothing,
        }
    }
}

/// Hashes a directory's identity: another directory has the same hash by a chance of one in 2^64.
fn hash_of(directory: &Arc<Object>) -> u64 {
    let mut hasher = DefaultHasher::new();
    directory.identity().hash(&mut hasher);
    hasher.finish()
}

/// Effect of a move on the counted usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MovedUsage {
    Nothing,
    /// The moved file was not counted and is now, as so many bytes.
    In {
        bytes: u64,
    },
    /// The moved file was counted, as so many bytes, and is not any more, but will be.
    Out {
        bytes: u64,
    },
}

//@ limit: counting a volume: directories side by side
//@ section: Writable volumes
//@ unit: directory
//@ all: process: {}; {CHANGED_MAX} files that change meanwhile, {LINKED_MAX} with several names, {FOUND_MAX} directories in all
//@ empty: it is given up, told in the log and `/health`, and begun again after 5 min
//@ counter: vfs_counts_begun, volume_counted
//@ attack: none, the server counts after a start, and a client cannot make it count again
//@ reach: server
/// Directories that wait, or were entered beneath one that does; each keeps an object.
const MARKS_MAX: usize = 1 << 18;
/// Files with several names that are remembered until the count is done.
const LINKED_MAX: usize = 1 << 22;
/// Files whose content changed that are remembered until then.
const CHANGED_MAX: usize = 1 << 20;
/// Directories that are remembered until then, by eight bytes each.
const FOUND_MAX: usize = 1 << 22;
/// Largest depth of a path.
const DEPTH_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Objects, ObjectsOptions, Place, SharedVolume};

    #[test]
    fn a_directory_that_is_mounted_within_its_volume_is_entered_once() {
        let objects = Objects::in_memory(ObjectsOptions::default());
        let volume = SharedVolume::of_nothing(&objects, "test");
        let get = |n: u8| objects.get(&volume, Identity::of_handle(1, 1, &[n; 12])).unwrap();
        let [root, sub, inner] = [1, 2, 3].map(get);
        let place = |object: &Arc<Object>, above: &Arc<Object>| {
            object.set_place(Place { directory: Arc::clone(above), name: (*b"name").into() });
        };
        place(&sub, &root);
        place(&inner, &sub);
        let mut count = Count::default();
        count.begin(&root);
        assert!(Arc::ptr_eq(&count.next().unwrap(), &root));
        // The root is mounted in itself, and `sub` twice.
        let again = [&root, &sub, &sub].map(Arc::clone);
        assert_eq!(count.entered(&root, 0, &[], again).files, 3, "each is a name");
        assert!(Arc::ptr_eq(&count.next().unwrap(), &sub));
        assert_eq!(count.entered(&sub, 0, &[], [Arc::clone(&inner), Arc::clone(&sub)]).files, 2);
        assert!(Arc::ptr_eq(&count.next().unwrap(), &inner));
        count.entered(&inner, 0, &[], []);
        assert!(count.next().is_none(), "all are counted, once");
        // Its number may be another's later.
        count.removed_directory(&sub, &inner);
        assert!(!count.found.contains(&hash_of(&inner)));
    }
}
