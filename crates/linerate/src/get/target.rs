//! Targets of fetched files: the name of a file, which is there once it is whole, or a device, pipe or
//! socket, which is written to.

use std::ffi::{CString, OsStr};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Target of a fetched file.
#[derive(Debug)]
pub(super) struct Target {
    /// The directory in which it is made, whole or not at all.
    pub(super) dir: PathBuf,
    /// The file's name there.
    pub(super) name: CString,
    /// Path as the user is told.
    pub(super) shown: PathBuf,
    stream: Option<Stream>,
}

/// A target that is no regular file: it is opened and written to, once what comes is whole in a directory of
/// its own.
#[derive(Debug)]
struct Stream {
    to: File,
    staged_in: PathBuf,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.staged_in);
    }
}

impl Target {
    /// For what is called `name` at the server: the name in a directory that `output` is, or `output` itself. A symbolic link there is
    /// followed. `overwrite` is needed for a disk as for a file; what is no file is opened only where all that comes `is_of_one` file from
    /// its start on.
    pub(super) fn of(
        output: Option<&Path>,
        name: &[u8],
        overwrite: bool,
        is_of_one: bool,
    ) -> anyhow::Result<Self> {
        let output = output.unwrap_or(Path::new("."));
        let shown = if output.is_dir() { output.join(OsStr::from_bytes(name)) } else { output.to_owned() };
        let cannot = || format!("cannot write to {}", shown.display());
        match fs::metadata(&shown) {
            Ok(found) if found.is_file() => Self::named(&fs::canonicalize(&shown)?, &shown),
            // What is added to is the directory of that name, and nothing that a link of it leads to.
            Ok(found) if found.is_dir() => Self::named(&shown, &shown),
            Ok(found) if found.file_type().is_block_device() && !overwrite => {
                bail!("{} is a disk; --overwrite writes over what it holds", shown.display())
            }
            // A pipe is not opened until a process reads it.
            Ok(_) if !is_of_one => bail!(
                "{} takes the bytes of one whole file: leave --recursive and --resume out",
                shown.display()
            ),
            Ok(_) => {
                let to = OpenOptions::new().write(true).open(&shown).with_context(cannot)?;
                let staged_in = staging().with_context(cannot)?;
                let (dir, name) = (staged_in.clone(), CString::from(c"file"));
                Ok(Self { dir, name, shown, stream: Some(Stream { to, staged_in }) })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Self::named(&followed(shown.clone()).with_context(cannot)?, &shown)
            }
            Err(error) => Err(error).with_context(cannot),
        }
    }

    fn named(path: &Path, shown: &Path) -> anyhow::Result<Self> {
        let name = path.file_name().with_context(|| format!("{} is no name", shown.display()))?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = CString::new(name.as_bytes())?;
        Ok(Self { dir: dir.to_owned(), name, shown: shown.to_owned(), stream: None })
    }

    /// Returns where the whole file lies.
    pub(super) fn path(&self) -> PathBuf {
        self.dir.join(OsStr::from_bytes(self.name.as_bytes()))
    }

    /// Finishes a file that is whole.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let mut whole = File::open(stream.staged_in.join("file"))?;
        let written = io::copy(&mut whole, &mut stream.to);
        written.map(drop).with_context(|| format!("cannot write to {}", self.shown.display()))
    }
}

/// Returns what a link leads to that leads nowhere yet, as a shell's `>` makes it.
fn followed(mut path: PathBuf) -> io::Result<PathBuf> {
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new(".")).join(to),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(rustix::io::Errno::LOOP))
}

/// Makes a private directory, which is removed in the end.
fn staging() -> io::Result<PathBuf> {
    for number in 0..TRIES_MAX {
        let path = std::env::temp_dir().join(format!("linerate-get-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// As many as the kernel follows.
const LINKS_MAX: u32 = 40;
const TRIES_MAX: u32 = 1_000;
