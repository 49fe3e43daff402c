//! How far a transfer is, and what it moved in the end.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How far a transfer is, for who looks on from another thread; and the word to stop.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes moved.
    pub bytes: AtomicU64,
    /// Bytes that are known to be moved in all.
    pub bytes_wanted: AtomicU64,
    /// Files that are whole.
    pub files: AtomicU64,
    /// Set from outside: the transfer ends at its next step, and cleans up.
    pub stop: AtomicBool,
}

impl Progress {
    /// Bytes have moved.
    pub fn moved(self: &Arc<Self>) -> Rc<dyn Fn(u64)> {
        let progress = Arc::clone(self);
        Rc::new(move |bytes| {
            progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        })
    }

    /// So many bytes more are to be moved.
    pub fn want(&self, bytes: u64) {
        self.bytes_wanted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// One more file is whole.
    pub fn whole(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the word to stop was given.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What a tree had in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Directories, the first among them.
    pub directories: u64,
    /// Files.
    pub files: u64,
    /// Symbolic links.
    pub links: u64,
    /// What was left alone: mount points and reparse points; of a local tree, devices, sockets and pipes, and links where the
    /// server has none.
    pub skipped: u64,
    /// Bytes of files.
    pub bytes: u64,
}
