//! What is true: files with their contents, the names that lead to them, and the opens of SMB clients. One operation comes after the
//! other, so that there is one truth at each moment.

use std::collections::BTreeMap;

use afs_wire::Fid;

use super::operation::{Condition, DIRECTORIES, Disposition, Operation, Path, SLOTS};

/// A file or directory, by its place in [`Model::objects`]. The first three are [`DIRECTORIES`].
pub(super) type Object = usize;

#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) is_directory: bool,
    pub(super) content: Vec<u8>,
    /// Changes of content or, of a directory, of its names.
    pub(super) contents: u64,
    /// Changes of anything that AFS tells of it.
    pub(super) changes: u64,
    /// What AFS calls it, once it was seen.
    pub(super) fid: Option<Fid>,
    /// Its last version that was seen, and of which content.
    pub(super) version: Option<(u64, u64)>,
    /// The next version that is seen may be a later one, whether content has changed or not.
    pub(super) may_rise: bool,
    /// The file system's number of it.
    pub(super) inode: Option<u64>,
}

/// An open of an SMB client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    pub(super) object: Object,
    /// The name that it was opened by, as that was renamed since.
    pub(super) path: Path,
    pub(super) writes: bool,
    pub(super) shares: bool,
    /// A local program renamed it: the server may not know its name any more.
    pub(super) is_lost: bool,
}

/// What must come of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Its parties are not there: it is left out.
    Nothing,
    Done,
    Refused,
    /// Some rule that this model does not have decides it.
    Either,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) objects: Vec<Node>,
    pub(super) names: BTreeMap<Path, Object>,
    pub(super) opens: [[Option<Opened>; SLOTS as usize]; 2],
}

impl Model {
    pub(super) fn new() -> Self {
        let directory = Node { is_directory: true, ..Node::default() };
        Self {
            objects: DIRECTORIES.map(|_| directory.clone()).to_vec(),
            names: BTreeMap::new(),
            opens: Default::default(),
        }
    }

    pub(super) fn at(&self, path: Path) -> Option<&Node> {
        self.names.get(&path).map(|object| &self.objects[*object])
    }

    pub(super) fn names_of(&self, object: Object) -> impl Iterator<Item = Path> {
        self.names.iter().filter(move |(_, named)| **named == object).map(|(path, _)| *path)
    }

    pub(super) fn open(&self, client: u8, slot: u8) -> Option<&Opened> {
        self.opens[usize::from(client)][usize::from(slot)].as_ref()
    }

    pub(super) fn opens_of(&self, object: Object) -> impl Iterator<Item = &Opened> {
        self.opens.iter().flatten().flatten().filter(move |opened| opened.object == object)
    }

    fn is_directory(&self, path: Path) -> bool {
        self.at(path).is_some_and(|node| node.is_directory)
    }

    fn is_open(&self, path: Path) -> bool {
        self.names.get(&path).is_some_and(|object| self.opens_of(*object).next().is_some())
    }

    /// Somebody has it open who does not let others write or remove.
    fn is_held(&self, object: Object) -> bool {
        self.opens_of(object).any(|opened| !opened.shares)
    }

