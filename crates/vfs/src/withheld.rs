//! Files that are withheld from all clients of all protocols, whatever lists and modes say: the files that
//! the server itself keeps and reads.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::attributes::FileId;

/// Files and directories that no name leads to. They are known by device and inode, whatever they are called, and by
/// their directories and names there, as most are replaced by renames. What was withheld once stays so while it is
/// there.
#[derive(Debug, Default)]
pub struct Withheld {
    sets: RwLock<Sets>,
    /// Number of times that something was added or removed.
    generation: AtomicU64,
}

#[derive(Debug, Default)]
struct Sets {
    /// Withheld files and directories, with what keeps them open: a removed file's inode number is given to another,
    /// unless it is open.
    things: HashMap<FileId, Option<File>>,
    names: HashMap<FileId, WithheldNames>,
    /// Names on the way to what is withheld, by directory.
    fixed: HashMap<FileId, HashSet<Box<[u8]>>>,
}

/// Withheld names of one directory.
#[derive(Clone, Debug, Default)]
struct WithheldNames {
    exact: HashSet<Box<[u8]>>,
    families: Vec<NameFamily>,
}

/// Names that are given to successors and predecessors of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameFamily {
    /// The name itself and what rotations, copies and editors make beside it: `access.log.1`, `access.log-20260101.gz`,
    /// `access-20260101.log`, `access.bak`, `.access.log.swp`, `#access.log#`.
    Beside(Box<[u8]>),
    /// `stem`, digits, `rest`: `privkey1.pem` and `privkey12.pem`.
    Numbered {
        /// Part of the name before the digits.
        stem: Box<[u8]>,
        /// Part of the name behind the digits.
        rest: Box<[u8]>,
    },
}

/// Names of a directory that are withheld, as of one generation.
#[derive(Debug)]
pub(crate) struct WithheldHere {
    generation: u64,
    /// The directory itself, or one above it.
    all: bool,
    names: Option<Box<WithheldNames>>,
}

impl Withheld {
    /// Makes a set that withholds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds something that is there and that the caller keeps open or in place, a directory with all that is in it.
    pub fn add(&self, thing: FileId) {
        self.change(|sets| sets.things.insert(thing, None).is_none());
    }

    /// Adds an open file or directory, and keeps it open (`O_PATH` is enough) until [`Withheld::forget_removed`] finds
    /// it removed.
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

