//! Files and trees of a share as local ones. A file has its name when it is whole ([`transfer::Landing`]).

use std::ffi::CString;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use lane::buffer::Buf;
use lane::fs::{Dir, File, Timestamp};
use smb_wire::body::close::FLAG_POSTQUERY_ATTRIB;
use smb_wire::create::CreateResponseFixed;
use smb_wire::create::access::attributes;
use smb_wire::time::to_unix;
use transfer::{Landing, Progress};

use crate::file::{Data, Open, OpenParams};
use crate::local::{self, TransferError, joined};
use crate::tree::Tree;

/// Options of getting files.
#[derive(Clone, Debug)]
pub struct Get {
    /// Set if local files that have the name are replaced.
    pub overwrite: bool,
    /// Set if a file goes on from where an earlier attempt at the same state of it broke off.
    pub resume: bool,
    /// Counts of what has come so far.
    pub progress: Arc<Progress>,
}

impl Get {
    /// Gets the file `path` of the share as `name` of `dir`. Returns how many bytes came, those of an earlier attempt not among them.
    ///
    /// # Errors
    /// [`TransferError::Taken`] where something has the name; [`TransferError::Changed`] and those of the server: what came so
    /// far is kept for [`Get::resume`].
    pub async fn file(
        &self,
        tree: &Tree,
        path: &str,
        dir: &Dir,
        name: &CString,
    ) -> Result<u64, TransferError> {
        if !self.overwrite && local::of(name, transfer::is_taken(dir, name).await)? {
            return Err(TransferError::Taken(name.to_string_lossy().into_owned()));
        }
        let open = local::remote_error(path, Open::create(tree, path, &OpenParams::read()).await)?;
        let got = self.opened(&open, path, dir, name).await;
        if got.is_err() {
            // That it broke off is what matters.
            let _ = open.close(0).await;
        }
        got
    }

    /// Gets a directory with all beneath it as `name` of `dir`; a local directory of the name is added to. What is a reparse point
    /// is left alone.
    ///
    /// # Errors
    /// Of the directory itself; what ends all, as that the connection is gone. Any other failure beneath it is counted
    /// in [`transfer::Tree::failed`], reported by [`Progress::take_failures`], and the rest comes.
    pub async fn tree(
        &self,
        tree: &Tree,
        path: &str,
        dir: &Dir,
        name: &CString,
    ) -> Result<transfer::Tree, TransferError> {
        let mut done = transfer::Tree::default();
        // What is still to be looked into: where it lies in the share, and below `dir`.
        let mut ahead = vec![(path.to_owned(), name.clone())];
        while let Some((path, place)) = ahead.pop() {
            local::check_stop(&self.progress)?;
            let opened = async {
                let here = local::of(&place, transfer::made(dir, &place, DIRECTORY_MODE).await)?;
                Ok((here, local::remote_error(&path, tree.names(&path).await)?))
            };
            let opened = match opened.await {
                opened if done.directories == 0 => Some(opened?),
                opened => self.progress.or_failed(place.as_bytes(), opened)?,
            };
            let Some((here, names)) = opened else {
                done.failed += 1;
                continue;
            };
            done.directories += 1;
            let mut files = Vec::new();
            for listed in names {
                let name = local::local_name(&listed.name);
                let told = transfer::below(&place, listed.name.as_bytes());
                let Some(name) = self.progress.or_failed(&told, name)? else {
                    done.failed += 1;
                    continue;
                };
                let below = joined(&path, &listed.name);
                if listed.attributes & attributes::REPARSE_POINT != 0 {
                    done.skipped += 1;
                } else if listed.attributes & attributes::DIRECTORY != 0 {
                    let at = transfer::below(&place, name.as_bytes());
                    ahead.push((below, CString::new(at).expect("of names without zeros")));
                } else {
                    files.push((below, name));
                }
            }
            self.files(&mut done, tree, &place, &here, files).await?;
        }
        Ok(done)
    }

