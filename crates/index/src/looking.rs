//! Reader of an index that writes nothing: the database's changes on opening, repair and closing stay in
//! memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, Builder, Database, StorageBackend};

use crate::storage::refuse_empty;
use crate::{CleanShutdownMarker, Error, FileStorage, RecoveredJournal, Storage, Words};

/// Index of a directory, for a reader: its file, and what was left in the machine's memory, stay as they are.
/// Several readers may look at once; a server keeps them out, and they keep a server out.
#[derive(Debug)]
pub struct Looking(FileStorage);

impl Looking {
    /// Makes the reader of this storage.
    pub fn at(storage: FileStorage) -> Self {
        Self(storage)
    }
}

impl Storage for Looking {
    fn open(&self, builder: &Builder) -> Result<Database, Error> {
        let path = self.0.path();
        let problem = |error: io::Error| Error::Storage(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(problem)?;
        let metadata = file.metadata().map_err(problem)?;
        refuse_empty(&metadata)?;
        let len = metadata.len();
        let written = Written { len, file_len: len, blocks: BTreeMap::new() };
        let overlay = Overlay { file: FileBackend::new(file)?, written: Mutex::new(written) };
        Ok(builder.create_with_backend(overlay)?)
    }

    fn set_aside(&self) -> Result<PathBuf, Error> {
        let error = io::ErrorKind::ReadOnlyFilesystem.into();
        Err(Error::Aside { path: self.0.path().to_owned(), error })
    }

    fn take_marker(&self) -> Option<CleanShutdownMarker> {
        self.0.in_memory().read_marker()
    }

    fn leave_marker(&self, _: &CleanShutdownMarker) {}

    fn take_journal(&self) -> Option<RecoveredJournal> {
        self.0.in_memory().read_journal()
    }

    fn new_journal(&self, _: usize) -> Option<Box<dyn Words>> {
        None
    }

    fn remove_journal(&self) {}
}

/// File that is only read, below the blocks that were written over it.
#[derive(Debug)]
struct Overlay {
    file: FileBackend,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    len: u64,
    /// Bytes of the file that still count; beyond, the file has none of its own.
    file_len: u64,
    /// Written blocks by number, each whole.
    blocks: BTreeMap<u64, Box<[u8]>>,
}

impl Overlay {
    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a block of the underlying file.
    fn below(&self, block: u64, file_len: u64) -> io::Result<Box<[u8]>> {
        let mut bytes = vec![0; BLOCK].into_boxed_slice();
        let from = block * BLOCK as u64;
        let len = file_len.saturating_sub(from).min(BLOCK as u64) as usize;
        if len > 0 {
            self.file.read(from, &mut bytes[..len])?;
        }
        Ok(bytes)
    }
}

/// Splits a range of bytes at blocks: block, first byte in the block, first byte in the range, length.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let (block, first) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
        let part = (block, first, done, (BLOCK - first).min(len - done));
        done += part.3;
        (part.3 > 0).then_some(part)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let written = self.written();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > written.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (block, first, at, len) in parts(offset, out.len()) {
            let part = &mut out[at..at + len];
            match written.blocks.get(&block) {
                Some(bytes) => part.copy_from_slice(&bytes[first..first + len]),
                None => part.copy_from_slice(&self.below(block, written.file_len)?[first..first + len]),
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written();
        (written.len, written.file_len) = (len, written.file_len.min(len));
        let last = len / BLOCK as u64;
        let mut beyond = written.blocks.split_off(&last);
        // Of the block in which it ends now the rest is zero, should it grow again.
        if let Some(mut bytes) = beyond.remove(&last) {
            bytes[(len % BLOCK as u64) as usize..].fill(0);
            written.blocks.insert(last, bytes);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut written = self.written();
        for (block, first, at, len) in parts(offset, data.len()) {
            if !written.blocks.contains_key(&block) {
                let below = self.below(block, written.file_len)?;
                written.blocks.insert(block, below);
            }
            if let Some(bytes) = written.blocks.get_mut(&block) {
                bytes[first..first + len].copy_from_slice(&data[at..at + len]);
            }
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    // A server's lock keeps all others out. A reader's lock keeps servers out and no other reader.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

const BLOCK: usize = 4_096;

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn what_is_written_over_a_file_reads_as_in_a_file_and_leaves_it_as_it_was() {
        for seed in 0..200 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            let mut model = vec![0; rng.random_range(0..4 * BLOCK)];
            rng.fill(&mut model[..]);
            std::fs::write(&path, &model).unwrap();
            let before = model.clone();
            let len = model.len() as u64;
            let written = Mutex::new(Written { len, file_len: len, blocks: BTreeMap::new() });
            let overlay = Overlay { file: FileBackend::new(File::open(&path).unwrap()).unwrap(), written };
            for _ in 0..50 {
                let from = rng.random_range(0..=model.len());
                let mut part = vec![0; rng.random_range(0..=model.len() - from)];
                match rng.random_range(0..4) {
                    0 => {
                        let len = rng.random_range(0..5 * BLOCK);
                        model.resize(len, 0);
                        overlay.set_len(len as u64).unwrap();
                    }
                    1 => {
                        rng.fill(&mut part[..]);
                        model[from..from + part.len()].copy_from_slice(&part);
                        overlay.write(from as u64, &part).unwrap();
                    }
                    _ => {
                        overlay.read(from as u64, &mut part).unwrap();
                        assert_eq!(part, model[from..from + part.len()], "seed {seed}");
                    }
                }
                assert_eq!(overlay.len().unwrap(), model.len() as u64);
            }
            assert!(overlay.read(model.len() as u64, &mut [0]).is_err());
            assert_eq!(std::fs::read(&path).unwrap(), before, "seed {seed}");
        }
    }
}
