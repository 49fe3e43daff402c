//! What is served to nobody, by no protocol, whatever lists and modes say: the files that the server itself keeps and reads.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::attributes::FileId;

/// Files and directories that no name leads to. They are known by device and inode, whatever they are called, and by their directories and
/// names there, as most are replaced by renames. What was withheld once stays so while it is there.
#[derive(Debug, Default)]
pub struct Withheld {
    sets: RwLock<Sets>,
    /// How often something was added or removed.
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct Sets {
    /// With what keeps it open: the number of a file that is removed is given to another, unless somebody has it open.
    things: HashMap<FileId, Option<File>>,
    names: HashMap<FileId, HashSet<Box<[u8]>>>,
}

/// What of a directory is withheld, as of one generation.
#[derive(Debug)]
pub(crate) struct WithheldHere {
    generation: u64,
    /// The directory itself, or one above it.
    all: bool,
    names: Box<[Box<[u8]>]>,
}

impl Withheld {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds something that is there and that the caller keeps open or in place, a directory with all that is in it.
    pub fn add(&self, thing: FileId) {
        self.change(|sets| sets.things.insert(thing, None).is_none());
    }

    /// Adds an open file or directory, and keeps it open (`O_PATH` is enough) until [`Withheld::forget_removed`] finds it removed.
    ///
    /// # Errors
    /// Those of looking at it.
    pub fn add_open(&self, file: File) -> io::Result<()> {
        let found = file.metadata()?;
        let thing = FileId { dev: found.dev(), ino: found.ino() };
        self.change(|sets| match sets.things.get(&thing) {
            Some(Some(_)) => false,
            known => {
                let is_new = known.is_none();
                sets.things.insert(thing, Some(file));
                is_new
            }
        });
        Ok(())
    }

    /// Closes what was added open and has no name any more: nobody can reach it, and its room on the disk is free again.
    pub fn forget_removed(&self) {
        let is_there = |file: &File| file.metadata().map_or(true, |now| now.nlink() > 0);
        self.change(|sets| {
            let before = sets.things.len();
            sets.things.retain(|_, file| file.as_ref().is_none_or(is_there));
            sets.things.len() != before
        });
    }

    /// Adds whatever has this name in a directory.
    pub fn add_name(&self, directory: FileId, name: &[u8]) {
        self.change(|sets| sets.names.entry(directory).or_default().insert(name.into()));
    }

    fn change(&self, change: impl FnOnce(&mut Sets) -> bool) {
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        if change(&mut sets) {
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether nobody is served this.
    pub(crate) fn has(&self, thing: FileId) -> bool {
        // Most servers export none of it, and most looks are into those.
        self.generation() > 0 && self.read(|sets| sets.things.contains_key(&thing))
    }

    /// Whether nobody is served what has this name in a directory.
    pub(crate) fn has_name(&self, directory: FileId, name: &[u8]) -> bool {
        self.generation() > 0
            && self.read(|sets| sets.names.get(&directory).is_some_and(|names| names.contains(name)))
    }

    /// What of a directory is withheld; `above`: of the one that it lies in, by that name.
    pub(crate) fn here(&self, directory: FileId, above: Option<(&WithheldHere, &[u8])>) -> WithheldHere {
        let generation = self.generation();
        self.read(|sets| WithheldHere {
            generation,
            all: above.is_some_and(|(above, name)| above.has(name)) || sets.things.contains_key(&directory),
            names: sets.names.get(&directory).into_iter().flatten().cloned().collect(),
        })
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn read<T>(&self, look: impl FnOnce(&Sets) -> T) -> T {
        look(&self.sets.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl WithheldHere {
    /// Whether all that is in the directory is withheld, and the directory itself.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// Whether what has this name in the directory is.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.all || self.names.iter().any(|withheld| **withheld == *name)
    }

    /// Whether more may be withheld by now.
    pub(crate) fn is_of_before(&self, now: &Withheld) -> bool {
        self.generation != now.generation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_removed_file_is_no_others_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("accounts");
        std::fs::write(&path, "").unwrap();
        let id = |path: &std::path::Path| {
            let found = std::fs::metadata(path).unwrap();
            FileId { dev: found.dev(), ino: found.ino() }
        };
        let (withheld, first) = (Withheld::new(), id(&path));
        withheld.add_open(File::open(&path).unwrap()).unwrap();
        let generation = withheld.generation();
        withheld.add_open(File::open(&path).unwrap()).unwrap();
        withheld.forget_removed();
        assert!(withheld.has(first) && withheld.generation() == generation);
        std::fs::remove_file(&path).unwrap();
        for number in 0..100 {
            let other = dir.path().join(number.to_string());
            std::fs::write(&other, "").unwrap();
            assert_ne!(id(&other), first);
        }
        withheld.forget_removed();
        assert!(!withheld.has(first) && withheld.generation() > generation);
    }
}
