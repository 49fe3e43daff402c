//! Inodes, twice: as processes see them ([`Inode`]), and as the disk will have them ([`Stored`]). The two
//! differ by the changes that the journal holds. A file's bytes are in one place and know both.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::{Rc, Weak};

use super::content::Content;
use super::locks::Locks;
use super::pages::Space;
use super::{errno, now};
use crate::backend::file::{FileKind, Stat, Timestamp};

/// A file, directory or link as processes see it. Lives as long as a name or an open descriptor holds it.
pub(crate) struct Inode {
    /// Number that no other inode ever had, unlike the inode number.
    serial: u64,
    dev: u64,
    pub(super) stored: Rc<Stored>,
    /// Entries of a directory.
    entries: RefCell<BTreeMap<Vec<u8>, Rc<Inode>>>,
    pub(super) attributes: Cell<Attributes>,
    pub(super) xattrs: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    pub(super) nlink: Cell<u32>,
    /// True while the inode, made without a name, was never given one; a link may still come.
    pub(super) is_temporary: Cell<bool>,
    pub(super) names: RefCell<Vec<Rc<Name>>>,
    /// Name by which an operation in progress found the inode. Watchers of that name's directory learn of
    /// changes, as fsnotify tells the parent of the entry that was opened.
    pub(super) found_by: RefCell<Option<Rc<Name>>>,
    /// Pages that are not in memory, by number.
    pub(super) cold: RefCell<BTreeSet<u64>>,
    pub(super) locks: RefCell<Locks>,
    /// Failures to write back so far, and whether any description has reported the last.
    pub(super) failures: Cell<(u32, bool)>,
}

/// A name that an inode has in a directory, or had last; the same record lasts when the inode is moved.
pub(super) struct Name {
    pub(super) dir: RefCell<Weak<Inode>>,
    pub(super) called: RefCell<Vec<u8>>,
}

/// State of an inode on the disk, once the journal has come there.
pub(super) struct Stored {
    pub(super) number: u64,
    pub(super) generation: u32,
    born: Timestamp,
    pub(super) node: Node,
    pub(super) attributes: Cell<Attributes>,
    pub(super) xattrs: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    space: Rc<Space>,
    holds_number: Cell<bool>,
}

/// Kind of an inode.
pub(super) enum Node {
    File(RefCell<Content>),
    /// A directory with the names that are on the disk.
    Directory(RefCell<BTreeMap<Vec<u8>, Rc<Stored>>>),
    Symlink(Vec<u8>),
    /// A pipe, socket or device.
    Special,
}

/// Attributes that can be set of every kind of inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Time of the last read, which comes to the disk with the next change of another attribute.
    pub(super) atime: Timestamp,
    pub(super) mtime: Timestamp,
    pub(super) ctime: Timestamp,
}

impl Attributes {
    /// Returns the attributes of an inode just made.
    fn new(mode: u32, time: Timestamp) -> Self {
        Self { mode, uid: OWNER, gid: OWNER, atime: time, mtime: time, ctime: time }
    }
}

impl Stored {
    pub(super) fn new(
        node: Node,
        mode: u32,
        generation: u32,
        time: Timestamp,
        space: &Rc<Space>,
    ) -> Rc<Self> {
        Rc::new(Self {
            number: space.take_number(),
            generation,
            born: time,
            node,
            attributes: Cell::new(Attributes::new(mode, time)),
            xattrs: RefCell::default(),
            space: Rc::clone(space),
            holds_number: Cell::new(true),
        })
    }

    /// Returns the stored inode that an image describes, with its number there.
    pub(super) fn of_image(
        number: u64,
        generation: u32,
        born: Timestamp,
        node: Node,
        space: &Rc<Space>,
    ) -> Rc<Self> {
        Rc::new(Self {
            number,
            generation,
            born,
            node,
            attributes: Cell::new(Attributes::new(0, born)),
            xattrs: RefCell::default(),
            space: Rc::clone(space),
            holds_number: Cell::new(true),
        })
    }

    /// Returns the root of an empty tree.
    pub(super) fn root(space: &Rc<Space>) -> Rc<Self> {
        Self::new(Node::Directory(RefCell::default()), 0o755, 0, now(std::time::Duration::ZERO), space)
    }

    /// Returns a directory's names on the disk; `None` for other kinds.
    pub(super) fn entries(&self) -> Option<&RefCell<BTreeMap<Vec<u8>, Rc<Self>>>> {
        match &self.node {
            Node::Directory(entries) => Some(entries),
            _ => None,
        }
    }

    pub(super) fn content(&self) -> Option<&RefCell<Content>> {
        match &self.node {
            Node::File(content) => Some(content),
            _ => None,
        }
    }

    /// Frees the inode's room and number for others, though a loss of power may yet bring it back.
    fn discount(&self) {
        if self.space.reuses_numbers_at_once() {
            self.give_number();
        }
        if let Some(content) = self.content() {
            content.borrow_mut().discount();
        }
    }

