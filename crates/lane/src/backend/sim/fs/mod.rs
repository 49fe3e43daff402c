//! The simulated file system: a tree in memory per host, with a page cache that forgets at random, slow and
//! failing operations, change notification, and a disk that tears unsynced writes when the power goes.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::config::FsConfig;
use super::core::wall_clock;
use super::engine::Engine;
use crate::backend::file::{FileKind, Stat, Timestamp};

use self::content::Content;
use self::locks::Locks;
use self::watch::Watches;

mod attributes;
mod content;
mod data;
mod edit;
mod handle;
mod identity;
mod locks;
mod names;
mod read;
mod resolve;
mod watch;
mod write;

pub use self::handle::{Fs, Writer};

/// One host's file system.
pub(crate) struct Disk {
    pub(super) config: FsConfig,
    pub(super) watches: Watches,
    root: Rc<Inode>,
    /// Directories without a name, which go when the last descriptor of theirs is closed.
    removed: Vec<(u64, Weak<Inode>)>,
    next_ino: u64,
    /// All that there are.
    by_number: BTreeMap<u64, Weak<Inode>>,
    dev: u64,
    /// Sends that had to wait for pages, and kept their lane waiting.
    blocked: Cell<u64>,
}

/// A file, directory or link. Lives as long as a name or an open descriptor holds it.
pub(crate) struct Inode {
    ino: u64,
    dev: u64,
    node: Node,
    mode: Cell<u32>,
    nlink: Cell<u32>,
    mtime: Cell<Timestamp>,
    ctime: Cell<Timestamp>,
    born: Timestamp,
    uid: Cell<u32>,
    gid: Cell<u32>,
    /// Made without a name, and may be given one.
    linkable: Cell<bool>,
    xattrs: RefCell<BTreeMap<Vec<u8>, Vec<u8>>>,
    locks: RefCell<Locks>,
    /// Pages that are not in memory, by number.
    cold: RefCell<BTreeSet<u64>>,
}

/// What an inode is.
enum Node {
    File(RefCell<Content>),
    Directory(RefCell<BTreeMap<Vec<u8>, Rc<Inode>>>),
    Symlink(Vec<u8>),
    /// A pipe, socket or device.
    Special,
}

impl Disk {
    pub(super) fn new(host: usize, config: FsConfig) -> Self {
        let dev = host as u64 + 1;
        let mut disk = Self {
            config,
            watches: Watches::default(),
            root: Rc::new(Inode::new(
                ROOT_INO,
                dev,
                Node::Directory(RefCell::default()),
                now(Duration::ZERO),
            )),
            removed: Vec::new(),
            next_ino: ROOT_INO,
            by_number: BTreeMap::new(),
            dev,
            blocked: Cell::new(0),
        };
        disk.next_ino += 1;
        disk.by_number.insert(ROOT_INO, Rc::downgrade(&disk.root));
        disk
    }

    /// How long the next operation takes.
    pub(super) fn delay(&self, engine: &mut Engine) -> Duration {
        if engine.chance(self.config.slow) {
            return self.config.slow_delay;
        }
        engine.between(self.config.delay.clone())
    }

    /// Tells watchers of removed directories that nobody holds open any more. Called after every close.
    pub(super) fn sweep(&mut self, engine: &mut Engine) {
        let Self { removed, watches, .. } = self;
        removed.retain(|(ino, inode)| {
            let held = inode.strong_count() > 0;
            if !held {
                watches.gone(*ino, engine);
            }
            held
        });
    }

    /// The power goes: what was not synced is torn.
    pub(super) fn lose_power(&mut self, engine: &mut Engine) {
        self.watches.clear();
        tear(&self.root, engine);
    }

    /// The time files are stamped with.
    fn stamp(&self, engine: &Engine) -> Timestamp {
        let step = self.config.timestamp_step.as_nanos().max(1);
        let steps = engine.now().as_nanos() / step;
        now(Duration::from_nanos(u64::try_from(steps * step).expect("worlds last less than 500 years")))
    }

