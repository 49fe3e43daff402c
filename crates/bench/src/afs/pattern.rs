//! What a load stores: bytes that say where they are, without being made anew.

use std::cell::Cell;
use std::ffi::{CString, OsStr};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use afs_client::Error;
use afs_client::fetch::Sink;
use afs_client::store::Source;
use aws_lc_rs::digest::{Context, SHA256};
use lane::buffer::Buf;
use lane::fs::{Dir, File, OpenHow};
use rx_lane::{Held, Rooms};

/// Bytes of a file of the load; another's are others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    pub(super) seed: u64,
}

impl Pattern {
    fn at(self, offset: u64) -> usize {
        ((offset + self.seed * 7919) % TABLE.len() as u64) as usize
    }

    fn fill(self, offset: u64, room: &mut [u8]) {
        let mut at = self.at(offset);
        let mut room = room;
        while !room.is_empty() {
            let part = &TABLE[at..(at + room.len()).min(TABLE.len())];
            let (now, rest) = room.split_at_mut(part.len());
            now.copy_from_slice(part);
            (room, at) = (rest, 0);
        }
    }

    fn is(self, offset: u64, bytes: &[u8]) -> bool {
        let mut at = self.at(offset);
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let part = &TABLE[at..(at + bytes.len()).min(TABLE.len())];
            let (now, rest) = bytes.split_at(part.len());
            if now != part {
                return false;
            }
            (bytes, at) = (rest, 0);
        }
        true
    }
}

/// The bytes of [`Pattern`] 0 in a local file, from which they go over TCP as they lie. It goes with this value.
#[derive(Debug)]
pub(super) struct PatternFile {
    path: PathBuf,
}

impl PatternFile {
    /// In the directory for temporary files.
    pub(super) fn make(len: u64) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("linerate-bench-{}-{number}", std::process::id());
        let made = Self { path: std::env::temp_dir().join(name) };
        let mut file = std::fs::File::create_new(&made.path)?;
        let mut piece = vec![0; PIECE];
        for offset in (0..len).step_by(PIECE) {
            let piece = &mut piece[..PIECE.min((len - offset) as usize)];
            Pattern { seed: 0 }.fill(offset, piece);
            file.write_all(piece)?;
        }
        Ok(made)
    }

    /// For the current lane.
    pub(super) async fn open(&self) -> io::Result<File> {
        let (dir, name) = (self.path.parent(), self.path.file_name().map(OsStr::as_bytes));
        let name = CString::new(name.unwrap_or_default())?;
        Dir::open_root(dir.unwrap_or(Path::new("/")))?.open(&name, OpenHow::NO_SYMLINKS).await
    }
}

impl Drop for PatternFile {
    fn drop(&mut self) {
        // It is not there if it could not be made.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What is stored: made as it goes, or out of a file of the same bytes.
pub(super) struct Stored<'f> {
    pub(super) pattern: Pattern,
    pub(super) file: Option<&'f File>,
}

impl Source for Stored<'_> {
    async fn fill(&self, offset: u64, rooms: &mut Rooms) -> Result<usize, Error> {
        let mut filled = 0;
        for room in rooms.slices_mut() {
            self.pattern.fill(offset + filled as u64, room);
            filled += room.len();
        }
        Ok(filled)
    }

    fn file(&self) -> Result<Option<&File>, Error> {
        Ok(self.file)
    }
}

/// Counts what comes, and looks at it.
pub(super) struct Check<'c> {
    /// All bytes so far, those of calls that are cut off among them.
    pub(super) came: &'c Cell<u64>,
    pub(super) against: Against,
}

/// What bytes are compared with.
pub(super) enum Against {
    Nothing,
    Pattern(Pattern, Cell<bool>),
    Sum(Cell<Option<Context>>),
}

impl Against {
    /// To be summed up.
    pub(super) fn sum() -> Self {
        Self::Sum(Cell::new(Some(Context::new(&SHA256))))
    }
}

impl Sink for Check<'_> {
    async fn take(&self, offset: u64, bytes: Held) -> Result<(), Error> {
        self.check(offset, bytes.slices());
        Ok(())
    }

    async fn take_bytes(&self, offset: u64, bytes: Buf) -> Result<(), Error> {
        self.check(offset, std::iter::once(&*bytes));
        Ok(())
    }
}

impl Check<'_> {
    fn check<'b>(&self, offset: u64, slices: impl Iterator<Item = &'b [u8]>) {
        let slices = slices.inspect(|slice| self.came.set(self.came.get() + slice.len() as u64));
        match &self.against {
            Against::Nothing => slices.for_each(drop),
            Against::Pattern(pattern, differ) => {
                let mut at = offset;
                for slice in slices {
                    differ.set(differ.get() || !pattern.is(at, slice));
                    at += slice.len() as u64;
                }
            }
            Against::Sum(context) => {
                let mut sum = context.take();
                slices.for_each(|slice| {
                    if let Some(sum) = &mut sum {
                        sum.update(slice);
                    }
                });
                context.set(sum);
            }
        }
    }
}

/// Bytes of a file that are made at a time.
const PIECE: usize = 1 << 20;

/// A prime number of bytes, so that pieces of usual lengths begin elsewhere each.
static TABLE: [u8; 65_521] = table();

const fn table() -> [u8; 65_521] {
    let mut bytes = [0; 65_521];
    let (mut at, mut state) = (0, 1u64);
    while at < bytes.len() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes[at] = (state >> 56) as u8;
        at += 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_told_from_the_same_bytes_elsewhere() {
        let pattern = Pattern { seed: 3 };
        let mut bytes = vec![0; 200_000];
        pattern.fill(70_000, &mut bytes);
        assert!(pattern.is(70_000, &bytes) && pattern.is(70_123, &bytes[123..]));
        assert!(!pattern.is(70_001, &bytes) && !Pattern { seed: 4 }.is(70_000, &bytes));
        bytes[199_999] ^= 1;
        assert!(!pattern.is(70_000, &bytes));
    }
}
