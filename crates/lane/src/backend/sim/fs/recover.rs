//! State after a loss of power. The tree is what the journal has, repaired as a file system check would. Each
//! file's bytes are some state since its last sync.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::content::Left;
use super::inode::{Inode, Name, Stored};
use super::{Disk, ROOT_INO, dev_of};
use crate::backend::sim::config::JournalKind;
use crate::backend::sim::engine::Engine;

impl Disk {
    /// Ends everything as a loss of power does; no operation and no descriptor holds an inode any more.
    pub(in crate::backend::sim) fn lose_power(&mut self, engine: &mut Engine) {
        self.forget_process();
        let dirs = self.journal.lose_power(self.config.journal, engine);
        let root = Rc::clone(&self.root.stored);
        let mut recovery = Recovery::default();
        let found = recovery.directory(self, &root, engine);
        for dir in dirs.iter().filter(|dir| !recovery.seen.contains(&Rc::as_ptr(dir))) {
            // Nothing leads there; if something there leads there too, nothing else would take it apart.
            dir.entries().expect("they have names").borrow_mut().clear();
        }
        drop(dirs);
        self.root = found;
        self.by_number.clear();
        self.recount();
    }

    /// Forgets what ends with the process: watches, removed files, and a fault that was to come.
    pub(in crate::backend::sim) fn forget_process(&mut self) {
        self.watches.clear();
        self.removed.clear();
        (self.cut, self.is_cut) = (None, false);
    }

    /// Recounts room and inode numbers from the tree that is left.
    pub(super) fn recount(&mut self) {
        let (mut used, mut beneath) = (BTreeSet::new(), vec![Rc::clone(&self.root)]);
        while let Some(inode) = beneath.pop() {
            inode.stored.count();
            used.insert(inode.ino());
            self.by_number.insert(inode.ino(), Rc::downgrade(&inode));
            if let Ok(entries) = inode.directory() {
                beneath.extend(entries.borrow().values().cloned());
            }
        }
        self.space.recover_numbers(ROOT_INO, &used);
    }
}

#[derive(Default)]
struct Recovery {
    /// Directories visited.
    seen: HashSet<*const Stored>,
    /// Inodes other than directories, which may have several names.
    others: HashMap<*const Stored, Rc<Inode>>,
}

impl Recovery {
    fn directory(&mut self, disk: &mut Disk, stored: &Rc<Stored>, engine: &mut Engine) -> Rc<Inode> {
        self.seen.insert(Rc::as_ptr(stored));
        let dir = Inode::new(disk.next_serial(), dev_of(disk.host), Rc::clone(stored), 2);
        let names = stored.entries().expect("a directory's").borrow().clone();
        for (name, entry) in names {
            let inode = match entry.entries() {
                None => self.other(disk, &entry, engine),
                Some(_) if self.seen.contains(&Rc::as_ptr(&entry)) => {
                    // Its other name stays: a directory has one.
                    stored.entries().expect("as above").borrow_mut().remove(&name);
                    continue;
                }
                Some(_) => {
                    dir.nlink.set(dir.nlink.get() + 1);
                    self.directory(disk, &entry, engine)
                }
            };
            inode.names.borrow_mut().push(Name::new(&dir, &name));
            dir.directory().expect("it is one").borrow_mut().insert(name, inode);
        }
        dir
    }

    fn other(&mut self, disk: &mut Disk, stored: &Rc<Stored>, engine: &mut Engine) -> Rc<Inode> {
        let found = self.others.entry(Rc::as_ptr(stored)).or_insert_with(|| {
            if let Some(content) = stored.content() {
                let left = Left::draw(engine);
                let mut content = content.borrow_mut();
                if disk.config.journal == JournalKind::Unordered {
                    content.commit_any(left, engine);
                }
                content.lose_power(left, engine);
            }
            Inode::new(disk.next_serial(), dev_of(disk.host), Rc::clone(stored), 0)
        });
        found.nlink.set(found.nlink.get() + 1);
        Rc::clone(found)
    }
}
