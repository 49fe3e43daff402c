//! The room of a disk: pages of files, each counted once however many files share it, and inodes with their
//! numbers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Space in use on a disk, counted where pages and inodes come and go.
#[derive(Debug)]
pub(super) struct Space {
    pages: Cell<u64>,
    inodes: Cell<u64>,
    free_numbers: RefCell<BTreeSet<u64>>,
    next_number: Cell<u64>,
    reuses_at_once: Cell<bool>,
}

/// A page of one file, or of several that were reflinked.
pub(super) struct Page {
    pub(super) bytes: [u8; PAGE],
    space: Rc<Space>,
    counted: Cell<bool>,
}

impl Space {
    pub(super) fn new(first_number: u64) -> Rc<Self> {
        Rc::new(Self {
            pages: Cell::new(0),
            inodes: Cell::new(0),
            free_numbers: RefCell::default(),
            next_number: Cell::new(first_number),
            reuses_at_once: Cell::new(true),
        })
    }

    /// Returns the pages in use, of 4 KiB each.
    pub(super) fn pages(&self) -> u64 {
        self.pages.get()
    }

    /// Returns the inodes in use.
    pub(super) fn inodes(&self) -> u64 {
        self.inodes.get()
    }

    /// Takes the lowest number that no inode has: as in ext4 a new file often gets that of the last one
    /// removed.
    pub(super) fn take_number(&self) -> u64 {
        self.inodes.set(self.inodes.get() + 1);
        if let Some(number) = self.free_numbers.borrow_mut().pop_first() {
            return number;
        }
        self.next_number.replace(self.next_number.get() + 1)
    }

    /// Sets whether the number of an inode gone from sight is free before its going is safe. Right only where
    /// nothing that comes later can be safe without that: two files would have one number otherwise.
    pub(super) fn reuse_numbers_at_once(&self, does: bool) {
        self.reuses_at_once.set(does);
    }

    pub(super) fn reuses_numbers_at_once(&self) -> bool {
        self.reuses_at_once.get()
    }

    pub(super) fn give_number(&self, number: u64) {
        self.inodes.set(self.inodes.get() - 1);
        self.free_numbers.borrow_mut().insert(number);
    }

    /// Makes the number of every inode lost with the power free, after the tree is recovered.
    pub(super) fn recover_numbers(&self, first: u64, used: &BTreeSet<u64>) {
        let free = (first..self.next_number.get()).filter(|number| !used.contains(number));
        *self.free_numbers.borrow_mut() = free.collect();
        self.inodes.set(used.len() as u64);
    }
}

impl Page {
    pub(super) fn zeroed(space: &Rc<Space>) -> Rc<Self> {
        let page = Self { bytes: [0; PAGE], space: Rc::clone(space), counted: Cell::new(false) };
        page.count();
        Rc::new(page)
    }

    /// Counts the page's room, unless counted already.
    pub(super) fn count(&self) {
        if !self.counted.replace(true) {
            self.space.pages.set(self.space.pages.get() + 1);
        }
    }

    /// Frees the page's room, unless free already.
    pub(super) fn discount(&self) {
        if self.counted.replace(false) {
            self.space.pages.set(self.space.pages.get() - 1);
        }
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        let page = Self { bytes: self.bytes, space: Rc::clone(&self.space), counted: Cell::new(false) };
        page.count();
        page
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.discount();
    }
}

/// Bytes of a page, and of a block of the disk.
pub(super) const PAGE: usize = 4096;
