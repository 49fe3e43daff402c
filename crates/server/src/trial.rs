//! State directory for a check, in place of the real one, so that nothing is left where a start would keep
//! something.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, FsWord, Mode, OFlags, PROC_SUPER_MAGIC, accessat, openat, statfs};
use rustix::io::Errno;

/// Temporary directory, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct TrialState(Option<PathBuf>);

impl TrialState {
    /// Makes a directory in place of `state`, in which a start could keep the same; none for `None`.
    ///
    /// # Errors
    /// What a start would find there, or the system's where there is no temporary directory.
    pub(crate) fn of(state: Option<&Path>) -> io::Result<Self> {
        let Some(state) = state else { return Ok(Self(None)) };
        let mut nearest = state;
        while let Err(error) = std::fs::metadata(nearest) {
            nearest = match nearest.parent() {
                Some(above) if error.kind() == io::ErrorKind::NotFound => above,
                _ => return Err(error),
            };
        }
        if !std::fs::metadata(nearest)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        may_make_in(nearest)?;
        for number in 0..TRIES_MAX {
            let path = std::env::temp_dir().join(format!("linerate-check-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(Some(path))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }
}

impl Drop for TrialState {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Checks whether the user that the server runs as by now can make files in a directory, without leaving one there.
///
/// # Errors
/// What making one would come to, such as a full disk, as far as the file system tells before a name is given.
pub(crate) fn may_make_in(dir: &Path) -> io::Result<()> {
    let nameless = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(CWD, dir, nameless, Mode::RUSR | Mode::WUSR) {
        Ok(_) => Ok(()),
        // As file systems say that know no files without names, some of them as they know none but their own.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            if OF_THE_KERNEL.contains(&statfs(dir)?.f_type) {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    format!("{} is of the kernel's, where no program makes files", dir.display()),
                ));
            }
            Ok(accessat(CWD, dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
        }
        Err(error) => Err(error.into()),
    }
}

/// File systems in which all files are the kernel's: proc, sysfs, both versions of cgroup, debugfs, tracefs
/// (linux/magic.h).
const OF_THE_KERNEL: [FsWord; 6] =
    [PROC_SUPER_MAGIC, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163];
const TRIES_MAX: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_where_a_start_would_keep_something_and_what_it_would_find_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("deep/state");
        let trial = TrialState::of(Some(&state)).unwrap();
        let path = trial.path().unwrap().to_owned();
        std::fs::write(path.join("self-signed.crt"), "x").unwrap();
        drop(trial);
        assert!(!path.exists() && !dir.path().join("deep").exists());
        std::fs::write(dir.path().join("file"), "x").unwrap();
        assert!(TrialState::of(Some(&dir.path().join("file/state"))).is_err());
        assert!(TrialState::of(Some(&dir.path().join("file"))).is_err());
        let none_there = TrialState::of(Some(Path::new("/proc/linerate"))).unwrap_err();
        assert_eq!(none_there.to_string(), "/proc is of the kernel's, where no program makes files");
        assert!(TrialState::of(None).unwrap().path().is_none());
    }
}
