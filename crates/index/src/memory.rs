//! Index in memory: for tests, which make it lose power, and for servers that are to remember nothing.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::{Builder, Database, StorageBackend};

use crate::{CleanShutdownMarker, Error, RecoveredJournal, Storage, Words};

/// Bytes in memory, as on a disk: synced ones outlive a loss of power. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Sectors>>);

#[derive(Clone, Debug, Default)]
struct Sectors {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Sectors that differ between written and synced.
    dirty: BTreeSet<usize>,
    failing: bool,
    /// Marker in the machine's memory.
    marker: Option<CleanShutdownMarker>,
    /// Words of the journal in memory.
    journal: Option<Arc<[AtomicU64]>>,
    is_journaled: bool,
}

/// Journal of the process that has the index open, until another opens it.
struct MemoryShared(Arc<[AtomicU64]>);

impl Words for MemoryShared {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    fn grow(&self, len: usize) -> bool {
        len <= self.0.len()
    }
}

impl Memory {
    /// Makes storage with a journal of uncommitted changes, which outlives a killed process.
    pub fn journaled() -> Self {
        Self(Arc::new(Mutex::new(Sectors { is_journaled: true, ..Sectors::default() })))
    }

    /// Makes writes and syncs fail from now on, or succeed again.
    pub fn set_failing(&self, failing: bool) {
        self.sectors().failing = failing;
    }

    /// Returns whether writes and syncs fail.
    pub fn is_failing(&self) -> bool {
        self.sectors().failing
    }

    /// Simulates a loss of power: of each unsynced sector `keeps` says whether it stays. The process that has
    /// the index open must have ended before.
    pub fn lose_power(&self, mut keeps: impl FnMut() -> bool) {
        let mut sectors = self.sectors();
        (sectors.marker, sectors.journal) = (None, None);
        let len = if keeps() { sectors.now.len() } else { sectors.synced.len() };
        let Sectors { now, synced, dirty, .. } = &mut *sectors;
        synced.resize(len, 0);
        now.resize(len, 0);
        for sector in std::mem::take(dirty) {
            let Some(range) = bytes_of(sector, len) else { continue };
            let (from, to) =
                if keeps() { (now.as_slice(), &mut *synced) } else { (synced.as_slice(), &mut *now) };
            to[range.clone()].copy_from_slice(&from[range]);
        }
    }

    /// Replaces the bytes by synced ones: an earlier [image](Memory::image), or what is no index.
    pub fn set_back(&self, image: &[u8]) {
        let mut sectors = self.sectors();
        sectors.now = image.to_vec();
        sectors.synced = image.to_vec();
        sectors.dirty.clear();
    }

    /// Returns a copy of the bytes as they are now.
    pub fn image(&self) -> Vec<u8> {
        self.sectors().now.clone()
    }

    /// Copies the bytes with marker and journal, as after a kill: a process that has the original open cannot
    /// write to the copy.
    pub fn parted(&self) -> Self {
        let Sectors { now, marker, journal, is_journaled, .. } = &*self.sectors();
        let copy = |words: &Arc<[AtomicU64]>| {
            words.iter().map(|word| AtomicU64::new(word.load(Ordering::SeqCst))).collect()
        };
        let journal = journal.as_ref().map(copy);
        let sectors = Sectors {
            now: now.clone(),
            synced: now.clone(),
            marker: *marker,
            journal,
            is_journaled: *is_journaled,
            ..Sectors::default()
        };
        Self(Arc::new(Mutex::new(sectors)))
    }

    fn sectors(&self) -> MutexGuard<'_, Sectors> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writable(&self) -> io::Result<MutexGuard<'_, Sectors>> {
        let sectors = self.sectors();
        if sectors.failing { Err(io::ErrorKind::StorageFull.into()) } else { Ok(sectors) }
    }
}

impl Storage for Memory {
    fn open(&self, builder: &Builder) -> Result<Database, Error> {
        Ok(builder.create_with_backend(self.clone())?)
    }

    fn set_aside(&self) -> Result<PathBuf, Error> {
        self.set_back(&[]);
        Ok(PathBuf::from("nowhere: it was in memory"))
    }

    fn take_marker(&self) -> Option<CleanShutdownMarker> {
        self.sectors().marker.take()
    }

    fn leave_marker(&self, marker: &CleanShutdownMarker) {
        self.sectors().marker = Some(*marker);
    }

    fn take_journal(&self) -> Option<RecoveredJournal> {
        let words = self.sectors().journal.take()?;
        Some(RecoveredJournal::of(words.iter().map(|word| word.load(Ordering::SeqCst)).collect()))
    }

    fn new_journal(&self, words_max: usize) -> Option<Box<dyn Words>> {
        let mut sectors = self.sectors();
        if !sectors.is_journaled {
            return None;
        }
        let words: Arc<[AtomicU64]> = (0..words_max.min(WORDS_MAX)).map(|_| AtomicU64::new(0)).collect();
        sectors.journal = Some(Arc::clone(&words));
        Some(Box::new(MemoryShared(words)))
    }

    fn remove_journal(&self) {
        self.sectors().journal = None;
    }
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.sectors().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let sectors = self.sectors();
        let from = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let part = sectors.now.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(part);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        self.writable()?.now.resize(len, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut sectors = self.writable()?;
        let Sectors { now, synced, dirty, .. } = &mut *sectors;
        synced.resize(now.len(), 0);
        for range in std::mem::take(dirty).into_iter().filter_map(|sector| bytes_of(sector, now.len())) {
            synced[range.clone()].copy_from_slice(&now[range]);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut sectors = self.writable()?;
        let from = usize::try_from(offset).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let part = sectors.now.get_mut(from..from + data.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        part.copy_from_slice(data);
        sectors.dirty.extend(from / SECTOR..(from + data.len()).div_ceil(SECTOR));
        Ok(())
    }
}

fn bytes_of(sector: usize, len: usize) -> Option<Range<usize>> {
    let from = sector * SECTOR;
    (from < len).then(|| from..len.min(from + SECTOR))
}

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;
/// Most words of a journal, as tests need them.
const WORDS_MAX: usize = 1 << 15;
