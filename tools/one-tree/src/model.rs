//! Model of the truth: files with their contents, the names that lead to them, and the opens of SMB clients.
//! One operation comes after the other, so that there is one truth at each moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use afs_wire::Fid;

use crate::operation::{DIRECTORIES, Path, SLOTS};

/// A file or directory, by its place in [`Model::objects`]. The first three are [`DIRECTORIES`].
pub(crate) type Object = usize;

#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) is_directory: bool,
    pub(crate) content: Vec<u8>,
    /// Number of changes of content or, of a directory, of its names.
    pub(crate) contents: u64,
    /// Number of changes of anything that AFS reports of it.
    pub(crate) changes: u64,
    /// AFS's identifier, once it was seen.
    pub(crate) fid: Option<Fid>,
    /// The file's last identifier that was seen, before a loss of power too.
    pub(crate) last_fid: Option<Fid>,
    /// The file's last version that was seen, and the count of its content then.
    pub(crate) version: Option<(u64, u64)>,
    /// Set if the next version that is seen may be a later one, whether or not content has changed.
    pub(crate) may_rise: bool,
    /// Time until which each version that is seen may be a later one, not only the next.
    pub(crate) may_rise_until: Option<Instant>,
    /// Set if a client has looked since it was changed in any way: a change of names or mode alone shows by that.
    pub(crate) is_known: bool,
    /// Inode number of the file system.
    pub(crate) inode: Option<u64>,
    /// Set if the file's name goes with the last open of an SMB client.
    pub(crate) is_pending: bool,
    /// Set if a local program has changed its content and no client has looked since: leases are broken at the first
    /// look.
    pub(crate) is_unseen: bool,
    /// Set for a directory that a client made: its list goes with it, and is missed where it was.
    pub(crate) has_list: bool,
}

/// An open of an SMB client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) object: Object,
    /// The name that it was opened by, as that was renamed since.
    pub(crate) path: Path,
    pub(crate) writes: bool,
    pub(crate) shares: bool,
    /// A local program renamed it: the server may not know its name any more.
    pub(crate) is_lost: bool,
    /// A local program took its name away, to another or for another: its lease is given back.
    pub(crate) is_taken: bool,
    /// [`Node::contents`] as its client knows it: under a read lease it needs not ask.
    pub(crate) contents: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) objects: Vec<Node>,
    pub(crate) names: BTreeMap<Path, Object>,
    pub(crate) opens: [[Option<Opened>; SLOTS as usize]; 2],
    /// Paths of directories with a list that a local program took away. Another directory without a list is closed
    /// there (docs/design/access.md, "What counts as a loss").
    pub(crate) missed: BTreeSet<Path>,
    /// Objects that AFS has named by vnode and uniquifier, for ever.
    pub(crate) fids: BTreeMap<(u32, u32), Object>,
    /// State that a loss of power leaves, if it is not changed again.
    pub(crate) synced: Synced,
}

/// State on the disk at the last sync.
#[derive(Clone, Debug, Default)]
pub(crate) struct Synced {
    pub(crate) names: BTreeMap<Path, Object>,
    /// [`Node::contents`] of each object.
    pub(crate) contents: BTreeMap<Object, u64>,
}

impl Model {
    pub(crate) fn new() -> Self {
        let directory = Node { is_directory: true, ..Node::default() };
        Self {
            objects: DIRECTORIES.map(|_| directory.clone()).to_vec(),
            names: (1..DIRECTORIES.len()).map(|place| (Path::of_directory(place as u8), place)).collect(),
            opens: Default::default(),
            missed: BTreeSet::new(),
            fids: BTreeMap::new(),
            synced: Synced::default(),
        }
    }

    pub(crate) fn at(&self, path: Path) -> Option<&Node> {
        self.names.get(&path).map(|object| &self.objects[*object])
    }

    /// Returns the directory at this place of [`DIRECTORIES`].
    pub(crate) fn directory(&self, place: u8) -> Object {
        if place == 0 { ROOT } else { self.names[&Path::of_directory(place)] }
    }

