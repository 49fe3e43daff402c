//! Sources of interface text: the file system, or anything a test puts in its place.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Source that finds and reads interface files.
pub trait Loader {
    /// Reads the file `name`. `including` is the path of the file whose `#include` names it, or `None` for a file that
    /// the caller names. Returns the path to show in messages, which also decides whether two includes mean one file,
    /// and the text.
    fn load(&mut self, name: &str, including: Option<&str>) -> io::Result<(String, String)>;
}

/// File system as a source, with the files that were read.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Directories to search in order, after the including file's own.
    pub(crate) include_directories: Vec<PathBuf>,
    /// Paths of all files that were read.
    pub(crate) read: BTreeSet<PathBuf>,
}

impl Loader for Files {
    fn load(&mut self, name: &str, including: Option<&str>) -> io::Result<(String, String)> {
        let mut candidates = Vec::new();
        match including {
            None => candidates.push(PathBuf::from(name)),
            Some(path) => {
                candidates.push(Path::new(path).parent().unwrap_or(Path::new("")).join(name));
                candidates.extend(self.include_directories.iter().map(|directory| directory.join(name)));
            }
        }
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such file in any include directory");
        let path = candidates.into_iter().find(|path| path.is_file()).ok_or_else(missing)?;
        let bytes = std::fs::read(&path)?;
        let shown = path.display().to_string();
        self.read.insert(path);
        // Old interface files hold Latin-1 in comments; nothing else of them needs to be more than ASCII.
        Ok((shown, String::from_utf8_lossy(&bytes).into_owned()))
    }
}
