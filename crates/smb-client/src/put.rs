//! Local files and trees into a share.
//!
//! A file goes up under a name of its own and gets the one that was asked for when it is whole; of one that breaks off nothing stays.

use std::ffi::CString;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use lane::buffer::{Buf, BufClass};
use lane::fs::{Dir, DirEntry, File, FileKind, OpenHow, OpenKind, Stat};
use smb_wire::Status;
use smb_wire::body::query_info::info_type;
use smb_wire::create::Disposition;
use smb_wire::create::access::{attributes, rights};
use smb_wire::info::file::{BasicInformation, class};
use smb_wire::time::from_unix;
use transfer::Progress;
use zerocopy::{FromZeros, IntoBytes};

use crate::error::Error;
use crate::file::{Open, OpenParams};
use crate::local::{self, TransferError, joined};
use crate::tree::Tree;

/// Options of putting files.
#[derive(Clone, Debug)]
pub struct Put {
    /// Set if files of the share that have the name are replaced.
    pub overwrite: bool,
    /// Counts of what has gone so far.
    pub progress: Arc<Progress>,
}

impl Put {
    /// Puts the local file `from` of `dir` as `path` of the share. Returns its length.
    ///
    /// # Errors
    /// [`TransferError::Taken`] where something has the name; [`TransferError::Changed`] for a file that changed meanwhile; those
    /// of the server.
    pub async fn file(
        &self,
        tree: &Tree,
        dir: &Dir,
        from: &CString,
        path: &str,
    ) -> Result<u64, TransferError> {
        let open_params = OpenHow { kind: OpenKind::Any, symlinks: false, write: false };
        let file = local::of(from, dir.open(from, open_params).await)?;
        let stat = local::of(from, file.stat())?;
        if stat.kind == FileKind::Directory {
            return Err(TransferError::IsADirectory(from.to_string_lossy().into_owned()));
        }
        self.progress.want(stat.size);
        let (above, name) = path.rsplit_once('\\').unwrap_or(("", path));
        let staged = joined(above, &transfer::staged_name(name));
        let open_params = OpenParams { share: 0, ..OpenParams::overwrite() };
        let open = local::remote_error(path, Open::create(tree, &staged, &open_params).await)?;
        let stored = self.staged(&open, &file, from, &stat, path).await;
        if stored.is_err() {
            // The error that made it fail is returned; a name that stays is taken by the next attempt.
            let _ = open.set(info_type::FILE, class::DISPOSITION, 0, &[1]).await;
        }
        let closed = open.close(0).await;
        stored?;
        local::remote_error(path, closed)?;
        self.progress.whole();
        Ok(stat.size)
    }

    /// Puts the local directory `from` of `dir` with all beneath it as `path` of the share; a directory of the name is added to.
    /// Symbolic links, devices, sockets and pipes are left alone.
    ///
    /// # Errors
    /// Of the directory itself; what ends all, as that the connection is gone. Any other failure beneath it is counted
    /// in [`transfer::Tree::failed`], reported by [`Progress::take_failures`], and the rest goes.
    pub async fn tree(
        &self,
        tree: &Tree,
        dir: &Dir,
        from: &CString,
        path: &str,
    ) -> Result<transfer::Tree, TransferError> {
        let mut done = transfer::Tree::default();
        // What is still to be looked into: where it lies below `dir`, and in the share.
        let mut ahead = vec![(from.clone(), path.to_owned())];
        while let Some((place, path)) = ahead.pop() {
            local::check_stop(&self.progress)?;
            let opened = async {
                let open_params = OpenHow { kind: OpenKind::Directory, symlinks: false, write: false };
                let here = local::of(&place, dir.open(&place, open_params).await.and_then(File::into_dir))?;
                let entries = local::of(&place, here.entries(NAMES_MAX).await)?;
                made(tree, &path).await?;
                Ok((here, entries))
            };
            let opened = match opened.await {
                opened if done.directories == 0 => Some(opened?),
                opened => self.progress.or_failed(place.as_bytes(), opened)?,
            };
            let Some((here, entries)) = opened else {
                done.failed += 1;
                continue;
            };
            done.directories += 1;
            let mut files = Vec::new();
            for DirEntry { name, stat, .. } in entries {
                // Gone meanwhile.
                let Some(stat) = stat else { continue };
                match stat.kind {
                    FileKind::Directory | FileKind::File => {
                        let at = transfer::below(&place, &name);
                        let remote = local::remote_name(&name).map(|name| joined(&path, &name));
                        match self.progress.or_failed(&at, remote)? {
                            None => done.failed += 1,
                            Some(remote) if stat.kind == FileKind::Directory => {
                                ahead.push((CString::new(at).expect("of names without zeros"), remote));
                            }
                            Some(remote) => {
                                files.push((CString::new(name).expect("a file's name has no zero"), remote));
                            }
                        }
                    }
                    FileKind::Symlink | FileKind::Other => done.skipped += 1,
                }
            }
            self.files(&mut done, tree, &place, &here, files).await?;
        }
        Ok(done)
    }