    pub(crate) fn names_of(&self, object: Object) -> impl Iterator<Item = Path> {
        self.names.iter().filter(move |(_, named)| **named == object).map(|(path, _)| *path)
    }

    pub(crate) fn open(&self, client: u8, slot: u8) -> Option<&Opened> {
        self.opens[usize::from(client)][usize::from(slot)].as_ref()
    }

    pub(crate) fn opens_of(&self, object: Object) -> impl Iterator<Item = &Opened> {
        self.opens.iter().flatten().flatten().filter(move |opened| opened.object == object)
    }

    pub(crate) fn is_directory(&self, path: Path) -> bool {
        self.at(path).is_some_and(|node| node.is_directory)
    }

    pub(crate) fn is_open(&self, path: Path) -> bool {
        self.names.get(&path).is_some_and(|object| self.opens_of(*object).next().is_some())
    }

    pub(crate) fn is_pending(&self, path: Path) -> bool {
        self.at(path).is_some_and(|node| node.is_pending)
    }

    /// Returns whether a client has it open that does not let others write or remove.
    pub(crate) fn is_held(&self, object: Object) -> bool {
        self.opens_of(object).any(|opened| !opened.shares)
    }

    /// Gives a new file or directory this name.
    pub(crate) fn makes(&mut self, path: Path, is_directory: bool, content: Vec<u8>) -> Object {
        self.forgets(path);
        self.objects.push(Node { is_directory, content, ..Node::default() });
        let object = self.objects.len() - 1;
        self.names.insert(path, object);
        self.names_changed(path);
        object
    }

    /// Makes a directory by a client, which gives it a list.
    pub(crate) fn makes_with_list(&mut self, path: Path) -> Object {
        let object = self.makes(path, true, Vec::new());
        self.objects[object].has_list = true;
        self.missed.remove(&path);
        object
    }

    /// Notes that a local program takes what has this name away, to another or none: its list is missed.
    pub(crate) fn misses(&mut self, path: Path) {
        if self.at(path).is_some_and(|node| node.has_list) {
            self.missed.insert(path);
        }
    }

    /// Returns whether what has this name, or would have, has lost its list: it is a directory without one where
    /// another had one.
    pub(crate) fn is_closed_at(&self, path: Path, object: Option<Object>) -> bool {
        let goes_by_another = object.is_none_or(|object| {
            let node = &self.objects[object];
            node.is_directory && !node.has_list
        });
        goes_by_another && self.missed.contains(&path)
    }

    /// Exchanges the directories below the root, and the names of what is in them.
    pub(crate) fn swaps(&mut self) {
        let moving: Vec<_> = self.names.keys().copied().filter(|path| path.directory() != 0).collect();
        moving.into_iter().for_each(|path| self.misses(path));
        self.names = std::mem::take(&mut self.names)
            .into_iter()
            .map(|(path, object)| (path.swapped(), object))
            .collect();
        for opened in
            self.opens.iter_mut().flatten().flatten().filter(|opened| opened.path.swapped() != opened.path)
        {
            (opened.path, opened.is_lost) = (opened.path.swapped(), true);
        }
        self.content_changed(ROOT);
    }

    /// Notes that the name leads to nothing.
    pub(crate) fn removes(&mut self, path: Path) {
        self.forgets(path);
        self.names_changed(path);
    }

    pub(crate) fn moves_name(&mut self, from: Path, to: Path) {
        let object = self.names[&from];
        if self.objects[object].has_list {
            self.missed.remove(&to);
        }
        self.forgets(to);
        self.names.remove(&from);
        self.names.insert(to, object);
        // Another directory is its `..`, which is content; who has it open is not told of that.
        if self.objects[object].is_directory && from.directory() != to.directory() {
            self.content_changed(object);
            let opens = self.opens.iter_mut().flatten().flatten().filter(|opened| opened.object == object);
            opens.for_each(|opened| opened.contents += 1);
        }
        self.names_changed(from);
        self.names_changed(to);
        for opened in self.opens.iter_mut().flatten().flatten() {
            if opened.object == object && opened.path == from {
                opened.path = to;
            }
        }
    }

