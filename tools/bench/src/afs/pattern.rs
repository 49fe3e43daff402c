//! Bytes that a load stores and fetches, as Rx's calls take and give it.

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
use rx_lane::{Held, PacketBuffers};

use crate::pattern::Pattern;

/// The bytes of [`Pattern`] 0 in a local file, from which they go over TCP as they lie. It goes with this value.
#[derive(Debug)]
pub(super) struct PatternFile {
    path: PathBuf,
}

impl PatternFile {
    /// Makes the file in the directory for temporary files.
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

    /// Opens the file for the current lane.
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

/// Bytes that are stored: made as it goes, or out of a file of the same bytes.
pub(super) struct Stored<'f> {
    pub(super) pattern: Pattern,
    pub(super) file: Option<&'f File>,
}

impl Source for Stored<'_> {
    async fn fill(&self, offset: u64, packet_buffers: &mut PacketBuffers) -> Result<usize, Error> {
        let mut filled = 0;
        for room in packet_buffers.slices_mut() {
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

/// Pattern that bytes are compared with.
pub(super) enum Against {
    Nothing,
    Pattern(Pattern, Cell<bool>),
    Sum(Cell<Option<Context>>),
}

impl Against {
    /// Begins a sum of the bytes.
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

    fn is_in_order(&self) -> bool {
        matches!(self.against, Against::Sum(_))
    }
}

impl Check<'_> {
    pub(super) fn check<'b>(&self, offset: u64, slices: impl Iterator<Item = &'b [u8]>) {
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
