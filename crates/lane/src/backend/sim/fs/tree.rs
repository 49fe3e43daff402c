//! A whole tree for a test to look at: as processes see it, or as the disk has it.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use super::Disk;
use super::inode::{Inode, Node, Stored};

/// An inode in a tree, by the path that [`Fs::tree`](super::Fs::tree) gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Number of the inode, the same for all names of a file.
    pub ino: u64,
    /// Number that tells the inode from others that had the same inode number.
    pub generation: u32,
    /// Permission bits, as in `st_mode`.
    pub mode: u32,
    /// Kind of the inode.
    pub kind: FoundKind,
    /// Values of the extended attributes, by name.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Kind of an inode found in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// A file, with its bytes.
    File(Vec<u8>),
    /// A directory, whose entries have paths of their own.
    Directory,
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
    /// A pipe, socket or device.
    Special,
}

/// Counts of what takes room on a disk though no name leads there: files that are open, or that nothing holds
/// and are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unnamed {
    /// Pages of 4 KiB.
    pub pages: u64,
    /// Inodes: files, directories and links.
    pub inodes: u64,
}

impl Disk {
    /// Returns counts of what no name leads to.
    pub(super) fn unnamed(&self) -> Unnamed {
        let (mut pages, mut inodes) = (HashSet::new(), HashSet::new());
        add_held(&self.root, &mut pages, &mut inodes);
        Unnamed {
            pages: self.space.pages().saturating_sub(pages.len() as u64),
            inodes: self.space.inodes().saturating_sub(inodes.len() as u64),
        }
    }

    /// Returns the whole tree, but for the root, as processes see it.
    pub(super) fn tree(&self) -> BTreeMap<String, Found> {
        let mut found = BTreeMap::new();
        add_seen(&self.root, "", &mut found);
        found
    }

    /// Returns all that is safe now: what a loss of power leaves if nothing more has come to the disk.
    pub(super) fn tree_on_disk(&self) -> BTreeMap<String, Found> {
        let mut found = BTreeMap::new();
        add_stored(&self.root.stored, "", &mut found);
        found
    }
}

fn add_held(
    inode: &Rc<Inode>,
    pages: &mut HashSet<*const super::pages::Page>,
    inodes: &mut HashSet<*const Inode>,
) {
    if !inodes.insert(Rc::as_ptr(inode)) {
        return;
    }
    if let Node::File(content) = &inode.stored.node {
        pages.extend(content.borrow().pages().map(Rc::as_ptr));
    }
    if let Ok(entries) = inode.directory() {
        entries.borrow().values().for_each(|inode| add_held(inode, pages, inodes));
    }
}

fn add_seen(dir: &Rc<Inode>, path: &str, found: &mut BTreeMap<String, Found>) {
    let Ok(entries) = dir.directory() else { return };
    for (name, inode) in &*entries.borrow() {
        let path = format!("{path}/{}", String::from_utf8_lossy(name));
        add_seen(inode, &path, found);
        let kind = match &inode.stored.node {
            Node::File(content) => FoundKind::File(content.borrow().to_vec()),
            node => kind_of(node),
        };
        let (mode, xattrs) = (inode.attributes.get().mode, inode.xattrs.borrow().clone());
        found.insert(path, Found { mode, kind, xattrs, ..on_disk(&inode.stored) });
    }
}

fn add_stored(dir: &Rc<Stored>, path: &str, found: &mut BTreeMap<String, Found>) {
    let Some(entries) = dir.entries() else { return };
    for (name, stored) in &*entries.borrow() {
        let path = format!("{path}/{}", String::from_utf8_lossy(name));
        add_stored(stored, &path, found);
        found.insert(path, on_disk(stored));
    }
}

fn on_disk(stored: &Stored) -> Found {
    Found {
        ino: stored.number,
        generation: stored.generation,
        mode: stored.attributes.get().mode,
        kind: kind_of(&stored.node),
        xattrs: stored.xattrs.borrow().clone(),
    }
}

fn kind_of(node: &Node) -> FoundKind {
    match node {
        Node::File(content) => FoundKind::File(content.borrow().on_disk()),
        Node::Directory(_) => FoundKind::Directory,
        Node::Symlink(target) => FoundKind::Symlink(target.clone()),
        Node::Special => FoundKind::Special,
    }
}
