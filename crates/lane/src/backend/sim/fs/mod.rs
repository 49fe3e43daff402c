//! The simulated file system, as hard as the kernel's: a tree in memory per host, as processes see it and as
//! the disk has it. There is a page cache that forgets at random, room that ends, slow and failing
//! operations, change notification, handles and locks. Losses of power leave what was synced, and of the rest
//! what the dice will.
//!
//! | file | what it is about |
//! |---|---|
//! | `inode`, `pages`, `space` | what there is: inodes, the bytes' room, numbers |
//! | `content` | a file's bytes: what is seen, and which older ones may come back |
//! | `journal`, `recover` | names and attributes that are not safe yet; what a loss of power leaves |
//! | `image` | the whole disk as it was, and set back to that |
//! | `resolve`, `read`, `names`, `data`, `attributes`, `identity`, `locks` | what a server does |
//! | `watch` | what it is told |
//! | `edit`, `handle`, `tree` | what a test does and sees |

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use super::config::FsConfig;
use super::core::wall_clock;
use super::engine::Engine;
use super::net::HostId;
use crate::backend::file::Timestamp;

use self::inode::{Node, Stored};
use self::journal::Journal;
use self::pages::Space;
use self::watch::Watches;

mod attributes;
mod content;
mod data;
mod edit;
mod handle;
mod identity;
mod image;
mod inode;
mod journal;
mod locks;
mod names;
mod open_file;
mod pages;
mod read;
mod recover;
mod resolve;
mod space;
mod tree;
mod watch;

pub(crate) use self::inode::Inode;
pub(crate) use self::open_file::OpenFile;

pub use self::handle::{Fs, Writer};
pub use self::image::Image;
pub use self::locks::ForeignLock;
pub use self::tree::{Found, FoundKind, Unnamed};

/// One host's file system.
pub(crate) struct Disk {
    pub(super) config: FsConfig,
    pub(super) watches: Watches,
    host: HostId,
    root: Rc<Inode>,
    journal: Journal,
    space: Rc<Space>,
    /// Inodes by number, with earlier inodes of the same number.
    by_number: BTreeMap<u64, Weak<Inode>>,
    /// Directories, and watched files, without a name: each goes when the last descriptor of it is closed.
    removed: Vec<(u64, Weak<Inode>)>,
    last_serial: u64,
    /// Inodes made so far, less those set back: the count tells inodes of the same number apart.
    generations: u64,
    /// True during a test's own change: no fault strikes it, nothing is forbidden, nothing counts it.
    by_test: bool,
    /// Changes and syncs that the server has begun so far.
    steps: u64,
    /// Fault that is to happen, and the number of steps before.
    cut: Option<(u64, Cut)>,
    /// True once the loss of power has happened: nothing changes until the host is started again.
    is_cut: bool,
    /// Sends that had to wait for pages, and kept their lane waiting.
    blocked: Cell<u64>,
}

/// Kind of end that comes in the middle of the server's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::backend::sim) enum Cut {
    Power,
    Process,
}

impl Disk {
    pub(super) fn new(host: HostId, config: FsConfig) -> Self {
        let space = Space::new(ROOT_INO);
        let root = Inode::new(1, dev_of(host), Stored::root(&space), 2);
        let mut disk = Self {
            config,
            watches: Watches::default(),
            host,
            root,
            journal: Journal::default(),
            space,
            by_number: BTreeMap::new(),
            removed: Vec::new(),
            last_serial: 1,
            generations: 1,
            by_test: false,
            steps: 0,
            cut: None,
            is_cut: false,
            blocked: Cell::new(0),
        };
        disk.configured();
        disk.by_number.insert(ROOT_INO, Rc::downgrade(&disk.root));
        disk
    }

    /// Returns how long the next operation takes.
    pub(super) fn delay(&self, engine: &mut Engine) -> Duration {
        if engine.chance(self.config.slow) {
            return self.config.slow_delay;
        }
        engine.between(self.config.delay.clone())
    }

    /// Tells watchers of files that were removed and that no descriptor holds open any more; called after
    /// every close.
    pub(super) fn sweep(&mut self, engine: &mut Engine) {
        let Self { removed, watches, .. } = self;
        removed.retain(|(serial, inode)| {
            let held = inode.strong_count() > 0;
            if !held {
                watches.gone(*serial, engine);
            }
            held
        });
    }

