//! A file that comes: under a name of its own, until it is whole. What came of one that broke off is kept under a name that says of
//! which file and version it is a part, so that another attempt may go on from there.

use std::ffi::CString;
use std::io::{self, ErrorKind};

use crate::distinct::distinct;
use lane::fs::{
    AttributeChange, CreateHow, Dir, File, FileKind, OpenHow, OpenKind, RenameHow, SetTime, Stat, Timestamp,
};

/// Names of a local file that is not whole: one while it comes, one for a part that is kept.
#[derive(Debug)]
pub struct Landing {
    /// Name while the file comes.
    under_way: CString,
    /// Name of the part that stays when the transfer breaks off.
    part: CString,
}

impl Landing {
    /// Makes the names for a file that is to be `name`; `version` is short, and says which file and which
    /// state of it comes.
    ///
    /// # Errors
    /// `InvalidInput` for a version with a zero byte.
    pub fn new(name: &CString, version: &str) -> io::Result<Self> {
        let name = distinct(name.as_bytes(), NAME_KEPT);
        let with =
            |what: &str| CString::new([b".", &*name, what.as_bytes()].concat()).map_err(io::Error::from);
        Ok(Self { under_way: with(".linerate-get")?, part: with(&format!(".{version}.linerate-part"))? })
    }

    /// Opens the file that bytes go to, and returns how many it has already: with `resume` those of a part
    /// that was kept, at most `length`.
    ///
    /// # Errors
    /// The file system's.
    pub async fn begin(&self, dir: &Dir, resume: bool, length: u64) -> io::Result<(File, u64)> {
        // Of an attempt that was killed: it is not known what of it is whole.
        match dir.unlink(&self.under_way).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if resume && dir.rename(&self.part, dir, &self.under_way, RenameHow::NoReplace).await.is_ok() {
            let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: true };
            let file = dir.open(&self.under_way, how).await?;
            let has = file.stat()?.size.min(length);
            return Ok((file, has));
        }
        let how = CreateHow { mode: 0o600, exclusive: true };
        Ok((dir.create(&self.under_way, how).await?, 0))
    }

    /// Keeps the first `upto` bytes of a file that broke off as its part; removes the file when `upto` is 0.
    ///
    /// # Errors
    /// The file system's.
    pub async fn keep(&self, dir: &Dir, file: &File, upto: u64) -> io::Result<()> {
        if upto == 0 {
            return dir.unlink(&self.under_way).await;
        }
        file.truncate(upto).await?;
        dir.rename(&self.under_way, dir, &self.part, RenameHow::Replace).await
    }

    /// Gives a whole file its attributes and its name. `replace` lets it replace a regular file, whose mode
    /// and owner stay.
    ///
    /// # Errors
    /// The file system's; `AlreadyExists`.
    pub async fn finish(
        &self,
        dir: &Dir,
        name: &CString,
        file: &File,
        (mode, modified): (u32, Timestamp),
        replace: bool,
    ) -> io::Result<()> {
        let replaced = if replace { there(dir, name).await? } else { None };
        if replaced.is_some_and(|replaced| replaced.kind != FileKind::File) {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "it is no regular file, and stays"));
        }
        let change = AttributeChange {
            uid: None,
            gid: None,
            mode: Some(replaced.map_or(mode, |replaced| replaced.mode & 0o777)),
            atime: SetTime::Keep,
            mtime: SetTime::At(modified),
        };
        let made = file.stat()?;
        if let Some(Stat { uid, gid, .. }) = replaced.filter(|old| (old.uid, old.gid) != (made.uid, made.gid))
        {
            // Others than root give nothing away: then it is theirs, as a file that an editor saves.
            let owner = AttributeChange { uid: Some(uid), gid: Some(gid), ..AttributeChange::NONE };
            let _ = file.set_attributes(owner).await;
        }
        file.set_attributes(change).await?;
        let how = if replace { RenameHow::Replace } else { RenameHow::NoReplace };
        dir.rename(&self.under_way, dir, name, how).await
    }
}

/// Returns whether anything has the name, links not followed.
///
/// # Errors
/// The file system's.
pub async fn is_taken(dir: &Dir, name: &CString) -> io::Result<bool> {
    Ok(there(dir, name).await?.is_some())
}

/// Removes a regular file or symbolic link that has the name, so that a link may take it.
///
/// # Errors
/// The file system's; `AlreadyExists` for what stays.
pub async fn make_way(dir: &Dir, name: &CString) -> io::Result<()> {
    match there(dir, name).await? {
        None => Ok(()),
        Some(Stat { kind: FileKind::File | FileKind::Symlink, .. }) => dir.unlink(name).await,
        Some(_) => Err(io::Error::new(ErrorKind::AlreadyExists, "it is neither file nor link, and stays")),
    }
}

