//! Check whether two logs would go to one file, by any paths.

use std::fs::Metadata;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::overlap::or_here;

/// Returns whether both paths lead to one file, FIFO, socket or stream; sinks such as `/dev/null` do not
/// count.
pub(crate) fn is_one(one: &Path, other: &Path) -> bool {
    let stdout = Path::new("-");
    if one == stdout && other == stdout {
        return true;
    }
    let id = |found: Metadata| (found.dev(), found.ino());
    let of = |path: &Path| match path == stdout {
        true => metadata_of_stdout().ok().map(id),
        false => std::fs::metadata(path).ok().map(id),
    };
    match (of(one), of(other)) {
        (Some(one), Some(other)) => one == other && of(Path::new("/dev/null")) != Some(one),
        (None, None) => {
            let (one, other) = (real(one), real(other));
            // A directory that is mounted in two places has two paths.
            let above = |path: &Path| Some(id(std::fs::metadata(or_here(path.parent()?)).ok()?));
            let is_one_directory = || above(&one).is_some_and(|one| above(&other) == Some(one));
            one == other || (one.file_name() == other.file_name() && is_one_directory())
        }
        _ => false,
    }
}

fn metadata_of_stdout() -> io::Result<Metadata> {
    std::fs::File::from(io::stdout().as_fd().try_clone_to_owned()?).metadata()
}

/// Returns the path at which a file that does not exist would be made: behind the symbolic links that lead to
/// it.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    let above = or_here(path.parent().unwrap_or(Path::new("")));
    let above = above.canonicalize().unwrap_or_else(|_| above.to_owned());
    path.file_name().map(|name| above.join(name)).unwrap_or(path)
}

/// Most symbolic links that are followed (path_resolution(7)).
const LINKS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn one_file_is_known_by_every_path_to_it_whether_it_is_there_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("below")).unwrap();
        symlink("a.log", at("link")).unwrap();
        symlink("below/../link", at("links")).unwrap();
        symlink("below", at("directory")).unwrap();
        symlink("loop", at("loop")).unwrap();
        for is_there in [false, true] {
            for other in ["a.log", "./a.log", "below/../a.log", "link", "links", "directory/../a.log"] {
                assert!(is_one(&at("a.log"), &at(other)), "{other}, there: {is_there}");
            }
            for other in ["b.log", "below/a.log", "directory/a.log", "none/a.log", "loop", "-"] {
                assert!(!is_one(&at("a.log"), &at(other)), "{other}, there: {is_there}");
            }
            std::fs::write(at("a.log"), "").unwrap();
        }
        std::fs::hard_link(at("a.log"), at("b.log")).unwrap();
        assert!(is_one(&at("a.log"), &at("b.log")));
        assert!(is_one(Path::new("-"), Path::new("-")));
        assert!(!is_one(Path::new("/dev/null"), Path::new("/dev/null")));
        let is_null = metadata_of_stdout().unwrap().rdev() == std::fs::metadata("/dev/null").unwrap().rdev();
        assert_eq!(is_one(Path::new("-"), Path::new("/dev/stdout")), !is_null);
    }
}