    /// Gets several files of one directory at once.
    async fn files(
        &self,
        done: &mut transfer::Tree,
        tree: &Tree,
        place: &CString,
        here: &Dir,
        files: Vec<(String, CString)>,
    ) -> Result<(), TransferError> {
        let got = files.into_iter().map(|(path, name)| async move {
            let got = self.file(tree, &path, here, &name).await;
            self.progress.or_failed(&transfer::below(place, name.as_bytes()), got)
        });
        transfer::files_at_once(done, got).await
    }

    async fn opened(&self, open: &Open, path: &str, dir: &Dir, name: &CString) -> Result<u64, TransferError> {
        let created = *open.created();
        let length = created.end_of_file.get();
        let version = format!("{:x}.{length:x}", created.last_write_time.get());
        let landing = local::of(name, Landing::new(name, &version))?;
        let (file, from) = local::of(name, landing.begin(dir, self.resume, length).await)?;
        self.progress.want(length - from);
        let (mut upto, moved) = (from, self.progress.moved());
        let came = self.bytes(open, path, from, |data| {
            let (at, file) = (upto, &file);
            upto += data.len() as u64;
            moved(data.len() as u64);
            async move { local::of(name, write(file, at, &data).await) }
        });
        let came = match came.await {
            Ok(()) => self.is_same(open, path, &created).await,
            Err(error) => Err(error),
        };
        if let Err(error) = came {
            // That it broke off is what matters. Of a file that changed nothing fits.
            let upto = if matches!(error, TransferError::Changed(_)) { 0 } else { upto };
            let _ = landing.keep(dir, &file, upto).await;
            return Err(error);
        }
        let is_readonly = created.file_attributes.get() & attributes::READONLY != 0;
        let (secs, nanos) = to_unix(created.last_write_time.get());
        let mode = if is_readonly { 0o444 } else { 0o644 };
        let finished =
            landing.finish(dir, name, &file, (mode, Timestamp { secs, nanos }), self.overwrite).await;
        if finished.is_err() {
            // Why it has no name is what matters.
            let _ = landing.keep(dir, &file, 0).await;
        }
        local::of(name, finished)?;
        self.progress.whole();
        Ok(length - from)
    }

    /// Reads the bytes of an open file from `from` to the end that it had when it was opened, in their order; several
    /// requests are under way meanwhile.
    ///
    /// # Errors
    /// The server's; [`TransferError::Changed`] where the file has become shorter; what `take` fails with.
    pub async fn bytes<F: Future<Output = Result<(), TransferError>>>(
        &self,
        open: &Open,
        path: &str,
        from: u64,
        mut take: impl FnMut(Data) -> F,
    ) -> Result<(), TransferError> {
        let length = open.created().end_of_file.get();
        let piece = open.tree().channel().connection().negotiated().max_read.min(PIECE_BYTES);
        let pieces = (from..length).step_by(piece as usize);
        let mut coming = stream::iter(pieces)
            .map(|at| async move {
                let wanted = u64::from(piece).min(length - at) as u32;
                let data = local::remote_error(path, open.read(at, wanted).await)?;
                let is_whole = data.len() == wanted as usize;
                is_whole.then_some(data).ok_or_else(|| TransferError::Changed(path.to_owned()))
            })
            .buffered(DEPTH);
        while let Some(data) = coming.next().await {
            local::check_stop(&self.progress)?;
            take(data?).await?;
        }
        Ok(())
    }

    /// Closes the file, and looks whether it is as it was when it was opened.
    async fn is_same(
        &self,
        open: &Open,
        path: &str,
        created: &CreateResponseFixed,
    ) -> Result<(), TransferError> {
        let closed = local::remote_error(path, open.close(FLAG_POSTQUERY_ATTRIB).await)?;
        let is_same =
            closed.end_of_file == created.end_of_file && closed.last_write_time == created.last_write_time;
        if is_same { Ok(()) } else { Err(TransferError::Changed(path.to_owned())) }
    }
}

async fn write(file: &File, at: u64, data: &[u8]) -> std::io::Result<()> {
    file.write_at(at, Buf::from(data.to_vec())).await.0
}

/// Requests for one file under way.
const DEPTH: usize = 8;
/// Bytes of one at most.
const PIECE_BYTES: u32 = 1 << 20;
const DIRECTORY_MODE: u32 = 0o755;