    /// What must come of an operation now.
    pub(super) fn expects(&self, operation: &Operation) -> Expected {
        use Expected::{Done, Either, Nothing, Refused};
        let if_there = |path: Path| if self.names.contains_key(&path) { Done } else { Refused };
        let make = |path: Path| if self.names.contains_key(&path) { Refused } else { Done };
        let held = |path: Path| self.names.get(&path).is_some_and(|object| self.is_held(*object));
        match *operation {
            Operation::SmbOpen { client, slot, path, disposition, shares, .. } => {
                if self.open(client, slot).is_some() {
                    return Nothing;
                }
                let there = self.names.contains_key(&path);
                match disposition {
                    Disposition::Create if there => Refused,
                    Disposition::Open | Disposition::Overwrite if !there => Refused,
                    _ if self.is_directory(path) => Refused,
                    // Every open asks for the right to rename.
                    _ if self.is_open(path) && (!shares || held(path)) => Either,
                    _ => Done,
                }
            }
            Operation::SmbWrite { client, slot, .. } | Operation::SmbTruncate { client, slot, .. } => {
                match self.open(client, slot) {
                    None => Nothing,
                    Some(opened) if opened.writes => Done,
                    Some(_) => Refused,
                }
            }
            Operation::SmbRename { client, slot, to, replace } => {
                let Some(opened) = self.open(client, slot) else { return Nothing };
                let is_lost = self.names.get(&opened.path) != Some(&opened.object);
                let target = self.names.get(&to);
                match target {
                    Some(target) if *target == opened.object => Nothing,
                    Some(_) if !replace || self.is_directory(to) => Refused,
                    // The file that the open has may have another name, which moves, or none.
                    _ if is_lost && self.names_of(opened.object).next().is_some() => Nothing,
                    _ if is_lost => Refused,
                    Some(_) => Either,
                    None if opened.is_lost || self.opens_of(opened.object).count() > 1 => Either,
                    None => self.moves(opened.object, opened.path, to),
                }
            }
            Operation::SmbLink { client, slot, to } => match self.open(client, slot) {
                None => Nothing,
                Some(opened) if self.names.get(&to) == Some(&opened.object) => Nothing,
                Some(_) if self.names.contains_key(&to) => Refused,
                Some(opened) if opened.is_lost => Either,
                Some(opened) if self.names.get(&opened.path) != Some(&opened.object) => {
                    if self.names_of(opened.object).next().is_some() { Either } else { Refused }
                }
                Some(_) => Done,
            },
            Operation::SmbClose { client, slot } => {
                if self.open(client, slot).is_some() {
                    Done
                } else {
                    Nothing
                }
            }
            Operation::SmbMove { from, to, replace, .. } => {
                let Some(&object) = self.names.get(&from) else { return Refused };
                match self.names.get(&to) {
                    Some(target) if *target == object => Nothing,
                    Some(_) if !replace || self.is_directory(to) => Refused,
                    _ if self.is_open(from) || self.is_open(to) => Either,
                    // A directory over a file.
                    Some(_) if self.is_directory(from) => Nothing,
                    _ => self.moves(object, from, to),
                }
            }
            Operation::SmbLinkName { from, to, .. } => match self.names.get(&from) {
                None => Refused,
                Some(object) if self.names.get(&to) == Some(object) => Nothing,
                Some(_) if self.names.contains_key(&to) || self.is_directory(from) => Refused,
                Some(_) => Done,
            },
            Operation::SmbRemove { path, .. } if self.is_open(path) => Nothing,
            Operation::SmbRemove { path, .. } => if_there(path),
            Operation::SmbMakeDirectory { path, .. }
            | Operation::AfsMakeDirectory { path, .. }
            | Operation::AfsCreate { path, .. } => make(path),
            Operation::AfsRead { path, .. } if self.is_directory(path) => Nothing,
            Operation::AfsRead { .. } | Operation::AfsList { .. } | Operation::AfsGiveUp { .. } => Done,
            Operation::AfsStore { path, .. } | Operation::AfsTruncate { path, .. } => match self.at(path) {
                None => Nothing,
                Some(node) if node.is_directory => Refused,
                Some(_) if held(path) => Either,
                Some(_) => Done,
            },
            Operation::AfsRename { from, to, .. } => {
                let Some(&object) = self.names.get(&from) else { return Refused };
                match self.names.get(&to) {
                    Some(target) if *target == object => Nothing,
                    Some(_) if self.is_directory(from) != self.is_directory(to) => Refused,
                    _ if self.is_open(from) || self.is_open(to) => Either,
                    Some(_) if self.is_directory(from) => Either,
                    _ => self.moves(object, from, to),
                }
            }
            Operation::AfsLink { from, to, .. } => match self.at(from) {
                None => Nothing,
                Some(node) if self.names.contains_key(&to) || node.is_directory => Refused,
                Some(_) => Done,
            },
            Operation::AfsRemove { path, .. } if self.is_directory(path) => Refused,
            Operation::AfsRemoveDirectory { path, .. } if !self.is_directory(path) => Refused,
            Operation::AfsRemove { path, .. } | Operation::AfsRemoveDirectory { path, .. } => {
                if held(path) {
                    Either
                } else {
                    if_there(path)
                }
            }
            Operation::Put { path, .. } if self.is_directory(path) => Refused,
            Operation::Put { path, condition: Condition::Nothing, .. } => make(path),
            Operation::Put { path, condition: Condition::AsRead, .. } => {
                if self.names.contains_key(&path) {
                    Either
                } else {
                    Refused
                }
            }
            Operation::Put { path, .. } => {
                if held(path) {
                    Either
                } else {
                    Done
                }
            }
            Operation::Delete { path } if self.is_directory(path) || held(path) => Either,
            Operation::Delete { path } => if_there(path),
            Operation::LocalCreate { path, .. } | Operation::LocalMakeDirectory { path } => {
                if self.names.contains_key(&path) { Nothing } else { Done }
            }
            Operation::LocalWrite { path, .. }
            | Operation::LocalTruncate { path, .. }
            | Operation::LocalChmod { path, .. } => {
                if self.at(path).is_some_and(|node| !node.is_directory) {
                    Done
                } else {
                    Nothing
                }
            }
            Operation::LocalReplace { path, .. } => {
                if self.is_directory(path) {
                    Nothing
                } else {
                    Done
                }
            }
            Operation::LocalRename { from, to } => match (self.names.get(&from), self.names.get(&to)) {
                (None, _) => Nothing,
                (Some(object), Some(target)) if object == target => Nothing,
                (Some(_), Some(_)) if self.is_directory(from) || self.is_directory(to) => Nothing,
                _ => Done,
            },
            Operation::LocalLink { from, to } => {
                let is_file = self.at(from).is_some_and(|node| !node.is_directory);
                if is_file && !self.names.contains_key(&to) { Done } else { Nothing }
            }
            Operation::LocalRemove { path } => {
                if self.names.contains_key(&path) {
                    Done
                } else {
                    Nothing
                }
            }
            Operation::Restart { .. } => Done,
        }
    }

