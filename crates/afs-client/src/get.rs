//! Files and trees of a cell as local ones.
//!
//! A file comes under a name of its own and gets the one that was asked for when it is whole. What came of one that broke off is kept
//! under a name that says of which file and version it is a part, so that another attempt may go on from there.

use std::ffi::CString;
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;

use afs_wire::Fid;
use futures_util::{StreamExt, TryStreamExt, stream};
use lane::fs::{AttributeChange, CreateHow, Dir, File, OpenHow, OpenKind, RenameHow, SetTime, Timestamp};

use crate::cell::Found;
use crate::directory;
use crate::error::Error;
use crate::fetch::{self, Interrupted, Plan};
use crate::local::{self, LocalFile, Progress};
use crate::path::TEXT_MAX;
use crate::status::{FileType, Metadata};

/// How files are got.
#[derive(Clone, Debug)]
pub struct Get {
    /// Over local files that have the name.
    pub overwrite: bool,
    /// From where an earlier attempt at the same version broke off.
    pub resume: bool,
    /// Counts along.
    pub progress: Arc<Progress>,
}

/// What a tree had in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Directories, the first among them.
    pub directories: u64,
    /// Files.
    pub files: u64,
    /// Symbolic links.
    pub links: u64,
    /// Mount points, which are left alone; of a local tree, devices, sockets and pipes.
    pub skipped: u64,
    /// Bytes of files.
    pub bytes: u64,
}

impl Get {
    /// Gets one file as `name` of `dir`. Returns how many bytes came, those of an earlier attempt not among them.
    ///
    /// # Errors
    /// [`Error::Taken`] where something has the name; [`Error::Changed`] and those of the server: what came so far is
    /// kept for [`Get::resume`].
    pub async fn file(&self, found: &Found, dir: &Dir, name: &CString) -> Result<u64, Error> {
        if found.metadata.is_directory() {
            return Err(Error::IsADirectory(local::shown(name)));
        }
        if !self.overwrite {
            refuse_taken(dir, name).await?;
        }
        let length = found.metadata.length;
        let names = Names::of(name, found)?;
        let (file, from) = local::of(name, self.begin(dir, &names, length).await)?;
        self.progress.want(length - from);
        let file = Rc::new(LocalFile::new(file, name, &self.progress));
        let plan = Plan { from, ..Plan::of(found.fid, &found.metadata) };
        match fetch::whole(&found.server, plan, Rc::clone(&file), self.progress.moved()).await {
            Ok(()) => {
                let finished = self.finish(dir, name, &names, file.file(), &found.metadata).await;
                local::of(name, finished)?;
                self.progress.whole();
                Ok(length - from)
            }
            Err(Interrupted { error, upto }) => {
                // That it broke off is what matters.
                let _ = keep(dir, &names, file.file(), upto).await;
                Err(error)
            }
        }
    }

    /// Gets a directory with all beneath it as `name` of `dir`; a local directory of the name is added to. Symbolic links
    /// come as such, mount points are left alone.
    ///
    /// # Errors
    /// As [`file`](Self::file), at the first that fails.
    pub async fn tree(&self, found: &Found, dir: &Dir, name: &CString) -> Result<Tree, Error> {
        let mut tree = Tree::default();
        // What is still to be looked into: where it lies below `dir`, and what it is.
        let mut ahead = vec![(name.clone(), found.fid, found.metadata.mode)];
        while let Some((path, fid, mode)) = ahead.pop() {
            self.progress.go_on()?;
            let here = made(dir, &path, mode).await?;
            tree.directories += 1;
            let mut files = Vec::new();
            for (entry, status) in directory::list_status(&found.server, fid).await? {
                let metadata = status.map_err(Error::Refused)?;
                let name = local::name_of(&entry.name)?;
                let there = Found { server: found.server.clone(), fid: entry.fid, metadata };
                match metadata.kind {
                    FileType::Directory => {
                        let below = [path.as_bytes(), b"/", &entry.name].concat();
                        ahead.push((local::name_of(&below)?, entry.fid, metadata.mode));
                    }
                    FileType::File => files.push((name, there)),
                    FileType::Link => {
                        self.link(&there, &here, &name).await?;
                        tree.links += 1;
                    }
                    FileType::MountPoint | FileType::Other(_) => tree.skipped += 1,
                }
            }
            tree.files += files.len() as u64;
            tree.bytes += self.files(&here, files).await?;
        }
        Ok(tree)
    }

