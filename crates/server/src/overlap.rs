//! Check whether directories lie one inside the other, so that a file would be in both.
//!
//! Overlaps are by name, by symbolic link, or because a directory is mounted in several places (bind mounts).
//! A directory is where it lies in its file system, whatever mount leads there, and so is all that is mounted
//! beneath it: `/proc/self/mountinfo` (proc(5)) says which part of which file system is mounted where.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lane::mountinfo::Mount;

/// Table of mounted directories.
pub(crate) struct MountedDirectories {
    /// Mounted directories by mount point; the last one mounted there counts.
    mounts: BTreeMap<PathBuf, MountedDirectory>,
}

/// Directory in a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountedDirectory {
    /// Major and minor number of the device.
    device: String,
    /// Path from the file system's own root.
    path: PathBuf,
}

impl MountedDirectories {
    /// Reads the present mounts. Without them only names are compared.
    pub(crate) fn now() -> Self {
        Self::of(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    fn of(mountinfo: &[u8]) -> Self {
        let place = |mount: Mount| (mount.point, MountedDirectory { device: mount.device, path: mount.root });
        let mut mounts: BTreeMap<_, _> = Mount::all_in(mountinfo).map(place).collect();
        mounts
            .entry("/".into())
            .or_insert_with(|| MountedDirectory { device: String::new(), path: "/".into() });
        Self { mounts }
    }

    /// Returns whether two directories are the same, or one lies inside the other.
    pub(crate) fn overlap(&self, one: &Path, other: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.overlap_of_real(&real(one), &real(other))
    }

    /// Returns whether a path, existing or not, lies in a directory by its name or by its target.
    pub(crate) fn holds(&self, directory: &Path, thing: &Path) -> bool {
        let Ok(directory) = directory.canonicalize() else { return false };
        let by_name = thing.ancestors().skip(1).find_map(|above| {
            let rest = thing.strip_prefix(above).expect("it is above");
            Some(or_here(above).canonicalize().ok()?.join(rest))
        });
        let real = [by_name, thing.canonicalize().ok()];
        real.iter().flatten().any(|real| self.is_inside(real, &directory))
    }

    fn overlap_of_real(&self, one: &Path, other: &Path) -> bool {
        self.is_inside(one, other) || self.is_inside(other, one)
    }

    /// Returns whether `inner` is part of what `outer` has beneath it.
    fn is_inside(&self, inner: &Path, outer: &Path) -> bool {
        let inner = self.place(inner);
        let mounted =
            self.mounts.iter().filter(|(point, _)| point.starts_with(outer)).map(|(_, place)| place);
        let outer = self.place(outer);
        std::iter::once(&outer).chain(mounted).any(|outer| inner.is_beneath(outer))
    }

    fn place(&self, path: &Path) -> MountedDirectory {
        let mounts = self.mounts.iter().filter(|(point, _)| path.starts_with(point));
        let (point, place) = mounts.max_by_key(|(point, _)| point.components().count()).expect("/ is one");
        let below = path.strip_prefix(point).expect("it is beneath");
        // Without a slash at the end, which a path that is joined with nothing has.
        let path = if below.as_os_str().is_empty() { place.path.clone() } else { place.path.join(below) };
        MountedDirectory { device: place.device.clone(), path }
    }
}

/// Returns the path, or `.` for an empty one.
pub(crate) fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

impl MountedDirectory {
    fn is_beneath(&self, upper: &Self) -> bool {
        self.device == upper.device && self.path.starts_with(&upper.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        30 21 8:2 / /srv rw - xfs /dev/sdb rw\n\
        31 21 8:2 /home/anne /mnt/anne\\040s rw - xfs /dev/sdb rw\n\
        32 30 0:40 / /srv/tmp rw - tmpfs tmpfs rw\n\
        33 21 8:2 /data /data rw - xfs /dev/sdb rw\n";

    fn overlap(one: &str, other: &str) -> bool {
        let places = MountedDirectories::of(MOUNTS.as_bytes());
        let overlap = places.overlap_of_real(Path::new(one), Path::new(other));
        assert_eq!(overlap, places.overlap_of_real(Path::new(other), Path::new(one)));
        overlap
    }

    #[test]
    fn directories_overlap_by_name_and_by_what_is_mounted() {
        assert!(overlap("/srv/home", "/srv/home"));
        assert!(overlap("/srv/home", "/srv/home/anne"));
        assert!(!overlap("/srv/home", "/srv/homes"));
        assert!(overlap("/", "/srv/tmp/x"), "what is mounted beneath is part of it");
        assert!(overlap("/srv", "/srv/tmp"));
        assert!(!overlap("/srv/home", "/srv/tmp"));
        assert!(overlap("/srv/home", "/mnt/anne s"), "the same directory under another name");
        assert!(overlap("/srv/home/anne/x", "/mnt/anne s"));
        assert!(!overlap("/srv/home/bob", "/mnt/anne s"));
        assert!(overlap("/mnt", "/srv/home/anne/x"), "mounted beneath the one, and inside the other");
        assert!(overlap("/data/x", "/srv"), "mounted apart, and inside of it all the same");
        assert!(!overlap("/data", "/mnt"));
        assert!(!overlap("/etc", "/srv"));
    }

    #[test]
    fn without_a_list_of_mounts_names_count() {
        let places = MountedDirectories::of(b"");
        assert!(places.overlap_of_real(Path::new("/a"), Path::new("/a/b")));
        assert!(!places.overlap_of_real(Path::new("/a"), Path::new("/ab")));
    }

    #[test]
    fn symbolic_links_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("tree/below")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("tree/below"), dir.path().join("link")).unwrap();
        let places = MountedDirectories::now();
        assert!(places.overlap(&dir.path().join("link"), &dir.path().join("tree")));
        assert!(!places.overlap(&dir.path().join("link"), &dir.path().join("tree/other")));
    }
}