    fn give_number(&self) {
        if self.holds_number.replace(false) {
            self.space.give_number(self.number);
        }
    }

    /// Takes room and number for an inode that a loss of power has brought back, or left.
    pub(super) fn count(&self) {
        self.holds_number.set(true);
        if let Some(content) = self.content() {
            content.borrow().count();
        }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        self.give_number();
    }
}

impl Inode {
    pub(super) fn new(serial: u64, dev: u64, stored: Rc<Stored>, nlink: u32) -> Rc<Self> {
        let (attributes, xattrs) = (stored.attributes.clone(), stored.xattrs.clone());
        Rc::new(Self {
            serial,
            dev,
            stored,
            entries: RefCell::default(),
            attributes,
            xattrs,
            nlink: Cell::new(nlink),
            is_temporary: Cell::new(false),
            names: RefCell::default(),
            found_by: RefCell::default(),
            cold: RefCell::default(),
            locks: RefCell::default(),
            failures: Cell::new((0, true)),
        })
    }

    /// Returns the number that tells the inode from every other there ever was.
    pub(super) fn serial(&self) -> u64 {
        self.serial
    }

    pub(in crate::backend::sim) fn ino(&self) -> u64 {
        self.stored.number
    }

    /// Returns the time when the inode was made.
    pub(crate) fn born(&self) -> Timestamp {
        self.stored.born
    }

    pub(crate) fn stat(&self) -> Stat {
        let attributes = self.attributes.get();
        Stat {
            kind: self.kind(),
            dev: self.dev,
            ino: self.ino(),
            size: match &self.stored.node {
                Node::File(content) => content.borrow().len() as u64,
                Node::Symlink(target) => target.len() as u64,
                Node::Directory(_) => 4096,
                Node::Special => 0,
            },
            allocated: match &self.stored.node {
                Node::File(content) => content.borrow().allocated(),
                Node::Directory(_) => 4096,
                Node::Symlink(_) | Node::Special => 0,
            },
            atime: attributes.atime,
            mtime: attributes.mtime,
            ctime: attributes.ctime,
            mode: attributes.mode,
            nlink: self.nlink.get(),
            uid: attributes.uid,
            gid: attributes.gid,
        }
    }

    pub(super) fn kind(&self) -> FileKind {
        match self.stored.node {
            Node::File(_) => FileKind::File,
            Node::Directory(_) => FileKind::Directory,
            Node::Symlink(_) => FileKind::Symlink,
            Node::Special => FileKind::Other,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.stored.node, Node::Directory(_))
    }

    /// Returns the directory's entries, or `ENOTDIR`.
    pub(super) fn directory(&self) -> io::Result<&RefCell<BTreeMap<Vec<u8>, Rc<Self>>>> {
        if self.is_directory() { Ok(&self.entries) } else { Err(errno(libc::ENOTDIR)) }
    }

    /// Returns the file's content; `EISDIR` for a directory, `EINVAL` for other kinds.
    pub(super) fn content(&self) -> io::Result<&RefCell<Content>> {
        match &self.stored.node {
            Node::File(content) => Ok(content),
            Node::Directory(_) => Err(errno(libc::EISDIR)),
            _ => Err(errno(libc::EINVAL)),
        }
    }

    /// Returns the link's target; `None` for other kinds.
    pub(super) fn target(&self) -> Option<&[u8]> {
        match &self.stored.node {
            Node::Symlink(target) => Some(target),
            _ => None,
        }
    }

    /// Checks permission bits for the server, owner of all files and not root. `EACCES` where a bit is
    /// missing.
    pub(super) fn check_access(&self, bits: u32) -> io::Result<()> {
        if self.attributes.get().mode & bits == bits { Ok(()) } else { Err(errno(libc::EACCES)) }
    }

    /// Returns the directory of the inode's first name; `None` for the root and for what was removed.
    pub(super) fn parent(&self) -> Option<Rc<Self>> {
        self.names.borrow().first().and_then(|name| name.dir.borrow().upgrade())
    }

    /// Notes that the inode was found by this name.
    pub(super) fn found_in(&self, dir: &Rc<Self>, called: &[u8]) {
        let found = self.names.borrow().iter().find(|name| name.is(dir, called)).cloned();
        self.found_by.replace(found);
    }
}

impl Name {
    pub(super) fn new(dir: &Rc<Inode>, called: &[u8]) -> Rc<Self> {
        Rc::new(Self { dir: RefCell::new(Rc::downgrade(dir)), called: RefCell::new(called.to_vec()) })
    }

    pub(super) fn is(&self, dir: &Rc<Inode>, called: &[u8]) -> bool {
        std::ptr::eq(self.dir.borrow().as_ptr(), Rc::as_ptr(dir)) && *self.called.borrow() == called
    }
}

impl Drop for Inode {
    fn drop(&mut self) {
        if self.nlink.get() == 0 {
            self.stored.discount();
        }
    }
}

/// Owner of all that exists at the start.
pub(super) const OWNER: u32 = 1000;
