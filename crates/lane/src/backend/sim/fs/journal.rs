//! Changes of names and attributes that are seen but not yet safe, in order.
//!
//! With [`Journal::Ordered`](JournalKind::Ordered), as of ext4, xfs and others, they come to the disk in this order, each
//! whole: a loss of power keeps those up to a moment between the last sync and now. Whatever makes one of them safe makes
//! all before it safe.
//! With [`JournalKind::Unordered`] only what POSIX says holds (fsync(2) makes one file safe, be it a directory, and nothing
//! is said of anything else): each name, and each inode's attributes, size and extended attributes come to the disk
//! on their own. A rename may leave both names, either or none, as on ext2 (Pillai et al., "All File Systems Are Not
//! Created Equal", OSDI 2014, table 1: directory operations need not be atomic).

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use super::content::Left;
use super::inode::{Attributes, Stored};
use crate::backend::sim::config::JournalKind;
use crate::backend::sim::engine::Engine;

/// Queue of changes that have not come to the disk.
#[derive(Default)]
pub(super) struct Journal {
    records: VecDeque<Record>,
}

/// Changes that an ordered journal keeps together.
pub(super) type Record = Vec<Change>;

/// Change of something that is whole on a disk.
pub(super) enum Change {
    /// A name in a directory stands for something else, or for nothing.
    Name {
        dir: Rc<Stored>,
        name: Vec<u8>,
        to: Option<Rc<Stored>>,
    },
    Attributes {
        of: Rc<Stored>,
        to: Attributes,
    },
    Xattr {
        of: Rc<Stored>,
        name: Vec<u8>,
        to: Option<Vec<u8>>,
    },
    /// A size was set; see [`super::content`].
    Resize {
        of: Rc<Stored>,
        event: u64,
    },
}

impl Journal {
    pub(super) fn push(&mut self, record: Record) {
        self.records.push_back(record);
        if self.records.len() > RECORDS_MAX {
            self.commit(RECORDS_MAX / 2);
        }
    }

    /// Writes the first `n` records to the disk.
    pub(super) fn commit(&mut self, n: usize) {
        self.records.drain(..n).flatten().for_each(Change::apply);
    }

    pub(super) fn commit_all(&mut self) {
        self.commit(self.records.len());
    }

    /// Writes to the disk all records up to the last about an inode or a name of that inode.
    pub(super) fn commit_to(&mut self, of: &Rc<Stored>) {
        let concerns = |change: &Change| change.is_of(of) || change.names(of);
        let last = self.records.iter().rposition(|record| record.iter().any(concerns));
        self.commit(last.map_or(0, |last| last + 1));
    }

    /// Writes to the disk all changes of one inode alone: of a directory, its names.
    pub(super) fn settle(&mut self, of: &Rc<Stored>) {
        for record in &mut self.records {
            record.extract_if(.., |change| change.is_of(of)).for_each(Change::apply);
        }
    }

    /// Writes to the disk the last name that an inode was given, and earlier changes of that name, whatever
    /// else there is.
    pub(super) fn settle_name(&mut self, of: &Rc<Stored>) {
        let records = self.records.iter().enumerate().rev();
        let given = records.flat_map(|(at, record)| record.iter().map(move |change| (at, change)));
        let last =
            given.filter(|(_, change)| change.names(of)).map(|(at, change)| (at, change.cell())).next();
        let Some((at, cell)) = last else { return };
        for record in self.records.iter_mut().take(at + 1) {
            record.extract_if(.., |change| change.cell() == cell).for_each(Change::apply);
        }
    }

    /// Ends the journal as a loss of power does, and returns the directories that changed. What is left of
    /// changes that are not safe is on the disk then.
    pub(super) fn lose_power(&mut self, kind: JournalKind, engine: &mut Engine) -> Vec<Rc<Stored>> {
        let left = Left::draw(engine);
        let dirs = self.records.iter().flatten().filter_map(|change| match change {
            Change::Name { dir, .. } => Some(Rc::clone(dir)),
            _ => None,
        });
        let dirs = dirs.collect();
        match kind {
            JournalKind::Ordered => {
                let n = left.pick(self.records.len() + 1, engine);
                self.commit(n);
                self.records.clear();
            }
            JournalKind::Unordered => self.lose_power_unordered(left, engine),
        }
        dirs
    }

    fn lose_power_unordered(&mut self, left: Left, engine: &mut Engine) {
        let changes: Vec<Change> = self.records.drain(..).flatten().collect();
        let (mut histories, mut index) = (Vec::<Vec<Change>>::new(), HashMap::new());
        for change in changes {
            let at = *index.entry(change.cell()).or_insert_with(|| {
                histories.push(Vec::new());
                histories.len() - 1
            });
            histories[at].push(change);
        }
        for history in histories {
            let n = left.pick(history.len() + 1, engine);
            history.into_iter().take(n).for_each(Change::apply);
        }
    }
}

impl Change {
    fn apply(self) {
        match self {
            Self::Name { dir, name, to } => {
                let mut entries = dir.entries().expect("names are in directories").borrow_mut();
                let before = match to {
                    Some(to) => entries.insert(name, to),
                    None => entries.remove(&name),
                };
                drop(entries);
                drop(before);
            }
            Self::Attributes { of, to } => of.attributes.set(to),
            Self::Xattr { of, name, to } => {
                let mut xattrs = of.xattrs.borrow_mut();
                match to {
                    Some(value) => drop(xattrs.insert(name, value)),
                    None => drop(xattrs.remove(&name)),
                }
            }
            Self::Resize { of, event } => {
                let content = of.content().expect("only files have a size to set");
                content.borrow_mut().commit(event);
            }
        }
    }

    /// Returns whether the change is of this stored thing.
    fn is_of(&self, stored: &Rc<Stored>) -> bool {
        match self {
            Self::Name { dir, .. } => Rc::ptr_eq(dir, stored),
            Self::Attributes { of, .. } | Self::Xattr { of, .. } | Self::Resize { of, .. } => {
                Rc::ptr_eq(of, stored)
            }
        }
    }

    /// Returns whether the change gives an inode a name.
    fn names(&self, stored: &Rc<Stored>) -> bool {
        matches!(self, Self::Name { to: Some(to), .. } if Rc::ptr_eq(to, stored))
    }

    /// Returns the part of the disk that the change is of.
    fn cell(&self) -> Cell {
        match self {
            Self::Name { dir, name, .. } => Cell(Rc::as_ptr(dir), What::Name(name.clone())),
            Self::Attributes { of, .. } => Cell(Rc::as_ptr(of), What::Attributes),
            Self::Xattr { of, name, .. } => Cell(Rc::as_ptr(of), What::Xattr(name.clone())),
            Self::Resize { of, .. } => Cell(Rc::as_ptr(of), What::Size),
        }
    }
}

/// A part of a disk that is written whole, by its inode's place in memory.
#[derive(PartialEq, Eq, Hash)]
struct Cell(*const Stored, What);

#[derive(PartialEq, Eq, Hash)]
enum What {
    Name(Vec<u8>),
    Attributes,
    Xattr(Vec<u8>),
    Size,
}

/// Most records before the journal's older half comes to the disk of itself.
const RECORDS_MAX: usize = 4096;
