//! Security descriptors that lie in the trees, as those of a share of Samba's that moved here: which of them
//! cannot be read.

use std::ffi::CStr;
use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lane::probe::{Area, Finding, Verdict};
use rustix::fs::lgetxattr;
use rustix::io::Errno;
use smb_sid::ntacl;

use crate::acl::Attribute;
use crate::output::counted;

/// Findings beneath one directory.
#[derive(Debug, Default)]
struct DescriptorCounts {
    names: usize,
    /// Number of files that have a descriptor.
    described: usize,
    /// Number of descriptors that cannot be read, and the first, with why.
    unreadable: usize,
    first: Option<(PathBuf, String)>,
}

/// Returns what descriptors a directory holds, of the names that are nearest to it. `None` where it cannot be
/// looked at.
pub(super) fn of(dir: &Path) -> Option<Finding> {
    let attribute = attribute(dir);
    let seen = look(dir, attribute)?;
    let few = if seen.names == NAMES_MAX { "the first " } else { "" };
    let names = counted(seen.names as u64, "name", "names");
    let found = match seen.unreadable {
        0 => format!("{} in {few}{names}", seen.described),
        count => format!("{count} of {} in {few}{names} cannot be read", seen.described),
    };
    let (mut verdict, mut advice, mut commands) = (Verdict::Good, None, Vec::new());
    if let Some((path, why)) = seen.first {
        verdict = Verdict::Warn;
        advice = Some(format!(
            "{}: {why}. Nobody gets at what has such a descriptor but administrators, by whatever protocol: one of them sets another by \
             SMB, or take it away, so that the list or the mode counts again. `linerate volume check` finds all of them",
            path.display()
        ));
        let path = path.display().to_string().replace('\'', r"'\''");
        commands.push(format!("setfattr -x {} '{path}'", attribute.to_string_lossy()));
    }
    let name = format!("{} descriptors", dir.display());
    let wanted = "readable".to_owned();
    Some(Finding { area: Area::Trees, name, found, wanted, verdict, advice, commands, config: None })
}

/// Returns the attribute where the volume has them, or a server that this user runs.
fn attribute(dir: &Path) -> &'static CStr {
    Attribute::of(server::lists::marked_above(dir).ok().flatten().as_ref()).descriptor()
}

/// Goes from the directory downwards, on its own file system, level by level.
fn look(dir: &Path, attribute: &CStr) -> Option<DescriptorCounts> {
    let device = std::fs::metadata(dir).ok()?.dev();
    let mut seen = DescriptorCounts::default();
    let mut value = vec![0; ntacl::BYTES_MAX];
    let mut level = vec![dir.to_owned()];
    seen.note(dir, attribute, &mut value);
    while !level.is_empty() && seen.names < NAMES_MAX {
        let mut below = Vec::new();
        for entry in level.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten() {
            if seen.names == NAMES_MAX {
                break;
            }
            seen.names += 1;
            let path = entry.path();
            seen.note(&path, attribute, &mut value);
            if is_directory_on(&entry, device) {
                below.push(path);
            }
        }
        level = below;
    }
    Some(seen)
}

fn is_directory_on(entry: &DirEntry, device: u64) -> bool {
    entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.dev() == device)
}

impl DescriptorCounts {
    fn note(&mut self, path: &Path, attribute: &CStr, value: &mut [u8]) {
        let why = match lgetxattr(path, attribute, &mut *value) {
            Ok(len) => ntacl::parse(&value[..len]).err().map(|why| why.to_string()),
            // It has none, can have none, or is gone.
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::NOENT | Errno::ACCESS) => return,
            Err(error) => Some(error.to_string()),
        };
        self.described += 1;
        if let Some(why) = why {
            self.unreadable += 1;
            self.first.get_or_insert_with(|| (path.to_owned(), why));
        }
    }
}

/// Names that are looked at in one directory that is served.
const NAMES_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use rustix::fs::{XattrFlags, setxattr};
    use smb_wire::info::security::Descriptor;

    use super::*;

    #[test]
    fn a_damaged_descriptor_is_told_with_its_name_and_what_takes_it_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("sub")).unwrap();
        for name in ["none", "good", "sub/it's damaged"] {
            std::fs::write(path(name), "").unwrap();
        }
        let good = ntacl::encode(&Descriptor { dacl: Some(Vec::new()), ..Descriptor::default() }).unwrap();
        for (name, value) in [("good", &good[..]), ("sub/it's damaged", &[9, 0, 9, 0, 1])] {
            if setxattr(path(name), attribute(dir.path()), value, XattrFlags::empty())
                == Err(Errno::OPNOTSUPP)
            {
                return testkit::skip("the file system of temporary files keeps no extended attributes");
            }
        }
        let finding = of(dir.path()).unwrap();
        assert_eq!(finding.found, "1 of 2 in 4 names cannot be read");
        assert_eq!(finding.verdict, Verdict::Warn);
        let advice = finding.advice.unwrap();
        assert!(
            advice.contains("version 9, which is not known") && advice.contains("Nobody gets at"),
            "{advice}"
        );
        assert!(finding.commands[0].ends_with(r"/sub/it'\''s damaged'"), "{:?}", finding.commands);
        std::fs::remove_dir_all(path("sub")).unwrap();
        let finding = of(dir.path()).unwrap();
        assert_eq!((finding.verdict, &*finding.found), (Verdict::Good, "1 in 2 names"));
        assert!(of(&path("nothing")).is_none());
    }
}
