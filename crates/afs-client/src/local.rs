//! Local files as ends of transfers: packets are written as they lie, and filled by vectored reads.

use std::ffi::CString;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lane::buffer::Buf;
use lane::fs::File;
use rx_lane::{Held, Rooms};

use crate::error::Error;
use crate::fetch::Sink;
use crate::store::Source;

/// How far a transfer is, for who looks on from another thread; and the word to stop.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes moved.
    pub bytes: AtomicU64,
    /// Bytes that are known to be moved in all.
    pub bytes_wanted: AtomicU64,
    /// Files that are whole.
    pub files: AtomicU64,
    /// Set from outside: the transfer ends at its next step with [`Error::Interrupted`], and cleans up.
    pub stop: AtomicBool,
}

impl Progress {
    /// Bytes have moved.
    pub(crate) fn moved(self: &Arc<Self>) -> Rc<dyn Fn(u64)> {
        let progress = Arc::clone(self);
        Rc::new(move |bytes| {
            progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        })
    }

    pub(crate) fn want(&self, bytes: u64) {
        self.bytes_wanted.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn whole(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Fails once the word to stop was given.
    pub(crate) fn go_on(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// An open local file.
#[derive(Debug)]
pub(crate) struct LocalFile {
    file: File,
    name: String,
    progress: Arc<Progress>,
}

impl LocalFile {
    pub(crate) fn new(file: File, name: &CString, progress: &Arc<Progress>) -> Self {
        Self { file, name: shown(name), progress: Arc::clone(progress) }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Sink for LocalFile {
    async fn take(&self, offset: u64, held: Held) -> Result<(), Error> {
        self.progress.go_on()?;
        let (written, _packets) = self.file.write_vectored_at(offset, held.into_bufs()).await;
        written.map_err(|error| Error::Local(self.name.clone(), error))
    }

    async fn take_bytes(&self, offset: u64, bytes: Buf) -> Result<(), Error> {
        self.progress.go_on()?;
        let (written, _bytes) = self.file.write_at(offset, bytes).await;
        written.map_err(|error| Error::Local(self.name.clone(), error))
    }
}

impl Source for LocalFile {
    async fn fill(&self, offset: u64, rooms: &mut Rooms) -> Result<usize, Error> {
        self.progress.go_on()?;
        let (read, bufs) = self.file.read_vectored_at(offset, rooms.len(), rooms.bufs()).await;
        drop(bufs);
        read.map_err(|error| Error::Local(self.name.clone(), error))
    }

    fn file(&self) -> Result<Option<&File>, Error> {
        self.progress.go_on()?;
        Ok(Some(&self.file))
    }
}

/// A name as people read it.
pub(crate) fn shown(name: &CString) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}

/// An error of a local file that says its name.
pub(crate) fn of<T>(name: &CString, result: std::io::Result<T>) -> Result<T, Error> {
    result.map_err(|error| Error::Local(shown(name), error))
}

/// A name of a local directory.
pub(crate) fn name_of(bytes: &[u8]) -> Result<CString, Error> {
    CString::new(bytes).map_err(|_| Error::Name(String::from_utf8_lossy(bytes).into_owned()))
}