    /// Puts several files of one directory at once.
    async fn files(
        &self,
        done: &mut transfer::Tree,
        tree: &Tree,
        place: &CString,
        here: &Dir,
        files: Vec<(CString, String)>,
    ) -> Result<(), TransferError> {
        let put = files.into_iter().map(|(from, path)| async move {
            let put = self.file(tree, here, &from, &path).await;
            self.progress.or_failed(&transfer::below(place, from.as_bytes()), put)
        });
        transfer::files_at_once(done, put).await
    }

    /// Stores the bytes, the times and the name.
    async fn staged(
        &self,
        open: &Open,
        file: &File,
        from: &CString,
        stat: &Stat,
        path: &str,
    ) -> Result<(), TransferError> {
        let piece = open.tree().channel().connection().negotiated().max_write.min(PIECE_BYTES);
        let moved = self.progress.moved();
        let mut going = stream::iter((0..stat.size).step_by(piece as usize))
            .map(|at| async move {
                local::check_stop(&self.progress)?;
                let wanted = u64::from(piece).min(stat.size - at) as usize;
                let data = local::of(from, read(file, at, wanted).await)?;
                if data.len() < wanted {
                    return Err(TransferError::Changed(from.to_string_lossy().into_owned()));
                }
                write(open, path, at, data).await?;
                Ok(wanted as u64)
            })
            .buffer_unordered(DEPTH);
        while let Some(bytes) = going.next().await {
            moved(bytes?);
        }
        let now = local::of(from, file.stat())?;
        if (now.size, now.mtime) != (stat.size, stat.mtime) {
            return Err(TransferError::Changed(from.to_string_lossy().into_owned()));
        }
        let written = from_unix(stat.mtime.secs, stat.mtime.nanos);
        let basic = BasicInformation { last_write_time: written.into(), ..BasicInformation::new_zeroed() };
        local::remote_error(path, open.set(info_type::FILE, class::BASIC, 0, basic.as_bytes()).await)?;
        match open.rename(path, self.overwrite).await {
            Err(error) if error.status() == Some(Status::OBJECT_NAME_COLLISION) => {
                Err(TransferError::Taken(path.to_owned()))
            }
            renamed => local::remote_error(path, renamed),
        }
    }
}

/// Makes a directory of the share, which may be there.
async fn made(tree: &Tree, path: &str) -> Result<(), TransferError> {
    // The root is there.
    if path.is_empty() {
        return Ok(());
    }
    let open_params = OpenParams {
        disposition: Disposition::OpenIf,
        access: rights::READ_ATTRIBUTES,
        attributes: attributes::DIRECTORY,
        ..OpenParams::make_directory()
    };
    let open = match Open::create(tree, path, &open_params).await {
        Err(error) if error.status() == Some(Status::NOT_A_DIRECTORY) => {
            return Err(TransferError::NotADirectory(path.to_owned()));
        }
        open => local::remote_error(path, open)?,
    };
    local::remote_error(path, open.close(0).await).map(drop)
}

async fn read(file: &File, at: u64, wanted: usize) -> std::io::Result<Buf> {
    let room = lane::current().buffers().get(BufClass::Large).await;
    let (read, buf) = file.read_at(at, wanted, room).await;
    read.map(|_| buf)
}

/// Writes all of it: a server that takes less at once has no room for the rest.
async fn write(open: &Open, path: &str, at: u64, data: Buf) -> Result<(), TransferError> {
    let len = data.len();
    let (written, _) = open.write(at, vec![data]).await;
    match local::remote_error(path, written)? as usize == len {
        true => Ok(()),
        false => Err(TransferError::Server(path.to_owned(), Error::Unexpected("fewer bytes written"))),
    }
}

/// Requests for one file under way.
const DEPTH: usize = 8;
/// Bytes of one at most: what a buffer of the lane holds.
const PIECE_BYTES: u32 = 256 << 10;
/// Names of a local directory.
const NAMES_MAX: usize = 1 << 20;
