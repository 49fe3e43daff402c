//! Model of what a loss of power may leave, written again and apart from the simulated disk. It is made from
//! nothing but the trees that were seen after each change, and the times of syncs. Slow and plain on purpose.

use std::collections::{BTreeMap, BTreeSet};

use lane::backend::sim::{Found, FoundKind, JournalKind};

/// State of a tree: everything found, by path.
pub(super) type Tree = BTreeMap<String, Found>;

/// Number that tells files apart, whatever their names and inode numbers; the root is [`ROOT`].
pub(super) type Id = u32;

/// Steps on a tree, and the tree's state after each.
pub(super) struct History {
    /// Trees after each step; the first is the tree before, all of it safe.
    pub(super) trees: Vec<Tree>,
    /// Step after which each file or directory was synced last.
    pub(super) synced: BTreeMap<Id, usize>,
    /// Steps that set a file's size, with the size.
    pub(super) sizes_set: BTreeMap<Id, Vec<(usize, usize)>>,
    /// Step up to which ordered journals have all steps at least.
    pub(super) floor: usize,
}

impl History {
    pub(super) fn new(tree: Tree) -> Self {
        Self { trees: vec![tree], synced: BTreeMap::new(), sizes_set: BTreeMap::new(), floor: 0 }
    }

    pub(super) fn last(&self) -> &Tree {
        self.trees.last().expect("there is the first")
    }

    /// Returns the number of the last step.
    pub(super) fn now(&self) -> usize {
        self.trees.len() - 1
    }

    /// Notes a sync of what `path` names: a directory's names, and before them in an ordered journal all
    /// else.
    pub(super) fn sync(&mut self, path: &str) {
        let id = id_at(self.last(), path);
        self.synced.insert(id, self.now());
        let is_directory = id == ROOT || self.last()[path].kind == FoundKind::Directory;
        if is_directory {
            let changed =
                |step: &usize| names_in(&self.trees[*step], id) != names_in(&self.trees[*step - 1], id);
            let last = (1..=self.now()).rev().find(changed).unwrap_or(0);
            self.floor = self.floor.max(last);
        }
    }

    pub(super) fn sync_all(&mut self) {
        let now = self.now();
        self.floor = now;
        let ids: Vec<_> =
            self.trees.iter().flat_map(|tree| tree.values().map(|found| found.generation)).collect();
        self.synced.extend(ids.into_iter().chain([ROOT]).map(|id| (id, now)));
    }

    fn synced(&self, id: Id) -> usize {
        self.synced.get(&id).copied().unwrap_or(0)
    }

    /// Returns every state of a file or directory since its last sync, by step.
    fn since_sync(&self, id: Id) -> impl Iterator<Item = (usize, &Found)> {
        (self.synced(id)..=self.now()).filter_map(move |step| Some((step, by_id(&self.trees[step], id)?)))
    }