    fn new_inode(&mut self, node: Node, engine: &Engine) -> Rc<Inode> {
        let ino = self.next_ino;
        self.next_ino += 1;
        let inode = Rc::new(Inode::new(ino, self.dev, node, self.stamp(engine)));
        self.by_number.retain(|_, inode| inode.strong_count() > 0);
        self.by_number.insert(ino, Rc::downgrade(&inode));
        inode
    }
}

impl Inode {
    fn new(ino: u64, dev: u64, node: Node, time: Timestamp) -> Self {
        let (mode, nlink) = match node {
            Node::File(_) | Node::Special => (0o644, 1),
            Node::Directory(_) => (0o755, 2),
            Node::Symlink(_) => (0o777, 1),
        };
        Self {
            ino,
            dev,
            node,
            mode: Cell::new(mode),
            nlink: Cell::new(nlink),
            mtime: Cell::new(time),
            ctime: Cell::new(time),
            born: time,
            uid: Cell::new(OWNER),
            gid: Cell::new(OWNER),
            linkable: Cell::new(false),
            xattrs: RefCell::default(),
            locks: RefCell::default(),
            cold: RefCell::default(),
        }
    }

    pub(super) fn ino(&self) -> u64 {
        self.ino
    }

    pub(crate) fn stat(&self) -> Stat {
        Stat {
            kind: self.kind(),
            dev: self.dev,
            ino: self.ino,
            size: match &self.node {
                Node::File(content) => content.borrow().bytes().len() as u64,
                Node::Symlink(target) => target.len() as u64,
                Node::Directory(_) => 4096,
                Node::Special => 0,
            },
            mtime: self.mtime.get(),
            ctime: self.ctime.get(),
            mode: self.mode.get(),
            nlink: self.nlink.get(),
            uid: self.uid.get(),
            gid: self.gid.get(),
        }
    }

    fn kind(&self) -> FileKind {
        match self.node {
            Node::File(_) => FileKind::File,
            Node::Directory(_) => FileKind::Directory,
            Node::Symlink(_) => FileKind::Symlink,
            Node::Special => FileKind::Other,
        }
    }

    /// The directory's entries, or `ENOTDIR`.
    fn directory(&self) -> io::Result<&RefCell<BTreeMap<Vec<u8>, Rc<Self>>>> {
        match &self.node {
            Node::Directory(entries) => Ok(entries),
            _ => Err(errno(libc::ENOTDIR)),
        }
    }

    /// The file's content; `EISDIR` for a directory.
    fn content(&self) -> io::Result<&RefCell<Content>> {
        match &self.node {
            Node::File(content) => Ok(content),
            Node::Directory(_) => Err(errno(libc::EISDIR)),
            _ => Err(errno(libc::EINVAL)),
        }
    }

    /// Whether the server, owner of all and not root, may use it so.
    fn check_access(&self, bit: u32) -> io::Result<()> {
        if self.mode.get() & bit == bit { Ok(()) } else { Err(errno(libc::EACCES)) }
    }
}

/// Tears every file beneath `inode`.
fn tear(inode: &Rc<Inode>, engine: &mut Engine) {
    match &inode.node {
        Node::File(content) => content.borrow_mut().lose_power(engine),
        Node::Directory(entries) => entries.borrow().values().for_each(|entry| tear(entry, engine)),
        Node::Symlink(_) | Node::Special => {}
    }
}

/// The time of day at a moment of the world.
fn now(moment: Duration) -> Timestamp {
    let since = wall_clock(moment)
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .expect("worlds begin after 1970");
    Timestamp { secs: since.as_secs().cast_signed(), nanos: since.subsec_nanos() }
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Linux's limits, bytes.
const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4096;
const ROOT_INO: u64 = 2;
const OWNER: u32 = 1000;
/// Permission bits of the owner.
const READ: u32 = 0o400;
const WRITE: u32 = 0o200;
const SEARCH: u32 = 0o100;
