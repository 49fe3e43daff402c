//! Limit on files that are open for their locks alone: each takes a descriptor.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use budget::{Books, Consumer, Shares};
use grants::Refused;

/// The places of a process for files with local locks.
#[derive(Clone)]
pub(crate) struct LocalLockFiles(Arc<Mutex<Books>>);

/// A place, until this is dropped.
pub(super) struct LocalLockFile {
    places: LocalLockFiles,
    /// The client that locked the file first.
    consumer: Consumer,
}

impl LocalLockFiles {
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(Mutex::new(Books::new(max, Shares::ONCE))))
    }

    /// Takes a place for a file that a client locks. Its address and user have no more than they leave, so
    /// that the next client always finds some.
    ///
    /// # Errors
    /// [`Refused::TooMany`].
    pub(super) fn take(&self, consumer: Consumer) -> Result<LocalLockFile, Refused> {
        self.books().take(consumer, 1).map_err(|_| Refused::TooMany)?;
        Ok(LocalLockFile { places: self.clone(), consumer })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LocalLockFile {
    fn drop(&mut self) {
        self.places.books().give_back(self.consumer, 1);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;

    fn take_all(places: &LocalLockFiles, crowd: &[IpAddr]) -> Vec<LocalLockFile> {
        crowd.iter().filter_map(|address| places.take((*address).into()).ok()).collect()
    }

    #[test]
    fn who_locks_many_files_leaves_as_many_to_others() {
        let places = LocalLockFiles::new(8);
        let take = |last| take_all(&places, &[IpAddr::from([192, 0, 2, last]); 8]);
        let first = take(1);
        assert_eq!(first.len(), 4);
        let second = take(2);
        assert_eq!(second.len(), 2);
        assert_eq!(take(3).len(), 1);
        drop(first);
        assert_eq!(take(3).len(), 3);
        drop(second);
        assert!(places.books().is_empty());
    }

    #[test]
    fn who_has_many_addresses_leaves_some_to_others() {
        for (step, share) in [(1, 40), (256, 45)] {
            let places = LocalLockFiles::new(60);
            let v6 = |n: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | (n * step) << 64 | 1));
            let held = take_all(&places, &(0..100).map(v6).collect::<Vec<_>>());
            assert_eq!(held.len(), share);
            assert!(places.take(IpAddr::from([192, 0, 2, 1]).into()).is_ok());
        }
    }
}
