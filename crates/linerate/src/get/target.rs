//! Targets of fetched files: the name of a file, which is there once it is whole, or a device, a pipe or
//! standard output, which is written to.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::staging::Staging;

/// Target of a fetched file.
#[derive(Debug)]
pub(super) struct Target {
    /// The directory in which it is made, whole or not at all.
    pub(super) dir: PathBuf,
    /// The file's name there.
    pub(super) name: CString,
    /// Path as the user sees it.
    pub(super) shown: PathBuf,
    stream: Option<Stream>,
}

/// A target that is no regular file: it is opened and written to, once what comes is whole in a directory of
/// its own.
#[derive(Debug)]
struct Stream {
    to: File,
    is_stdout: bool,
    staging: Staging,
}

impl Target {
    /// Chooses the target of what is called `name` at the server: that name in a directory that `output` is, or
    /// `output`.
    ///
    /// A symbolic link there is followed. Standard output is what `-` means, and every path that leads to it.
    /// `overwrite` is needed for a disk as for a file; what is no file is opened only where all that comes `is_of_one`
    /// file from its start on.
    pub(super) fn of(
        output: Option<&Path>,
        name: &[u8],
        overwrite: bool,
        is_of_one: bool,
    ) -> anyhow::Result<Self> {
        let output = output.unwrap_or(Path::new("."));
        let is_stdout = is_stdout(output)?;
        let shown = if output.is_dir() && !is_stdout {
            output.join(OsStr::from_bytes(name))
        } else {
            output.to_owned()
        };
        let cannot = || format!("cannot write to {}", shown.display());
        if is_stdout {
            if !is_of_one {
                bail!(
                    "standard output takes the bytes of one whole file: leave --recursive and --resume out"
                );
            }
            let to = io::stdout().as_fd().try_clone_to_owned().with_context(cannot)?.into();
            return Self::stream(to, true, shown.clone()).with_context(cannot);
        }
        match fs::metadata(&shown) {
            Ok(found) if found.file_type().is_socket() => {
                bail!("{} is a socket, which takes no files: give a file, pipe or device", shown.display())
            }
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
                Self::stream(to, false, shown.clone()).with_context(cannot)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Self::named(&followed(shown.clone()).with_context(cannot)?, &shown)
            }
            Err(error) => Err(error).with_context(cannot),
        }
    }

    fn stream(to: File, is_stdout: bool, shown: PathBuf) -> io::Result<Self> {
        let staging = Staging::new()?;
        let (dir, name) = staging.place();
        Ok(Self { dir, name, shown, stream: Some(Stream { to, is_stdout, staging }) })
    }

    /// Returns whether the file goes to standard output, so that nothing else may.
    pub(super) fn is_stdout(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_stdout)
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
        let mut whole = File::open(stream.staging.file())?;
        let written = match io::copy(&mut whole, &mut stream.to) {
            // `| head` wants no more, which is no failure.
            Err(error) if stream.is_stdout && error.kind() == ErrorKind::BrokenPipe => Ok(0),
            written => written,
        };
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

/// Returns whether a path is `-` or leads to what standard output is. The null device is any output's.
fn is_stdout(output: &Path) -> io::Result<bool> {
    if output == Path::new("-") {
        return Ok(true);
    }
    let id = |found: Metadata| (found.dev(), found.ino());
    // A closed one is nothing that a path could lead to.
    let Ok(stdout) = io::stdout().as_fd().try_clone_to_owned() else { return Ok(false) };
    let stdout = id(File::from(stdout).metadata()?);
    let is_null = fs::metadata("/dev/null").is_ok_and(|null| id(null) == stdout);
    Ok(!is_null && fs::metadata(output).is_ok_and(|found| id(found) == stdout))
}

/// Most symbolic links in a row: as many as the kernel follows.
const LINKS_MAX: u32 = 40;
