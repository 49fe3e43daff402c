//! Mounts beneath the directories that a lane watches. What is mounted over a directory hides it, and no watch tells of that: the
//! kernel says that some mount came or went (proc(5), `/proc/self/mountinfo`), and the list says which.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What is mounted, as it was when it was looked at last.
pub(super) struct Mounts {
    list: File,
    known: BTreeSet<Mount>,
    /// The uppermost directories that are watched, by their paths.
    tops: Vec<PathBuf>,
    /// There are more of them than are kept, or one without a path: every mount matters.
    all_matter: bool,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mount {
    /// Its number, that of the one it lies on, its device and what of that it shows.
    what: Vec<u8>,
    point: PathBuf,
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

    /// A directory is watched from now on.
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

    /// Whether something came or went beneath what is watched since this was asked last. What cannot be read may have changed.
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
        Ok(list.split(|&byte| byte == b'\n').filter_map(mount_of).collect())
    }
}

/// The mount that a line tells of.
fn mount_of(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').take(5).collect();
    let [.., point] = *fields.as_array::<5>()?;
    Some(Mount { what: fields[..4].join(&b' '), point: PathBuf::from(OsString::from_vec(unescaped(point))) })
}

/// A field without the octal numbers in place of blanks, line ends and backslashes.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|digits| digits.iter().all(|digit| matches!(digit, b'0'..=b'7')));
        let number =
            |digits: &[u8]| digits.iter().fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
        match digits.map(number).and_then(|number| u8::try_from(number).ok()) {
            Some(escaped) if byte == b'\\' => {
                plain.push(escaped);
                rest = &behind[3..];
            }
            _ => {
                plain.push(byte);
                rest = behind;
            }
        }
    }
    plain
}

/// More directories are watched one by one where volumes are many: then every mount matters.
const TOPS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_of_mounts_with_blanks_in_their_names() {
        let line =
            br"36 35 98:0 /mnt1 /srv/a\040b\134c rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = mount_of(line).unwrap();
        assert_eq!(mount.what, b"36 35 98:0 /mnt1");
        assert_eq!(mount.point, Path::new("/srv/a b\\c"));
        for line in [&b""[..], b"36 35 98:0 /", b"\n"] {
            assert_eq!(mount_of(line), None);
        }
        assert_eq!(unescaped(br"a\04\1344\777\0"), br"a\04\4\777\0");
    }

    #[test]
    fn mounts_matter_beneath_what_is_watched_alone() {
        let mut mounts = Mounts::new().unwrap();
        assert!(!mounts.have_changed());
        mounts.tops.push("/srv/tree".into());
        let mount = |point: &str| Mount { what: b"1 1 0:9 /".to_vec(), point: point.into() };
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
