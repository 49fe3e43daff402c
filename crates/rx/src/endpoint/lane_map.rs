//! Map of lanes that share an address: their silos, which of them run, and which connection belongs to which.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Route;
use super::directory::Directory;
use crate::header::Header;

/// Map of connections to the lanes of one address, with the lanes that run. It is read-only on the data path.
#[derive(Debug)]
pub struct LaneMap {
    silos: Vec<Range<usize>>,
    /// Flags by lane; false where no driver runs.
    present: Box<[AtomicBool]>,
    directory: Option<Directory>,
}

impl LaneMap {
    /// Makes the map of `lanes` lanes of one silo.
    pub fn one_silo(lanes: usize) -> Self {
        let silo = 0..lanes;
        Self::new(vec![silo])
    }

    /// Makes the map of a listener group's lanes, by silo, without a gap from 0 on. A connection belongs to a
    /// lane that its client's packets reach, and clients move, so the directory records the lane.
    pub fn new(silos: Vec<Range<usize>>) -> Self {
        let lanes = silos.last().map_or(0, |silo| silo.end);
        Self {
            present: (0..lanes).map(|_| AtomicBool::new(true)).collect(),
            directory: (lanes > 1).then(|| Directory::new(lanes)),
            silos,
        }
    }

    /// Returns the number of lanes, ended ones included.
    pub fn lanes(&self) -> usize {
        self.present.len()
    }

    /// Returns whether a lane's driver still runs.
    pub fn is_present(&self, lane: usize) -> bool {
        self.present[lane].load(Ordering::Acquire)
    }

    /// Returns whether both lanes are of one node.
    pub fn same_silo(&self, one: usize, other: usize) -> bool {
        self.silo(one).contains(&other)
    }

    pub(super) fn directory(&self) -> Option<&Directory> {
        self.directory.as_ref()
    }

    /// Returns the lane that a connection's ids lead to, or the next one present.
    pub(super) fn by_residue(&self, header: &Header) -> usize {
        let lanes = self.lanes();
        let route = Route { epoch: header.epoch, cid: header.cid, from_client: header.from_client() };
        let owner = route.lane(lanes as u32) as usize;
        (0..lanes).map(|off| (owner + off) % lanes).find(|&lane| self.is_present(lane)).unwrap_or(owner)
    }

    /// Marks a lane as present, and returns false when it was already.
    pub fn enter(&self, lane: usize) -> bool {
        !self.present[lane].swap(true, Ordering::AcqRel)
    }

    /// Returns whether any lane's driver runs.
    pub fn is_anybody_present(&self) -> bool {
        self.present.iter().any(|present| present.load(Ordering::Acquire))
    }

    /// Marks a lane as ended, with all its connections.
    pub fn leave(&self, lane: usize) {
        self.present[lane].store(false, Ordering::Release);
        if let Some(directory) = &self.directory {
            directory.retire(lane);
        }
    }

    fn silo(&self, lane: usize) -> &Range<usize> {
        self.silos.iter().find(|silo| silo.contains(&lane)).expect("silos cover all lanes without a gap")
    }
}
