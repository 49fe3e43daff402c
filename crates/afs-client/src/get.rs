//! Files and trees of a cell as local ones.
//!
//! A file comes under a name of its own and gets the one that was asked for when it is whole. What came of one that broke off is kept
//! under a name that says of which file and version it is a part, so that another attempt may go on from there.

use std::ffi::CString;
use std::io::ErrorKind;
use std::rc::Rc;
use std::sync::Arc;

use afs_wire::Fid;
use lane::fs::{Dir, Timestamp};
use transfer::{Landing, Progress, Tree};

use crate::cell::Found;
use crate::directory;
use crate::error::Error;
use crate::fetch::{self, Interrupted, Plan};
use crate::local::{self, LocalFile};
use crate::path::TEXT_MAX;
use crate::status::FileType;

/// Options of getting files.
#[derive(Clone, Debug)]
pub struct Get {
    /// Set if local files that have the name are replaced.
    pub overwrite: bool,
    /// Set if a file goes on from where an earlier attempt at the same version broke off.
    pub resume: bool,
    /// Counts of what has come so far.
    pub progress: Arc<Progress>,
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
        if !self.overwrite && local::of(name, transfer::is_taken(dir, name).await)? {
            return Err(Error::Taken(local::shown(name)));
        }
        let length = found.metadata.length;
        let landing = landing(name, found)?;
        let (file, from) = local::of(name, landing.begin(dir, self.resume, length).await)?;
        self.progress.want(length - from);
        let file = Rc::new(LocalFile::new(file, name, &self.progress));
        let plan = Plan { from, ..Plan::of(found.fid, &found.metadata) };
        match fetch::whole(&found.server, plan, Rc::clone(&file), self.progress.moved()).await {
            Ok(()) => {
                let modified = Timestamp { secs: found.metadata.modified.into(), nanos: 0 };
                let attributes = (found.metadata.mode & 0o777, modified);
                let finished = landing.finish(dir, name, file.file(), attributes, self.overwrite).await;
                if finished.is_err() {
                    // Why it has no name is what matters.
                    let _ = landing.keep(dir, file.file(), 0).await;
                }
                local::of(name, finished)?;
                self.progress.whole();
                Ok(length - from)
            }
            Err(Interrupted { error, upto }) => {
                // That it broke off is what matters.
                let _ = landing.keep(dir, file.file(), upto).await;
                Err(error)
            }
        }
    }

    /// Gets a directory with all beneath it as `name` of `dir`; a local directory of the name is added to. Symbolic links
    /// come as such, mount points are left alone.
    ///
    /// # Errors
    /// Of the directory itself; what ends all, as that the server does not answer. Any other failure beneath it is
    /// counted in [`Tree::failed`], reported by [`Progress::take_failures`], and the rest comes.
    pub async fn tree(&self, found: &Found, dir: &Dir, name: &CString) -> Result<Tree, Error> {
        let mut tree = Tree::default();
        // What is still to be looked into: where it lies below `dir`, and what it is.
        let mut ahead = vec![(name.clone(), found.fid, found.metadata.mode)];
        while let Some((path, fid, mode)) = ahead.pop() {
            local::go_on(&self.progress)?;
            let opened = async {
                let here = local::of(&path, transfer::made(dir, &path, mode).await)?;
                Ok((here, directory::list_status(&found.server, fid).await?))
            };
            let opened = match opened.await {
                opened if tree.directories == 0 => Some(opened?),
                opened => self.progress.or_failed(path.as_bytes(), opened)?,
            };
            let Some((here, listed)) = opened else {
                tree.failed += 1;
                continue;
            };
            tree.directories += 1;
            let mut files = Vec::new();
            for (entry, status) in listed {
                let at = transfer::below(&path, &entry.name);
                let status = status.map_err(Error::Refused);
                let Some(metadata) = self.progress.or_failed(&at, status)? else {
                    tree.failed += 1;
                    continue;
                };
                let name = local::name_of(&entry.name)?;
                let there = Found { server: found.server.clone(), fid: entry.fid, metadata };
                match metadata.kind {
                    FileType::Directory => {
                        ahead.push((local::name_of(&at)?, entry.fid, metadata.mode));
                    }
                    FileType::File => files.push((name, there)),
                    FileType::Link => {
                        let made = self.link(&there, &here, &name).await;
                        match self.progress.or_failed(&at, made)? {
                            Some(()) => tree.links += 1,
                            None => tree.failed += 1,
                        }
                    }
                    FileType::MountPoint | FileType::Other(_) => tree.skipped += 1,
                }
            }
            self.files(&mut tree, &path, &here, files).await?;
        }
        Ok(tree)
    }

    /// Gets several files of one directory at once.
    async fn files(
        &self,
        tree: &mut Tree,
        path: &CString,
        here: &Dir,
        files: Vec<(CString, Found)>,
    ) -> Result<(), Error> {
        let got = files.into_iter().map(|(name, found)| async move {
            let got = self.file(&found, here, &name).await;
            self.progress.or_failed(&transfer::below(path, name.as_bytes()), got)
        });
        transfer::files_at_once(tree, got).await
    }

    async fn link(&self, found: &Found, here: &Dir, name: &CString) -> Result<(), Error> {
        let text = fetch::small(&found.server, found.fid, TEXT_MAX).await?;
        let target = local::name_of(&text)?;
        if self.overwrite {
            local::of(name, transfer::make_way(here, name).await)?;
        }
        match here.symlink(name, &target).await {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Error::Taken(local::shown(name))),
            made => local::of(name, made),
        }
    }
}

/// Returns the landing of a file: of which file and version it is a part is said by its number.
fn landing(name: &CString, found: &Found) -> Result<Landing, Error> {
    let Fid { volume, vnode, uniquifier } = found.fid;
    let version = found.metadata.data_version;
    local::of(name, Landing::new(name, &format!("{volume}.{vnode}.{uniquifier}.{version:x}")))
}
