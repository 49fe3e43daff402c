//! Access lists that nobody goes by: an operator who has set one believes that it counts.

use std::fs::{self, File};
use std::path::Path;

use identity::{ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED, Writable};
use rustix::io::Errno;
use service::volumes::VolumeSection;

/// A warning for each volume whose directory, or one directly in it, has an access list. Volumes that nobody may write to
/// have none: everybody reads in them what the server can.
pub(crate) fn warnings(volumes: &[VolumeSection]) -> Vec<String> {
    let read_only = |volume: &&VolumeSection| volume.writable == Writable::Nobody;
    let of = |volume: &VolumeSection| {
        let list = with_list(&volume.path)?;
        Some(format!(
            "volume {}: {list} has an access list, which does not count: the volume is read-only, and everybody reads what \
             the server can; take out of it what not everybody is to see, or the list (linerate acl set --inherit)",
            volume.name
        ))
    };
    volumes.iter().filter(read_only).filter_map(of).collect()
}

/// The first directory with a list, of `root` and the first few directories in it.
fn with_list(root: &Path) -> Option<String> {
    let below = fs::read_dir(root).into_iter().flatten().take(LOOKED_AT_MAX).flatten();
    let below =
        below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path());
    let mut all = std::iter::once(root.to_owned()).chain(below);
    all.find(|directory| has_list(directory)).map(|directory| directory.display().to_string())
}

fn has_list(directory: &Path) -> bool {
    let Ok(directory) = File::open(directory) else { return false };
    [ATTRIBUTE_PRIVILEGED, ATTRIBUTE_UNPRIVILEGED].into_iter().any(|name| {
        // Of a longer value the file system tells that it is longer.
        matches!(rustix::fs::fgetxattr(&directory, name, &mut [0; 1]), Ok(_) | Err(Errno::RANGE))
    })
}

/// Entries of a volume's directory: a start should not take long over it.
const LOOKED_AT_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use rustix::fs::{XattrFlags, fsetxattr};

    use super::*;

    fn volume(path: &Path) -> VolumeSection {
        VolumeSection::new("pub".parse().unwrap(), path.to_owned())
    }

    #[test]
    fn a_list_that_does_not_count_is_told_wherever_it_lies_on_top() {
        // Beside the test itself: the temporary directory's file system may keep no attributes.
        let beside = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(beside.parent().unwrap()).unwrap();
        let below = dir.path().join("below");
        fs::create_dir(&below).unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        assert_eq!(warnings(&[volume(dir.path())]), [""; 0]);
        for directory in [&below, dir.path()] {
            let file = File::open(directory).unwrap();
            fsetxattr(file, ATTRIBUTE_UNPRIVILEGED, b"L\x01\0\0", XattrFlags::empty()).unwrap();
            let told = warnings(&[volume(Path::new("/nowhere")), volume(dir.path())]);
            let wanted =
                format!("volume pub: {} has an access list, which does not count", directory.display());
            assert!(told.len() == 1 && told[0].starts_with(&wanted), "{told:?}");
            let counts = VolumeSection { writable: Writable::AsListed, ..volume(dir.path()) };
            assert_eq!(warnings(&[counts]), [""; 0], "it is gone by there");
        }
    }
}