    /// Drops one hold on an open file description, and tells watchers after the last if it could write.
    pub(super) fn closed(&mut self, file: Rc<OpenFile>, engine: &mut Engine) {
        if file.is_writable() && Rc::strong_count(&file) == 1 {
            file.act();
            self.notify(&file.inode, engine);
        }
        drop(file);
        self.sweep(engine);
    }

    /// Returns the time that files are stamped with, rounded down to the configured step.
    fn stamp(&self, engine: &Engine) -> Timestamp {
        let step = self.config.timestamp_step.as_nanos().max(1);
        let steps = engine.now().as_nanos() / step;
        now(Duration::from_nanos(u64::try_from(steps * step).expect("worlds last less than 500 years")))
    }

    /// Passes the journal's kind on to the space, which may then reuse inode numbers at once.
    pub(super) fn configured(&self) {
        self.space.reuse_numbers_at_once(self.config.journal == super::config::JournalKind::Ordered);
    }

    /// Begins a change or sync of the server: counts it, and refuses it where nothing can be written.
    ///
    /// # Errors
    /// `EROFS`, and `EIO` at the rate given and when the power is about to go.
    fn begin(&mut self, rate: f64, engine: &mut Engine) -> io::Result<()> {
        if self.by_test {
            return Ok(());
        }
        if let Some((at, cut)) = self.cut
            && self.steps >= at
            && !std::mem::replace(&mut self.is_cut, true)
        {
            engine.cut(self.host, cut);
        }
        if self.is_cut {
            return Err(errno(libc::EIO));
        }
        self.steps += 1;
        if self.config.read_only {
            return Err(errno(libc::EROFS));
        }
        self.may_fail(rate, engine)
    }

    fn may_fail(&self, rate: f64, engine: &mut Engine) -> io::Result<()> {
        if engine.chance(rate) { Err(errno(libc::EIO)) } else { Ok(()) }
    }

    /// Returns whether permission bits do not bind the process.
    fn is_privileged(&self) -> bool {
        self.by_test || self.config.privileged
    }

    /// Checks permission bits unless the process is privileged: `EACCES` where the bits say so.
    fn check_access(&self, inode: &Inode, bits: u32) -> io::Result<()> {
        if self.is_privileged() { Ok(()) } else { inode.check_access(bits) }
    }

    /// Makes a new inode without a name in `dir`, with a set-group-id bit handed down from there.
    ///
    /// # Errors
    /// `ENOSPC` or `EDQUOT` when there are too many.
    fn new_inode(
        &mut self,
        dir: &Inode,
        node: Node,
        mode: u32,
        engine: &mut Engine,
    ) -> io::Result<Rc<Inode>> {
        self.check_inodes()?;
        let serial = self.next_serial();
        // In no order, like the kernel's, and without the dice: what a test makes beforehand moves no later throw.
        self.generations += 1;
        let generation = (self.generations.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
        let stored = Stored::new(node, mode, generation, self.stamp(engine), &self.space);
        let above = dir.attributes.get();
        if above.mode & 0o2000 != 0 {
            let mut attributes = stored.attributes.get();
            attributes.gid = above.gid;
            attributes.mode |= if matches!(stored.node, Node::Directory(_)) { 0o2000 } else { 0 };
            stored.attributes.set(attributes);
        }
        let inode = Inode::new(serial, dev_of(self.host), stored, 0);
        self.by_number.insert(inode.ino(), Rc::downgrade(&inode));
        Ok(inode)
    }

    fn next_serial(&mut self) -> u64 {
        self.last_serial += 1;
        self.last_serial
    }
}

fn dev_of(host: HostId) -> u64 {
    host.0 as u64 + 1
}

/// Converts a moment of the world to the time of day.
fn now(moment: Duration) -> Timestamp {
    let since = wall_clock(moment)
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .expect("worlds begin after 1970");
    Timestamp { secs: since.as_secs().cast_signed(), nanos: since.subsec_nanos() }
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

const ROOT_INO: u64 = 2;
/// Permission bits of the owner, by use.
const READ: u32 = 0o400;
const WRITE: u32 = 0o200;
const SEARCH: u32 = 0o100;
