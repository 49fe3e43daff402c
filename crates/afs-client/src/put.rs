//! Local files and trees into a cell.
//!
//! A file goes up under a name of its own and gets the one that was asked for when it is whole and the server says that it has all
//! bytes; of one that breaks off nothing stays.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use afs_wire::Fid;
use lane::fs::{Dir, DirEntry, File, FileKind, OpenHow, OpenKind, Stat};
use transfer::{Progress, Tree};

use crate::cell::Found;
use crate::directory;
use crate::error::Error;
use crate::file_server::FileServer;
use crate::local::{self, LocalFile};
use crate::status::{Metadata, of_new};
use crate::store;

/// Options of putting files.
#[derive(Clone, Debug)]
pub struct Put {
    /// Set if files of the cell that have the name are replaced.
    pub overwrite: bool,
    /// Counts of what has gone so far.
    pub progress: Arc<Progress>,
}

/// A directory of the cell.
#[derive(Clone, Debug)]
struct Place {
    server: FileServer,
    fid: Fid,
}

impl Put {
    /// Puts the local file `from` of `dir` as `name` into the directory `to`.
    ///
    /// # Errors
    /// [`Error::Taken`] where something has the name; [`Error::Size`], [`Error::Short`] for a file that changed
    /// meanwhile; those of the server.
    pub async fn file(&self, dir: &Dir, from: &CString, to: &Found, name: &[u8]) -> Result<Metadata, Error> {
        let place = Place { server: to.server.clone(), fid: to.fid };
        let known = directory::look_up(&place.server, place.fid, name).await?;
        self.one(dir, from, &place, name, known).await
    }

    /// Puts the local directory `from` of `dir` with all beneath it as `name` into the directory `to`; a directory of the
    /// name is added to. Symbolic links go up as such; devices, sockets and pipes are left alone.
    ///
    /// # Errors
    /// Of the directory itself; what ends all, as that the server does not answer. Any other failure beneath it is
    /// counted in [`Tree::failed`], reported by [`Progress::take_failures`], and the rest goes.
    pub async fn tree(&self, dir: &Dir, from: &CString, to: &Found, name: &[u8]) -> Result<Tree, Error> {
        let mut tree = Tree::default();
        let place = Place { server: to.server.clone(), fid: to.fid };
        let known = directory::look_up(&place.server, place.fid, name).await?;
        let first = self.directory(&place, name, known, 0o755).await?;
        // What is still to be looked into: where it lies below `dir`, and what it is in the cell.
        let mut ahead = vec![(from.clone(), first)];
        while let Some((path, place)) = ahead.pop() {
            local::go_on(&self.progress)?;
            let opened = async {
                let here = opened(dir, &path).await?;
                let entries = local::of(&path, here.entries(NAMES_MAX).await)?;
                Ok((here, entries, directory::list(&place.server, place.fid).await?))
            };
            let opened = match opened.await {
                opened if tree.directories == 0 => Some(opened?),
                opened => self.progress.or_failed(path.as_bytes(), opened)?,
            };
            let Some((here, entries, known)) = opened else {
                tree.failed += 1;
                continue;
            };
            tree.directories += 1;
            let has = |name: &[u8]| {
                let at = known.binary_search_by(|entry| entry.name.as_slice().cmp(name));
                at.ok().map(|at| known[at].fid)
            };
            let mut files = Vec::new();
            for DirEntry { name, stat, .. } in entries {
                // Gone meanwhile.
                let Some(stat) = stat else { continue };
                let at = transfer::below(&path, &name);
                match stat.kind {
                    FileKind::Directory => {
                        let made = self.directory(&place, &name, has(&name), stat.mode).await;
                        match self.progress.or_failed(&at, made)? {
                            Some(made) => ahead.push((local::name_of(&at)?, made)),
                            None => tree.failed += 1,
                        }
                    }
                    FileKind::File => {
                        let known = has(&name);
                        files.push((local::name_of(&name)?, name, known));
                    }
                    FileKind::Symlink => {
                        let made = self.link(&here, &place, &name, has(&name)).await;
                        match self.progress.or_failed(&at, made)? {
                            Some(()) => tree.links += 1,
                            None => tree.failed += 1,
                        }
                    }
                    FileKind::Other => tree.skipped += 1,
                }
            }
            self.files(&mut tree, &path, &here, &place, files).await?;
        }
        Ok(tree)
    }

    /// Puts several files of one directory at once.
    async fn files(
        &self,
        tree: &mut Tree,
        path: &CString,
        here: &Dir,
        place: &Place,
        files: Vec<(CString, Vec<u8>, Option<Fid>)>,
    ) -> Result<(), Error> {
        let put = files.into_iter().map(|(from, name, known)| async move {
            let put = self.one(here, &from, place, &name, known).await;
            let put = self.progress.or_failed(&transfer::below(path, &name), put)?;
            Ok(put.map(|metadata| metadata.length))
        });
        transfer::files_at_once(tree, put).await
    }