    /// Closes what was added open and has no name any more: no client can reach it, and its room on the disk
    /// is free again.
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
        self.change(|sets| sets.names.entry(directory).or_default().exact.insert(name.into()));
    }

    /// Adds whatever has a name of this family in a directory.
    pub fn add_family(&self, directory: FileId, family: NameFamily) {
        self.change(|sets| {
            let known = &mut sets.names.entry(directory).or_default().families;
            let is_new = !known.contains(&family);
            if is_new {
                known.push(family);
            }
            is_new
        });
    }

    /// Keeps a name of a directory from being removed, moved or replaced by any client. It lies on the way to what is
    /// withheld: a client that put another directory in its place would choose what the server finds there.
    pub fn fix_name(&self, directory: FileId, name: &[u8]) {
        self.change(|sets| sets.fixed.entry(directory).or_default().insert(name.into()));
    }

    fn change(&self, change: impl FnOnce(&mut Sets) -> bool) {
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        if change(&mut sets) {
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns whether this is withheld from all clients.
    pub(crate) fn has(&self, thing: FileId) -> bool {
        // Most servers export none of it, and most looks are into those.
        self.generation() > 0 && self.read(|sets| sets.things.contains_key(&thing))
    }

    /// Returns whether what has this name in a directory is withheld from all clients.
    pub(crate) fn has_name(&self, directory: FileId, name: &[u8]) -> bool {
        self.generation() > 0
            && self.read(|sets| sets.names.get(&directory).is_some_and(|names| names.has(name)))
    }

    /// Returns whether no client may remove, move or replace what has this name in a directory.
    pub(crate) fn is_fixed(&self, directory: FileId, name: &[u8]) -> bool {
        self.generation() > 0
            && self.read(|sets| sets.fixed.get(&directory).is_some_and(|names| names.contains(name)))
    }

    /// Returns what of a directory is withheld; `above`: of the one that it lies in, by that name.
    pub(crate) fn of_directory(
        &self,
        directory: FileId,
        above: Option<(&WithheldHere, &[u8])>,
    ) -> WithheldHere {
        let generation = self.generation();
        self.read(|sets| WithheldHere {
            generation,
            all: above.is_some_and(|(above, name)| above.has(name)) || sets.things.contains_key(&directory),
            names: sets.names.get(&directory).cloned().map(Box::new),
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
    /// Returns whether all that is in the directory is withheld, and the directory itself.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// Returns whether what has this name in the directory is.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.all || self.names.as_ref().is_some_and(|names| names.has(name))
    }

    /// Returns whether more may be withheld by now.
    pub(crate) fn is_of_before(&self, now: &Withheld) -> bool {
        self.generation != now.generation()
    }
}

impl WithheldNames {
    fn has(&self, name: &[u8]) -> bool {
        self.exact.contains(name) || self.families.iter().any(|family| family.has(name))
    }
}

impl NameFamily {
    /// Returns the family of a name with a number in it, as programs that keep earlier versions name theirs:
    /// `privkey1.pem`. Returns `None` without a number.
    pub fn numbered(name: &[u8]) -> Option<Self> {
        let end = name.iter().rposition(u8::is_ascii_digit)? + 1;
        let digits = name[..end].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let stem = &name[..end - digits];
        (!stem.is_empty()).then(|| Self::Numbered { stem: stem.into(), rest: name[end..].into() })
    }

    fn has(&self, name: &[u8]) -> bool {
        match self {
            Self::Beside(first) => {
                // Editors' own: `.accounts.toml.swp`, `#accounts.toml#`.
                let name = name.strip_prefix(b".").or_else(|| name.strip_prefix(b"#")).unwrap_or(name);
                let follows = |rest: &[u8]| rest.first().is_none_or(|next| b".-~#".contains(next));
                // `access-20260101.log`, `access.1.log` and `access.bak` of `access.log`.
                let dot = first.iter().rposition(|byte| *byte == b'.').filter(|dot| *dot > 0);
                let (stem, kind) = first.split_at(dot.unwrap_or(first.len()));
                let is_of_stem = name.strip_prefix(stem).is_some_and(|rest| {
                    let number = rest.strip_suffix(kind).filter(|number| !number.is_empty());
                    let is_number = |byte: &u8| byte.is_ascii_digit() || b"-._TZ".contains(byte);
                    COPIES.contains(&rest) || number.is_some_and(|number| number.iter().all(is_number))
                });
                name.strip_prefix(&**first).is_some_and(follows) || is_of_stem
            }
            Self::Numbered { stem, rest } => {
                let number = name.strip_prefix(&**stem).and_then(|name| name.strip_suffix(&**rest));
                number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
            }
        }
    }
}

/// Endings of names of copies, in place of the original's ending.
const COPIES: [&[u8]; 6] = [b".bak", b".old", b".orig", b".save", b".swp", b".tmp"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_what_a_rotation_or_a_renewal_makes_and_no_more() {
        let log = NameFamily::Beside(b"access.log".as_slice().into());
        for (name, is_of) in [
            ("access.log", true),
            ("access.log.1", true),
            ("access.log-20260101.gz", true),
            ("access.log~", true),
            ("access-20260101.log", true),
            ("access.1.log", true),
            ("access.bak", true),
            (".access.log.swp", true),
            (".access.log.un~", true),
            (".access.log.kate-swp", true),
            ("#access.log#", true),
            (".access-1.log", true),
            ("access", false),
            ("accesses.log", false),
            ("access.html", false),
            ("access-rights.log", false),
            (".log", false),
            ("access.logs", false),
            ("access.lo", false),
            ("my access.log", false),
        ] {
            assert_eq!(log.has(name.as_bytes()), is_of, "{name}");
        }
        let key = NameFamily::numbered(b"privkey1.pem").unwrap();
        for (name, is_of) in [
            ("privkey1.pem", true),
            ("privkey27.pem", true),
            ("privkey.pem", false),
            ("privkeys.pem", false),
            ("privkey1.txt", false),
            ("fullchain1.pem", false),
        ] {
            assert_eq!(key.has(name.as_bytes()), is_of, "{name}");
        }
        // No number, and nothing but one: each would be a family of strangers.
        assert_eq!(NameFamily::numbered(b"privkey.pem"), None);
        assert_eq!(NameFamily::numbered(b"12"), None);
    }

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