    /// Several files of one directory at once.
    async fn files(&self, here: &Dir, files: Vec<(CString, Found)>) -> Result<u64, Error> {
        let got = stream::iter(files)
            .map(|(name, found)| async move { self.file(&found, here, &name).await })
            .buffer_unordered(AT_ONCE);
        got.try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await
    }

    async fn link(&self, found: &Found, here: &Dir, name: &CString) -> Result<(), Error> {
        let text = fetch::small(&found.server, found.fid, TEXT_MAX).await?;
        let target = local::name_of(&text)?;
        if self.overwrite {
            match here.unlink(name).await {
                Err(error) if error.kind() != ErrorKind::NotFound => return local::of(name, Err(error)),
                _ => {}
            }
        }
        match here.symlink(name, &target).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Error::Taken(local::shown(name))),
            made => local::of(name, made),
        }
    }

    /// The file that bytes go to, and how many it has already.
    async fn begin(&self, dir: &Dir, names: &Names, length: u64) -> io::Result<(File, u64)> {
        // Of an attempt that was killed: nobody knows what of it is whole.
        match dir.unlink(&names.under_way).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if self.resume && dir.rename(&names.part, dir, &names.under_way, RenameHow::NoReplace).await.is_ok() {
            let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: true };
            let file = dir.open(&names.under_way, how).await?;
            let has = file.stat()?.size.min(length);
            return Ok((file, has));
        }
        let how = CreateHow { mode: 0o600, exclusive: true };
        Ok((dir.create(&names.under_way, how).await?, 0))
    }

    /// The file is whole: it gets its attributes and its name.
    async fn finish(
        &self,
        dir: &Dir,
        name: &CString,
        names: &Names,
        file: &File,
        metadata: &Metadata,
    ) -> io::Result<()> {
        let modified = Timestamp { secs: metadata.modified.into(), nanos: 0 };
        let change = AttributeChange {
            uid: None,
            gid: None,
            mode: Some(metadata.mode & 0o777),
            atime: SetTime::Keep,
            mtime: SetTime::At(modified),
        };
        file.set_attributes(change).await?;
        let how = if self.overwrite { RenameHow::Replace } else { RenameHow::NoReplace };
        dir.rename(&names.under_way, dir, name, how).await
    }
}

/// The names of a file that is not whole.
struct Names {
    /// While it comes.
    under_way: CString,
    /// Once it broke off: says of which file and version it is a part.
    part: CString,
}

impl Names {
    fn of(name: &CString, found: &Found) -> Result<Self, Error> {
        let Fid { volume, vnode, uniquifier } = found.fid;
        let version = found.metadata.data_version;
        let name = &name.as_bytes()[..name.as_bytes().len().min(NAME_KEPT)];
        let with = |what: &str| local::name_of(&[b".", name, what.as_bytes()].concat());
        Ok(Self {
            under_way: with(".linerate-get")?,
            part: with(&format!(".{volume}.{vnode}.{uniquifier}.{version:x}.linerate-part"))?,
        })
    }
}

/// What came of a file that broke off stays, if anything did; without gaps.
async fn keep(dir: &Dir, names: &Names, file: &File, upto: u64) -> io::Result<()> {
    if upto == 0 {
        return dir.unlink(&names.under_way).await;
    }
    file.truncate(upto).await?;
    dir.rename(&names.under_way, dir, &names.part, RenameHow::Replace).await
}

async fn refuse_taken(dir: &Dir, name: &CString) -> Result<(), Error> {
    match dir.stat_at(name).await {
        Ok(_) => Err(Error::Taken(local::shown(name))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => local::of(name, Err(error)),
    }
}

/// The local directory of this path, made if it is not there: never through a link.
async fn made(dir: &Dir, path: &CString, mode: u32) -> Result<Dir, Error> {
    let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
    let (above, name) = match path.as_bytes().iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path.as_bytes()[..at], &path.as_bytes()[at + 1..]),
        None => (&b"."[..], path.as_bytes()),
    };
    let above = dir.open(&local::name_of(above)?, how).await.and_then(File::into_dir);
    let (above, name) = (local::of(path, above)?, local::name_of(name)?);
    match above.mkdir(&name, mode & 0o777 | 0o700).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return local::of(path, Err(error)),
        _ => {}
    }
    local::of(path, above.open(&name, how).await.and_then(File::into_dir))
}

/// Files of one directory that come at once.
const AT_ONCE: usize = 8;
/// Bytes of a name that the names beside it have: what they add fits into 255.
const NAME_KEPT: usize = 150;