/// Returns the attributes of what has the name, links not followed.
async fn there(dir: &Dir, name: &CString) -> io::Result<Option<Stat>> {
    match dir.stat_at(name).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the local directory `path` and makes it if it is missing, below existing directories: never through
/// a link.
///
/// # Errors
/// The file system's.
pub async fn made(dir: &Dir, path: &CString, mode: u32) -> io::Result<Dir> {
    let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
    let (above, name) = match path.as_bytes().iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path.as_bytes()[..at], &path.as_bytes()[at + 1..]),
        None => (&b"."[..], path.as_bytes()),
    };
    let above = dir.open(&CString::new(above)?, how).await.and_then(File::into_dir)?;
    let name = CString::new(name)?;
    match above.mkdir(&name, mode & 0o777 | 0o700).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    above.open(&name, how).await.and_then(File::into_dir)
}

/// Bytes of a name that the names beside it keep, so that with their additions they fit into 255.
const NAME_KEPT: usize = 150;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use lane::runtime::{RuntimeOptions, run_here};

    use super::*;

    #[test]
    fn a_file_has_its_name_when_it_is_whole_and_what_broke_off_goes_on() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_owned();
        run_here(RuntimeOptions::default(), async move {
            let dir = Dir::open_root(&path).unwrap();
            let name = CString::new("file").unwrap();
            let landing = Landing::new(&name, "7.1").unwrap();
            let (file, has) = landing.begin(&dir, true, 6).await.unwrap();
            assert_eq!(has, 0);
            file.write_at(0, b"abcd".to_vec().into()).await.0.unwrap();
            landing.keep(&dir, &file, 3).await.unwrap();
            assert!(!is_taken(&dir, &name).await.unwrap());
            // A part of another version is none of this.
            let other = Landing::new(&name, "7.2").unwrap();
            let (file, has) = other.begin(&dir, true, 6).await.unwrap();
            assert_eq!(has, 0);
            other.keep(&dir, &file, 0).await.unwrap();
            let (file, has) = landing.begin(&dir, true, 6).await.unwrap();
            assert_eq!(has, 3);
            file.write_at(3, b"def".to_vec().into()).await.0.unwrap();
            let modified = Timestamp { secs: 1_000_000_000, nanos: 0 };
            landing.finish(&dir, &name, &file, (0o640, modified), false).await.unwrap();
            assert_eq!(std::fs::read(path.join("file")).unwrap(), b"abcdef");
            assert_eq!(dir.stat_at(&name).await.unwrap().mtime.secs, 1_000_000_000);
            assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1, "nothing else stays");
            let (file, _) = landing.begin(&dir, false, 6).await.unwrap();
            let taken = landing.finish(&dir, &name, &file, (0o640, modified), false).await.unwrap_err();
            assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
            landing.finish(&dir, &name, &file, (0o640, modified), true).await.unwrap();
            // Over a file its mode stays, and over what is none nothing goes.
            let mode_of =
                |name: &str| std::fs::symlink_metadata(path.join(name)).unwrap().permissions().mode();
            std::fs::set_permissions(path.join("file"), PermissionsExt::from_mode(0o600)).unwrap();
            let (file, _) = landing.begin(&dir, false, 6).await.unwrap();
            landing.finish(&dir, &name, &file, (0o644, modified), true).await.unwrap();
            assert_eq!(mode_of("file") & 0o7777, 0o600);
            std::os::unix::fs::symlink("nowhere", path.join("link")).unwrap();
            let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
            for taken in ["link", "socket"] {
                let before = mode_of(taken);
                let name = CString::new(taken).unwrap();
                let (file, _) = landing.begin(&dir, false, 6).await.unwrap();
                let stays = landing.finish(&dir, &name, &file, (0o640, modified), true).await.unwrap_err();
                assert_eq!((stays.kind(), mode_of(taken)), (ErrorKind::AlreadyExists, before), "{taken}");
                landing.keep(&dir, &file, 0).await.unwrap();
                let way = make_way(&dir, &name).await;
                assert_eq!(way.is_ok(), taken == "link", "{taken}: {way:?}");
            }
            let below = made(&dir, &CString::new("below").unwrap(), 0o755).await.unwrap();
            made(&dir, &CString::new("below/deeper").unwrap(), 0o755).await.unwrap();
            made(&dir, &CString::new("below/deeper").unwrap(), 0o755).await.unwrap();
            assert!(is_taken(&below, &CString::new("deeper").unwrap()).await.unwrap());
        })
        .unwrap();
    }
}
