//! Whether what several lanes saw happen to one tree is what one after the other could have seen: each operation took effect at
//! one moment between its beginning and its end (linearizability; Wing and Gong 1993).

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

/// Request of a history. Directories are named by inode, as an open means them whatever they are called.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Look(Vec<&'static str>),
    Create(u64, &'static str),
    MakeDirectory(u64, &'static str),
    Remove(u64, &'static str),
    RemoveDirectory(u64, &'static str),
    Rename { from: (u64, &'static str), to: (u64, &'static str), replace: bool },
    Exchange((u64, &'static str), (u64, &'static str)),
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Inode that was found or made.
    Inode(u64),
    Done,
    Refused,
}

/// One operation, from when it was asked for to when its answer was there.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) asked: Asked,
    pub(crate) came: Came,
}

/// Directories by inode; what is in none of them and is not the root has no name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tree {
    root: u64,
    directories: BTreeMap<u64, BTreeMap<&'static str, u64>>,
}

/// Some order of the operations that explains them all.
///
/// # Panics
/// When there is none.
pub(crate) fn explain(root: u64, operations: &[Operation]) {
    assert!(operations.len() <= 64, "a set of operations is a word");
    let mut seen = HashSet::new();
    let explained = search(Tree::new(root), operations, 0, &mut seen);
    assert!(explained, "no order explains {operations:#?}");
}

fn search(tree: Tree, all: &[Operation], done: u64, seen: &mut HashSet<(u64, Tree)>) -> bool {
    let left = || (0..all.len()).filter(|n| done & 1 << n == 0);
    let Some(first_end) = left().map(|n| all[n].ended).min() else { return true };
    if !seen.insert((done, tree.clone())) {
        return false;
    }
    // What began after another had ended cannot come before it.
    left().filter(|&n| all[n].began <= first_end).any(|n| {
        let mut next = tree.clone();
        next.follows(&all[n]) && search(next, all, done | 1 << n, seen)
    })
}

impl Tree {
    fn new(root: u64) -> Self {
        Self { root, directories: BTreeMap::from([(root, BTreeMap::new())]) }
    }

    /// Does what was asked; says whether that comes to what came.
    fn follows(&mut self, operation: &Operation) -> bool {
        let came = operation.came;
        let made = if let Came::Inode(inode) = came { inode } else { 0 };
        let should = match &operation.asked {
            Asked::Look(path) => self.look(path),
            &Asked::Create(directory, name) => self.create(directory, name, made, false),
            &Asked::MakeDirectory(directory, name) => self.create(directory, name, made, true),
            &Asked::Remove(directory, name) => self.remove(directory, name, false),
            &Asked::RemoveDirectory(directory, name) => self.remove(directory, name, true),
            &Asked::Rename { from, to, replace } => self.rename(from, to, replace),
            &Asked::Exchange(one, other) => self.exchange(one, other),
        };
        should.unwrap_or(Came::Refused) == came
    }

    fn look(&self, path: &[&'static str]) -> Option<Came> {
        let found = path.iter().try_fold(self.root, |at, name| self.directories.get(&at)?.get(name).copied());
        found.map(Came::Inode)
    }

    fn create(&mut self, directory: u64, name: &'static str, inode: u64, is_directory: bool) -> Option<Came> {
        let names = self.directories.get_mut(&directory)?;
        if inode == 0 || names.contains_key(name) {
            return if inode == 0 && names.contains_key(name) { None } else { Some(Came::Done) };
        }
        names.insert(name, inode);
        if is_directory {
            self.directories.insert(inode, BTreeMap::new());
        }
        Some(Came::Inode(inode))
    }

    fn remove(&mut self, directory: u64, name: &'static str, is_directory: bool) -> Option<Came> {
        let inode = *self.directories.get(&directory)?.get(name)?;
        match (self.directories.get(&inode), is_directory) {
            (Some(names), true) if names.is_empty() => drop(self.directories.remove(&inode)),
            (None, false) => {}
            _ => return None,
        }
        self.directories.get_mut(&directory)?.remove(name);
        Some(Came::Done)
    }

    fn rename(&mut self, from: (u64, &'static str), to: (u64, &'static str), replace: bool) -> Option<Came> {
        let moved = *self.directories.get(&from.0)?.get(from.1)?;
        let replaced = self.directories.get(&to.0)?.get(to.1).copied();
        if replaced.is_some() && !replace {
            return None;
        }
        if replaced == Some(moved) {
            return Some(Came::Done);
        }
        if self.is_above(moved, to.0) {
            return None;
        }
        if let Some(replaced) = replaced {
            match (self.directories.get(&moved), self.directories.get(&replaced)) {
                (Some(_), Some(names)) if names.is_empty() => drop(self.directories.remove(&replaced)),
                (None, None) => {}
                _ => return None,
            }
        }
        self.directories.get_mut(&from.0)?.remove(from.1);
        self.directories.get_mut(&to.0)?.insert(to.1, moved);
        Some(Came::Done)
    }

    fn exchange(&mut self, one: (u64, &'static str), other: (u64, &'static str)) -> Option<Came> {
        let at_one = *self.directories.get(&one.0)?.get(one.1)?;
        let at_other = *self.directories.get(&other.0)?.get(other.1)?;
        if self.is_above(at_one, other.0) || self.is_above(at_other, one.0) {
            return None;
        }
        self.directories.get_mut(&one.0)?.insert(one.1, at_other);
        self.directories.get_mut(&other.0)?.insert(other.1, at_one);
        Some(Came::Done)
    }

    fn is_above(&self, upper: u64, lower: u64) -> bool {
        upper == lower
            || self
                .directories
                .get(&upper)
                .is_some_and(|names| names.values().any(|&inner| self.is_above(inner, lower)))
    }
}

#[test]
#[should_panic = "no order explains"]
fn a_look_that_misses_what_was_there_before_it_began_is_not_explained() {
    let at = |ms| Instant::now() + std::time::Duration::from_secs(ms);
    explain(
        1,
        &[
            Operation { began: at(0), ended: at(1), asked: Asked::Create(1, "a"), came: Came::Inode(2) },
            Operation { began: at(2), ended: at(3), asked: Asked::Look(vec!["a"]), came: Came::Refused },
        ],
    );
}