    /// Of a rename to a name that is free, or may be replaced.
    fn moves(&self, object: Object, from: Path, to: Path) -> Expected {
        let has_several = self.names_of(object).count() > 1;
        // One of several names stays in its directory where rights might differ (docs/vfs.md, "Names in several directories").
        if has_several && from.directory() != to.directory() { Expected::Either } else { Expected::Done }
    }

    /// A new file or directory has this name.
    pub(super) fn makes(&mut self, path: Path, is_directory: bool, content: Vec<u8>) -> Object {
        self.forgets(path);
        self.objects.push(Node { is_directory, content, ..Node::default() });
        let object = self.objects.len() - 1;
        self.names.insert(path, object);
        self.names_changed(path);
        object
    }

    /// The name leads to nothing.
    pub(super) fn removes(&mut self, path: Path) {
        self.forgets(path);
        self.names_changed(path);
    }

    pub(super) fn moves_name(&mut self, from: Path, to: Path) {
        let object = self.names[&from];
        self.forgets(to);
        self.names.remove(&from);
        self.names.insert(to, object);
        // Another directory is its `..`, which is content.
        if self.objects[object].is_directory && from.directory() != to.directory() {
            self.content_changed(object);
        }
        self.names_changed(from);
        self.names_changed(to);
        for opened in self.opens.iter_mut().flatten().flatten() {
            if opened.object == object && opened.path == from {
                opened.path = to;
            }
        }
    }

    /// Opens of this name have it by a rename that the server did not make.
    pub(super) fn loses(&mut self, path: Path) {
        for opened in self.opens.iter_mut().flatten().flatten().filter(|opened| opened.path == path) {
            opened.is_lost = true;
        }
    }

    pub(super) fn links(&mut self, object: Object, to: Path) {
        self.names.insert(to, object);
        self.objects[object].changes += 1;
        self.names_changed(to);
    }

    /// Writes over what there is, with zeros before the offset where the file is shorter.
    pub(super) fn writes(&mut self, object: Object, offset: usize, bytes: &[u8]) {
        let content = &mut self.objects[object].content;
        content.resize(content.len().max(offset + bytes.len()), 0);
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.content_changed(object);
    }

    pub(super) fn cuts(&mut self, object: Object, len: usize) {
        let node = &mut self.objects[object];
        if node.content.len() == len {
            // The same content; whether that is a change is the server's to say.
            node.may_rise = true;
            node.changes += 1;
            return;
        }
        node.content.resize(len, 0);
        self.content_changed(object);
    }

    pub(super) fn content_changed(&mut self, object: Object) {
        self.objects[object].contents += 1;
        self.objects[object].changes += 1;
    }

    fn forgets(&mut self, path: Path) {
        if let Some(object) = self.names.remove(&path) {
            self.objects[object].changes += 1;
        }
    }

    fn names_changed(&mut self, path: Path) {
        self.content_changed(path.directory().into());
    }
}
