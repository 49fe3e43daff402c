//! Mounts beneath the directories that a lane watches. What is mounted over a directory hides it, and no
//! watch tells of that: the kernel says that some mount came or went (proc(5), `/proc/self/mountinfo`), and
//! the list says which.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use crate::mountinfo::Mount;

/// Mounts at the last look.
pub(super) struct Mounts {
    list: File,
    known: BTreeSet<Mount>,
    /// Paths of the uppermost directories that are watched.
    tops: Vec<PathBuf>,
    /// True if there are more mounts than are kept, or one without a path: every mount matters.
    all_matter: bool,
}

impl Mounts {
    pub(super) fn new() -> io::Result<Self> {
        let list = File::open("/proc/self/mountinfo")?;
        let mut mounts = Self { list, known: BTreeSet::new(), tops: Vec::new(), all_matter: false };
        mounts.known = mounts.read()?;
        Ok(mounts)
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.list.as_raw_fd()
    }

    /// Notes that a directory is watched from now on.
    pub(super) fn note(&mut self, dir: BorrowedFd<'_>) {
        if self.all_matter {
            return;
        }
        match std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())) {
            Ok(path) if self.is_beneath_top(&path) => {}
            Ok(path) if self.tops.len() < TOPS_MAX => self.tops.push(path),
            _ => self.all_matter = true,
        }
    }

    /// Returns whether a mount came or went beneath a watched directory since the last call. A list that
    /// cannot be read may have changed.
    pub(super) fn have_changed(&mut self) -> bool {
        let Ok(now) = self.read() else { return true };
        let before = std::mem::replace(&mut self.known, now);
        let mut changed = self.known.symmetric_difference(&before);
        changed.any(|mount| self.all_matter || self.is_beneath_top(&mount.point))
    }

    fn is_beneath_top(&self, path: &Path) -> bool {
        self.tops.iter().any(|top| path.starts_with(top))
    }

    fn read(&mut self) -> io::Result<BTreeSet<Mount>> {
        let mut list = Vec::new();
        self.list.rewind()?;
        self.list.read_to_end(&mut list)?;
        Ok(Mount::all_in(&list).collect())
    }
}

/// Most directories kept by path; with more, as where volumes are many, every mount matters.
const TOPS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_matter_beneath_what_is_watched_alone() {
        let mut mounts = Mounts::new().unwrap();
        assert!(!mounts.have_changed());
        mounts.tops.push("/srv/tree".into());
        let mount = |point: &str| Mount {
            number: 1,
            above: 1,
            device: "0:9".to_owned(),
            root: "/".into(),
            point: point.into(),
        };
        for (point, matters) in [
            ("/srv/tree", true),
            ("/srv/tree/a/b", true),
            ("/srv/treehouse", false),
            ("/srv", false),
            ("/var/lib/layers/1", false),
        ] {
            mounts.known.insert(mount(point));
            assert_eq!(mounts.have_changed(), matters, "{point} has gone");
            assert!(!mounts.have_changed());
        }
        mounts.all_matter = true;
        mounts.known.insert(mount("/var/lib/layers/1"));
        assert!(mounts.have_changed());
    }
}