    /// Notes that the client of an open knows what the file has now.
    pub(crate) fn knows(&mut self, client: u8, slot: u8) {
        if let Some(opened) = &mut self.opens[usize::from(client)][usize::from(slot)] {
            opened.contents = self.objects[opened.object].contents;
        }
    }

    /// Notes AFS's identifier of an object; where that is another name than before, its versions are others.
    pub(crate) fn is_called(&mut self, object: Object, fid: Fid) {
        let node = &mut self.objects[object];
        if node.fid.replace(fid).is_none() && node.last_fid != Some(fid) {
            node.version = None;
        }
        node.last_fid = Some(fid);
    }

    /// Notes that all is on the disk.
    pub(crate) fn is_synced(&mut self) {
        let contents = self.objects.iter().map(|node| node.contents).enumerate();
        self.synced = Synced { names: self.names.clone(), contents: contents.collect() };
    }

    /// Closes an open; a file that is to be deleted goes with the last one by its name.
    pub(crate) fn closes(&mut self, client: u8, slot: u8) {
        let Some(opened) = self.opens[usize::from(client)][usize::from(slot)].take() else { return };
        let object = opened.object;
        let name = self.names_of(object).next().filter(|_| self.objects[object].is_pending);
        if let Some(name) = name
            && !self.opens_of(object).any(|other| other.path == name)
        {
            self.removes(name);
        }
    }

    /// Opens of this name have it by a rename that the server did not make.
    pub(crate) fn loses(&mut self, path: Path) {
        for opened in self.opens.iter_mut().flatten().flatten().filter(|opened| opened.path == path) {
            opened.is_lost = true;
        }
    }

    /// A local program is about to take a name away from what has it.
    pub(crate) fn takes(&mut self, path: Path) {
        let object = self.names.get(&path).copied();
        let is_its = |opened: &&mut Opened| opened.path == path && Some(opened.object) == object;
        for opened in self.opens.iter_mut().flatten().flatten().filter(is_its) {
            opened.is_taken = true;
        }
    }

    pub(crate) fn links(&mut self, object: Object, to: Path) {
        self.names.insert(to, object);
        self.objects[object].changes += 1;
        self.names_changed(to);
    }

    /// Writes over what there is, with zeros before the offset where the file is shorter.
    pub(crate) fn writes(&mut self, object: Object, offset: usize, bytes: &[u8]) {
        let content = &mut self.objects[object].content;
        content.resize(content.len().max(offset + bytes.len()), 0);
        content[offset..offset + bytes.len()].copy_from_slice(bytes);
        self.content_changed(object);
    }

    pub(crate) fn cuts(&mut self, object: Object, len: usize) {
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

    pub(crate) fn content_changed(&mut self, object: Object) {
        self.objects[object].contents += 1;
        self.objects[object].changes += 1;
    }

    /// Notes that a client has looked at these.
    pub(crate) fn are_seen(&mut self, objects: &BTreeSet<Object>) {
        for object in objects {
            let node = &mut self.objects[*object];
            (node.is_unseen, node.is_known) = (false, true);
        }
    }

    /// Notes that a local program is about to change names or mode of this alone. It may be a change of content as
    /// well, where only the change time shows it or no client has looked since the change before. See "How a look
    /// finds foreign changes" in docs/design/vfs.md.
    pub(crate) fn changes_beside(&mut self, path: Path, shows_alone: bool, until: Instant) {
        let Some(object) = self.names.get(&path) else { return };
        let node = &mut self.objects[*object];
        if !shows_alone || !node.is_known {
            (node.may_rise, node.may_rise_until) = (true, Some(until));
        }
    }

    fn forgets(&mut self, path: Path) {
        if let Some(object) = self.names.remove(&path) {
            self.objects[object].changes += 1;
        }
    }

    fn names_changed(&mut self, path: Path) {
        self.content_changed(self.directory(path.directory()));
    }
}

/// The tree's root, which has no name.
pub(crate) const ROOT: Object = 0;
