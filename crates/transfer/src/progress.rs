//! Progress of a transfer, and its result.

use std::ffi::CStr;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Error of a transfer, with the word whether it ends all others.
pub trait EndsAll: Display {
    /// Returns whether nothing else can be moved either, as when the server does not answer.
    fn ends_all(&self) -> bool;
}

/// Returns the path of `name` in the local directory `path`.
pub fn below(path: &CStr, name: &[u8]) -> Vec<u8> {
    [path.to_bytes(), b"/", name].concat()
}

/// Progress of a transfer for display by another thread, with the request to stop.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes moved so far.
    pub bytes: AtomicU64,
    /// Bytes that the transfer is known to move in all.
    pub bytes_wanted: AtomicU64,
    /// Files that are whole.
    pub files: AtomicU64,
    /// Request from another thread to stop: the transfer ends at its next step, and cleans up.
    pub stop: AtomicBool,
    /// Files that did not move, each with its reason.
    failures: Mutex<Vec<String>>,
}

impl Progress {
    /// Returns a function that adds moved bytes to the progress.
    pub fn moved(self: &Arc<Self>) -> Rc<dyn Fn(u64)> {
        let progress = Arc::clone(self);
        Rc::new(move |bytes| {
            progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        })
    }

    /// Adds `bytes` to those that the transfer is known to move in all.
    pub fn want(&self, bytes: u64) {
        self.bytes_wanted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts one more whole file.
    pub fn whole(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes a file or directory that did not move, and its reason, while others go on.
    pub fn failed(&self, path: &[u8], reason: &dyn Display) {
        let (path, reason) = (String::from_utf8_lossy(path), reason.to_string());
        let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
        // Some reasons begin with the name.
        let of_name = |name: &str| reason.strip_prefix(name)?.strip_prefix(": ");
        let reason = of_name(&path).or_else(|| of_name(name)).unwrap_or(&reason);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.push(format!("{path}: {reason}"));
    }

    /// Takes the result of one file or directory among others: `None` for a failure, whose reason is kept.
    ///
    /// # Errors
    /// What would make all others fail as well.
    pub fn or_failed<T, E: EndsAll>(&self, path: &[u8], result: Result<T, E>) -> Result<Option<T>, E> {
        match result {
            Err(error) if !error.ends_all() => {
                self.failed(path, &error);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Takes the failures noted since the last call, each with its reason.
    pub fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut *self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether a request to stop was made.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Counts of a moved tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Directories, the topmost included.
    pub directories: u64,
    /// Regular files that were moved.
    pub files: u64,
    /// Symbolic links that were moved.
    pub links: u64,
    /// Files that were left out: mount points and reparse points; in a local tree devices, sockets, pipes,
    /// and links where the server has none.
    pub skipped: u64,
    /// Files that failed, not counted in the other fields.
    pub failed: u64,
    /// Bytes of the moved files.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_named_once() {
        let progress = Progress::default();
        progress.failed(b"d/f", &"f: no room");
        progress.failed(b"d\\f", &"d\\f: no room");
        progress.failed(b"d/f", &"no room");
        assert_eq!(progress.take_failures(), ["d/f: no room", "d\\f: no room", "d/f: no room"]);
        assert!(progress.take_failures().is_empty());
    }
}