    /// Checks the tree that came back, and returns the kinds of outcomes in it.
    pub(super) fn check(&self, left: &Tree, journal: JournalKind) -> Result<BTreeSet<&'static str>, String> {
        let mut kinds = match journal {
            JournalKind::Ordered => self.check_ordered(left)?,
            JournalKind::Unordered => self.check_unordered(left)?,
        };
        for (path, found) in left {
            self.classify(path, found, &mut kinds);
        }
        for (name, id) in names(self.last()) {
            if !names(left).contains_key(&name) && by_id(&self.trees[0], id).is_none() {
                kinds.insert("a name was lost");
            }
        }
        for (name, id) in names(left) {
            if names(&self.trees[self.floor]).get(&name) != Some(&id) {
                kinds.insert("a name was kept");
            }
            if by_id(self.last(), id).is_none() {
                kinds.insert("a removed file is back");
            }
        }
        Ok(kinds)
    }

    /// Checks that all names are those of one step, attributes of that step or of a later sync, content of
    /// what that step allows.
    fn check_ordered(&self, left: &Tree) -> Result<BTreeSet<&'static str>, String> {
        let mut why = format!("names of no step from {} on", self.floor);
        for step in self.floor..=self.now() {
            if names(&self.trees[step]) != names(left) {
                continue;
            }
            let wrong = left.values().find_map(|found| {
                let upto = step.max(self.synced(found.generation));
                let then = by_id(&self.trees[upto], found.generation)?;
                if (then.mode, &then.xattrs) != (found.mode, &found.xattrs) {
                    return Some(format!("attributes {found:?} are not those of step {upto}, {then:?}"));
                }
                self.check_content(found, upto).err()
            });
            match wrong {
                None => return Ok(BTreeSet::new()),
                Some(wrong) => why = format!("as of step {step}: {wrong}"),
            }
        }
        Err(why)
    }

    /// Checks that each name is what it was after some step since its directory was synced; so are
    /// attributes.
    fn check_unordered(&self, left: &Tree) -> Result<BTreeSet<&'static str>, String> {
        let mut kinds = BTreeSet::new();
        let left_names = names(left);
        let dirs = left.values().filter(|found| found.kind == FoundKind::Directory);
        for dir in dirs.map(|found| found.generation).chain([ROOT]) {
            let steps: Vec<_> = (self.synced(dir)..=self.now())
                .filter(|&step| dir == ROOT || by_id(&self.trees[step], dir).is_some())
                .map(|step| names_in(&self.trees[step], dir))
                .collect();
            let every: BTreeSet<&String> = steps.iter().flat_map(BTreeMap::keys).collect();
            let here = names_in(left, dir);
            if let Some(unheard) = here.keys().find(|name| !every.contains(name)) {
                return Err(format!("{unheard} was never in {dir}"));
            }
            for name in every {
                let held: Vec<_> = steps.iter().map(|names| names.get(name)).collect();
                // A directory that came back with two names has kept one.
                let is_elsewhere = |id: &&Id| left_names.values().any(|left| left == *id);
                let may_be_missing = held.contains(&None) || held.iter().flatten().any(is_elsewhere);
                match here.get(name) {
                    None if may_be_missing => {}
                    found if held.contains(&found) => {}
                    found => return Err(format!("{name} in {dir} was never {found:?} but {held:?}")),
                }
            }
        }
        for found in left.values() {
            self.check_loose(found)?;
            let id = found.generation;
            let had = |tree: &Tree| names(tree).values().filter(|&&other| other == id).count();
            if had(left) > self.trees.iter().map(had).max().unwrap_or(0) {
                kinds.insert("a rename left both names");
            }
        }
        for id in self.trees[0].values().map(|found| found.generation) {
            if by_id(left, id).is_none() && self.trees.iter().all(|tree| by_id(tree, id).is_some()) {
                kinds.insert("a rename left no name");
            }
        }
        Ok(kinds)
    }

    fn check_loose(&self, found: &Found) -> Result<(), String> {
        let id = found.generation;
        let first = self.synced(id);
        if !self.since_sync(id).any(|(_, then)| then.mode == found.mode) {
            return Err(format!("mode {:o} of {id} was never so since step {first}", found.mode));
        }
        let every: BTreeSet<_> = self.since_sync(id).flat_map(|(_, then)| then.xattrs.keys()).collect();
        for name in every.into_iter().chain(found.xattrs.keys()) {
            let mut then = self.since_sync(id).map(|(_, then)| then.xattrs.get(name));
            if !then.any(|value| value == found.xattrs.get(name)) {
                return Err(format!("attribute {name:?} of {id} was never so since step {first}"));
            }
        }
        let set = self.sizes_set.get(&id).into_iter().flatten().map(|&(step, _)| step);
        let steps: Vec<_> = [first].into_iter().chain(set.filter(|&step| step > first)).collect();
        match steps.iter().any(|&upto| self.check_content(found, upto).is_ok()) {
            true => Ok(()),
            false => self.check_content(found, first),
        }
    }

    /// Checks the bytes of a file. Its sizes set up to `upto` are on the disk, and none after it.
    fn check_content(&self, found: &Found, upto: usize) -> Result<(), String> {
        let FoundKind::File(bytes) = &found.kind else { return Ok(()) };
        let id = found.generation;
        let set = || self.sizes_set.get(&id).into_iter().flatten().copied();
        let (safe, unsafe_) =
            (|&(step, _): &(usize, usize)| step <= upto, |&(step, _): &(usize, usize)| step > upto);
        let versions: Vec<(usize, &Vec<u8>)> = self
            .since_sync(id)
            .filter_map(|(step, then)| match &then.kind {
                FoundKind::File(bytes) => Some((step, bytes)),
                _ => None,
            })
            .collect();
        let first = set().filter(safe).map(|(step, _)| step).max().unwrap_or(0);
        let end = set().filter(unsafe_).map(|(step, _)| step).min().unwrap_or(usize::MAX);
        let sizes: Vec<_> =
            versions.iter().filter(|(step, _)| (first..end).contains(step)).map(|(_, b)| b.len()).collect();
        let grew =
            |pair: &[usize]| (pair[0] + 1..pair[1]).any(|size| size % 4096 == 0 && size == bytes.len());
        if !sizes.contains(&bytes.len()) && !sizes.windows(2).any(grew) {
            return Err(format!("{} bytes of {id} are none of {sizes:?}", bytes.len()));
        }
        for (sector, found) in bytes.chunks(512).enumerate() {
            let cuts = |&(_, len): &(usize, usize)| len < (sector + 1) * 512;
            let first = set().filter(safe).filter(cuts).map(|(step, _)| step).max().unwrap_or(0);
            let end = set().filter(unsafe_).filter(cuts).map(|(step, _)| step).min().unwrap_or(usize::MAX);
            let mut allowed = versions.iter().filter(|(step, _)| (first..end).contains(step));
            if !allowed.any(|(_, then)| is_sector_of(then, sector, found)) {
                return Err(format!("sector {sector} of {id} was never {}… from {first} to {end}", found[0]));
            }
        }
        Ok(())
    }

    fn classify(&self, path: &str, found: &Found, kinds: &mut BTreeSet<&'static str>) {
        let FoundKind::File(bytes) = &found.kind else { return };
        let then: Vec<_> = self
            .since_sync(found.generation)
            .filter_map(|(_, found)| match &found.kind {
                FoundKind::File(bytes) => Some(bytes),
                _ => None,
            })
            .collect();
        let (Some(first), Some(last)) = (then.first(), then.last()) else { return };
        if !then.contains(&bytes) {
            kinds.insert("content was torn");
        }
        if bytes.len() == first.len() && first.len() < last.len() {
            kinds.insert("a size was old");
        }
        let zeros =
            |(seen, lost): (&[u8], &[u8])| seen.iter().all(|&b| b == 0) && lost.iter().any(|&b| b != 0);
        if bytes.len() == last.len() && bytes.chunks(512).zip(last.chunks(512)).any(zeros) {
            kinds.insert("a size was new and its bytes were not");
        }
        let was_there = self.trees[0].contains_key(path);
        if bytes.is_empty() && !last.is_empty() && !was_there {
            kinds.insert("a new file was empty");
        }
    }
}

fn is_sector_of(version: &[u8], sector: usize, found: &[u8]) -> bool {
    let at = |n: usize| version.get(sector * 512 + n).copied().unwrap_or(0);
    found.iter().enumerate().all(|(n, &byte)| at(n) == byte)
}

/// Returns every name, as its directory and itself, and what it stands for.
pub(super) fn names(tree: &Tree) -> BTreeMap<(Id, String), Id> {
    tree.iter()
        .map(|(path, found)| {
            let (dir, name) = path.rsplit_once('/').expect("paths are absolute");
            ((id_at(tree, dir), name.to_owned()), found.generation)
        })
        .collect()
}

fn names_in(tree: &Tree, dir: Id) -> BTreeMap<String, Id> {
    names(tree).into_iter().filter(|((of, _), _)| *of == dir).map(|((_, name), id)| (name, id)).collect()
}

fn id_at(tree: &Tree, path: &str) -> Id {
    if path.is_empty() || path == "/" { ROOT } else { tree[path].generation }
}

fn by_id(tree: &Tree, id: Id) -> Option<&Found> {
    tree.values().find(|found| found.generation == id)
}

pub(super) const ROOT: Id = 0;