    async fn one(
        &self,
        dir: &Dir,
        from: &CString,
        place: &Place,
        name: &[u8],
        known: Option<Fid>,
    ) -> Result<Metadata, Error> {
        check(name)?;
        if let Some(fid) = known {
            if fid.is_directory() {
                return Err(Error::IsADirectory(String::from_utf8_lossy(name).into_owned()));
            }
            if !self.overwrite {
                return Err(Error::Taken(String::from_utf8_lossy(name).into_owned()));
            }
        }
        let how = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        let file = local::of(from, dir.open(from, how).await)?;
        let stat = local::of(from, file.stat())?;
        if stat.kind == FileKind::Directory {
            return Err(Error::IsADirectory(local::shown(from)));
        }
        self.progress.want(stat.size);
        let metadata = self.staged(file, from, &stat, place, name).await?;
        self.progress.whole();
        Ok(metadata)
    }

    /// Stores a file under a name of its own until it is whole.
    async fn staged(
        &self,
        file: File,
        from: &CString,
        stat: &Stat,
        place: &Place,
        name: &[u8],
    ) -> Result<Metadata, Error> {
        let Place { server, fid: directory } = place;
        let staged = transfer::staged_name_of_bytes(name);
        let modified = u32::try_from(stat.mtime.secs).ok();
        let change = of_new(stat.mode, modified);
        let created = match server.create(*directory, &staged, change).await {
            // Of an attempt that was killed.
            Err(Error::Refused(code)) if code.is_taken() => {
                server.remove(*directory, &staged).await?;
                server.create(*directory, &staged, change).await
            }
            created => created,
        };
        let fid = match created {
            // It may have been made all the same.
            Err(error @ Error::Call { .. }) => return Err(self.broke_off(place, &staged, error).await),
            created => created?,
        };
        let source = LocalFile::new(file, from, &self.progress);
        let stored = async {
            let metadata =
                store::whole(server, fid, change, stat.size, &source, self.progress.moved()).await?;
            server.rename(*directory, &staged, *directory, name).await?;
            Ok(metadata)
        };
        match stored.await {
            Ok(metadata) => Ok(metadata),
            Err(error) => Err(self.broke_off(place, &staged, error).await),
        }
    }

    /// Removes what did not get its name, and says what made it fail; also what stays, if it does.
    async fn broke_off(&self, place: &Place, staged: &[u8], error: Error) -> Error {
        if self.take_back(&place.server, place.fid, staged).await {
            return error;
        }
        Error::Left(String::from_utf8_lossy(staged).into_owned(), Box::new(error))
    }

    /// Removes a name; says whether it is gone. A server that does not answer or has just started is asked
    /// again for a while.
    async fn take_back(&self, server: &FileServer, directory: Fid, staged: &[u8]) -> bool {
        let deadline = lane::time::now() + TAKE_BACK_TIME;
        loop {
            match server.remove(directory, staged).await {
                Ok(()) => return true,
                Err(error) if error.is_not_found() => return true,
                Err(error) if !error.may_pass() => return false,
                Err(_) if lane::time::now() >= deadline || self.progress.is_stopped() => return false,
                Err(_) => lane::time::sleep(TAKE_BACK_EVERY).await,
            }
        }
    }

    async fn directory(
        &self,
        place: &Place,
        name: &[u8],
        known: Option<Fid>,
        mode: u32,
    ) -> Result<Place, Error> {
        check(name)?;
        let fid = match known {
            Some(fid) if fid.is_directory() => fid,
            Some(_) => return Err(Error::NotADirectory(String::from_utf8_lossy(name).into_owned())),
            None => place.server.make_directory(place.fid, name, of_new(mode, None)).await?,
        };
        Ok(Place { server: place.server.clone(), fid })
    }

    async fn link(&self, here: &Dir, place: &Place, name: &[u8], known: Option<Fid>) -> Result<(), Error> {
        check(name)?;
        let local = local::name_of(name)?;
        let target = local::of(&local, here.read_link_at(&local).await)?;
        match known {
            Some(_) if !self.overwrite => {
                return Err(Error::Taken(String::from_utf8_lossy(name).into_owned()));
            }
            Some(_) => place.server.remove(place.fid, name).await?,
            None => {}
        }
        // With a right to execute, lest it be a mount point.
        place.server.symlink(place.fid, name, &target, of_new(0o755, None)).await.map(drop)
    }
}

async fn opened(dir: &Dir, path: &CString) -> Result<Dir, Error> {
    let how = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
    local::of(path, dir.open(path, how).await.and_then(File::into_dir))
}

fn check(name: &[u8]) -> Result<(), Error> {
    if directory::is_plain(name) && name.len() <= afs_wire::directory::NAME_MAX {
        return Ok(());
    }
    Err(Error::Name(String::from_utf8_lossy(name).into_owned()))
}

/// Time for which a server is asked to remove what broke off: longer than a restart takes.
const TAKE_BACK_TIME: Duration = Duration::from_secs(60);
/// Time between two attempts.
const TAKE_BACK_EVERY: Duration = Duration::from_secs(1);
//@ limit: names of a local directory that is put
//@ section: Clients of AFS
//@ unit: name
//@ all: process: {}
//@ empty: refused
//@ counter: none
//@ attack: none, a client's own limit, against servers
//@ reach: server
/// Names of a local directory.
const NAMES_MAX: usize = 1 << 20;
